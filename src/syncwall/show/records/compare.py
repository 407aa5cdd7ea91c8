"""A comparison as plain data: seconds, bytes, US dollars.

Holds `CompareRecord` with `comparison_record`, `BesideRecord` with `beside_record`. Keys of
a run are those of `predict`.
"""

from typing_extensions import TypedDict

from syncwall.answer.difference import Ratio
from syncwall.cause import Cause
from syncwall.job.compare import Beside, ComparedRun, Comparison
from syncwall.job.completion import Completion
from syncwall.show.records.interface import record
from syncwall.show.records.job import Three
from syncwall.show.words import compare as words


@record
class ComparedJobRecord(TypedDict):
    """A whole job, with the keys that `predict` has for it."""

    steps: int
    """Optimizer steps."""
    finish_s: Three
    """From start to end."""
    finish_dates: list[str | None] | None
    """The same as dates (ISO 8601), if the job has a start."""
    effective_training_time: float
    """Share of the time that is useful."""
    cost_usd: Three | None
    """Null if no price is known."""
    owned_cost_usd: Three | None
    """If the GPUs are bought; null if nobody states what one costs."""
    energy_j: Three | None
    carbon_kg: Three | None
    """Of CO2 equivalents; null if no power is known."""
    """Null if no power is known."""
    ledger_s: dict[Cause, float]
    """Seconds by cause, a mean over the jobs that end."""


@record
class ComparedRunRecord(TypedDict):
    """One run."""

    name: str
    """Its letter, and what tells it from the others."""
    what: str
    """Model, machine and layout in words."""
    gpus: int
    step_s: float
    """Median of the time of a step."""
    step_interval_s: tuple[float, float]
    """P10 and P90 of it."""
    tokens_per_s_per_gpu: float
    """Tokens a second of each GPU."""
    tokens_per_s: float
    """Tokens a second of all GPUs."""
    mfu: float
    """Model FLOPs utilization, a fraction."""
    fits: bool
    """True if the fullest GPU has enough memory."""
    memory_bytes: float
    """Of the fullest GPU."""
    memory_interval_bytes: tuple[float, float]
    """P10 and P90 of it."""
    ledger_s: dict[Cause, float]
    """Seconds by cause; they add up to the step."""
    usd_per_gpu_hour: float | None
    """Null if no price is known."""
    price_source: str | None
    """Where the price is from."""
    owned_usd_per_gpu_hour: float | None
    """If the GPUs are bought: price over hours of use, and electricity."""
    usd_per_1m_tokens: float | None
    """While steps follow each other, without spares and failures."""
    job: ComparedJobRecord | None
    """The whole job, if tokens or steps were given."""


@record
class RatioRecord(TypedDict):
    """One quantity of two runs; of a job the P50."""

    before: float
    after: float
    difference: float
    """After − before."""
    ratio: float
    """After / before."""
    ratio_interval: tuple[float, float]
    """P10 and P90 of it."""
    told_apart: bool
    """True if the difference is larger than the doubt: 1 lies outside of the interval."""
    probability_larger: float
    """That the second one really has more."""


@record
class BesideRecord(TypedDict):
    """A run beside the first."""

    before: str
    """Letter of the first run."""
    after: str
    """Letter of the run."""
    verdict: list[str]
    """In words."""
    told_apart: bool
    """True if one of them is surely faster."""
    same_setup: bool
    """True if the runs differ in layout, batch and number of GPUs only: their errors are shared."""
    ratios: dict[str, RatioRecord]
    """By quantity, as the keys of a run or of its job."""
    ledger_s: dict[Cause, float]
    """Seconds of the step by cause that the run has more than the first."""


@record
class CompareRecord(TypedDict):
    """Runs, and all of them but the first beside it."""

    runs: list[ComparedRunRecord]
    beside: list[BesideRecord]


def comparison_record(found: Comparison) -> CompareRecord:
    """The comparison with every number that it shows."""
    names = words.names_of(found.runs)
    return {
        "runs": [_run(one, name) for one, name in zip(found.runs, names, strict=True)],
        "beside": [beside_record(one) for one in found.beside],
    }


def _run(one: ComparedRun, name: str) -> ComparedRunRecord:
    step, price = one.prediction, one.price
    return {
        "name": name,
        "what": words.what_runs(one),
        "gpus": one.gpus,
        "step_s": step.step_s,
        "step_interval_s": step.step_interval_s,
        "tokens_per_s_per_gpu": step.tokens_per_s_per_gpu,
        "tokens_per_s": one.tokens_per_s,
        "mfu": step.mfu,
        "fits": step.fits,
        "memory_bytes": step.memory_bytes,
        "memory_interval_bytes": step.room.interval_bytes,
        "ledger_s": dict(step.ledger),
        "usd_per_gpu_hour": None if price is None else price[0],
        "price_source": None if price is None else price[1],
        "owned_usd_per_gpu_hour": one.owned_usd_per_gpu_hour,
        "usd_per_1m_tokens": one.usd_per_1m_tokens,
        "job": None if one.completion is None else _job(one.completion),
    }


def _job(done: Completion) -> ComparedJobRecord:
    dates = done.finish_dates
    return {
        "steps": done.job.total_steps,
        "finish_s": done.finish_s,
        "finish_dates": None if dates is None else [d.isoformat() if d else None for d in dates],
        "effective_training_time": done.effective,
        "cost_usd": done.cost_usd,
        "owned_cost_usd": done.owned_cost_usd,
        "energy_j": done.energy_j,
        "carbon_kg": done.carbon_kg,
        "ledger_s": dict(done.ledger),
    }


def beside_record(one: Beside) -> BesideRecord:
    """A run beside the first."""
    return {
        "before": one.before.name,
        "after": one.after.name,
        "verdict": words.verdict(one),
        "told_apart": one.is_told_apart,
        "same_setup": one.is_same_setup,
        "ratios": {name: _ratio(ratio) for name, ratio in one.ratios.items()},
        "ledger_s": one.ledger_s,
    }


def _ratio(one: Ratio) -> RatioRecord:
    return {
        "before": one.before,
        "after": one.after,
        "difference": one.difference,
        "ratio": one.value,
        "ratio_interval": one.interval,
        "told_apart": one.is_told_apart,
        "probability_larger": one.probability,
    }
