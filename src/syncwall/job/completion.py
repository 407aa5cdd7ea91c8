"""When a job will be done, what it will cost, where its time goes, and what would end it sooner.

All are played with the seed of the job itself, so that they meet the same failures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall import units
from syncwall.answer.prediction import Prediction, predict
from syncwall.catalogue import Folders, catalogue_overlay, takes_catalogue
from syncwall.cause import Cause
from syncwall.describe import Job, Layout, Run
from syncwall.describe.base import Description
from syncwall.describe.files import RunFile
from syncwall.describe.reading import read
from syncwall.job.bill import Bill, bill_of
from syncwall.job.job_plan import daly_s, young_s
from syncwall.job.settled_job import (
    QUICK_DETECTION_S,
    Input,
    PredictedPhase,
    PredictedPhases,
    SettledJob,
    job_plan,
    predicted_phases,
)
from syncwall.job.simulation import (
    Progress,
    SimulatedJobs,
    is_endless,
    refuse_endless,
    simulate_all,
)
from syncwall.problems import InputError, option
from syncwall.public import Answer, Endless, Late, Part, published
from syncwall.records import plain
from syncwall.timeline.ledger import Ledger
from syncwall.units import Dimension

QUANTILES = (0.1, 0.5, 0.9)
Spread = tuple[Endless, Endless, Endless]
"""P10, P50 and P90; infinite for what never ends."""


@takes_catalogue
def finish(
    job: Job | str | Path | Mapping[str, Any],
    prediction: Prediction | None = None,
    *,
    progress: Progress | None = None,
    workers: int = 1,
    catalogue: Folders = None,
) -> "Completion":
    """When `job`, described or in a file, will be done.

    `prediction` is that of its run, made here if not given. Beside that of a recorded program, the
    job is the rest of its keys: {"steps": 100_000}, or "tokens" or "samples".

    The job is played through `job.simulations` times; the same seed gives the same answer.

    Examples:
        >>> import syncwall as sw
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=16,
        ...              layout=sw.Layout(shard="fsdp", global_batch=512))
        >>> done = sw.finish(sw.Job(run=run, tokens=1e12))
        >>> done
        <Completion llama-3.1-8b on 128 h100-sxm: ... steps in ... days, ...% effective>
        >>> low_s, half_s, high_s = done.finish_s
    """
    if isinstance(job, Mapping):
        if prediction is None:
            raise TypeError("keys of a job stand beside the prediction of a recorded program")
        job = recorded_job(prediction, job)
    job = job if isinstance(job, Job) else read(Path(job), Job)
    prediction = prediction or predict(job.run)
    return finish_all([job], prediction, progress=progress, workers=workers)[0]


def recorded_job(prediction: Prediction, keys: Mapping[str, Any]) -> Job:
    """The job of a recorded program that goes on for so many steps, tokens or samples of `keys`."""
    program, keys = prediction.program, dict(keys)
    for name, each in (("tokens", program.tokens), ("samples", program.samples)):
        amount = keys.pop(name, None)
        if amount is None:
            continue
        if not each:
            raise InputError.of(
                f"nobody knows how many {name} a step of the program has: write {option('steps')} N"
            )
        if "steps" in keys:
            raise InputError.of(f"write {option('steps')} or {option(name)}, not both", key=name)
        keys["steps"] = steps_of(name, amount, each)
    layer = {"name": "recorded", "parameters": max(round(program.parameters), 1), "activation_bytes": 1.0}
    model = {"name": program.command or "recorded program", "stack": [{**layer, "forward_flops": 1.0}]}
    cluster = prediction.cluster
    run = Run.model_validate({"model": model, "cluster": cluster, "layout": Layout().resolved(cluster.gpus)})
    job = RunFile().job(run, keys)
    if job is None:
        raise InputError.of(f"how long is the job? write {option('steps')} 100000")
    return job


def steps_of(name: str, amount: Any, each: float) -> int:
    """Steps that train on an `amount` (1.2M) of tokens or samples, of which a step has `each`."""
    try:
        return -int(-units.parse(f"{amount}", Dimension.TOKENS) // each)
    except (ValueError, OverflowError):
        raise InputError.of(f'"{amount}" is not a number of {name}: write 1000000 or 1M', key=name) from None


def finish_all(
    jobs: Sequence[Job],
    prediction: Prediction,
    phases: PredictedPhases | None = None,
    *,
    progress: Progress | None = None,
    workers: int = 1,
) -> list["Completion"]:
    """The same for several jobs of one run, which all meet the failures of the first one's seed.

    `phases` are those of all of them, made here if not given.
    """
    phases = phases or predicted_phases(jobs[0], prediction)
    longest = phases.longest.prediction
    settled = [job_plan(job, prediction, phases) for job in jobs]
    plans, first = [one.plan for one in settled], jobs[0]
    for plan in plans:
        refuse_endless(plan)
    outcomes = simulate_all(plans, first.simulations, int(first.seed), workers=workers, progress=progress)
    return [
        Completion(job, longest, one, outcome, bill_of(job, longest, one.plan), phases)
        for job, one, outcome in zip(jobs, settled, outcomes, strict=True)
    ]


def no_job(prediction: Prediction) -> "Completion | None":
    """The whole job, if tokens or steps were given."""
    return None


_JOB: Final = (
    "verdict steps=phases.steps phases=_named_phases finish_s finish_dates finished_share "
    "without_interruptions_s=settled.plan.run_s interruptions "
    "mean_between_interruptions_s=mean_between_s effective_training_time=effective "
    "ledger_s=ledger mean_s cost_usd usd_per_gpu_hour=bill.usd_per_gpu_hour "
    "prices_usd_per_gpu_hour=bill.prices_usd_per_gpu_hour cost_range_usd "
    "owned_usd_per_gpu_hour=bill.owned_usd_per_gpu_hour owned_cost_usd capex_usd=bill.capex_usd "
    "break_even_utilisation=bill.break_even_utilisation energy_j carbon_kg "
    "gpus_paid=bill.gpus spare_nodes=settled.plan.spares "
    "nodes_taken_by_a_failure=settled.domain_nodes checkpoint=_checkpoint causes_per_day inputs "
    "simulations=job.simulations seed=job.seed"
)


@published(_JOB, "next=changes")
@dataclass(frozen=True)
class Completion(Answer):
    """When a job is done and what it costs."""

    verb = "predict"
    without_changes = Part(_JOB)
    _outlook = Part(
        "steps=job.total_steps finish_s finish_dates effective_training_time=effective cost_usd",
        "owned_cost_usd energy_j carbon_kg ledger_s=ledger",
        text="The whole job, if tokens or steps were given.",
    )
    _checkpoint = Part(
        "bytes=settled.checkpoint_bytes blocking_s=settled.plan.blocking_s",
        "written_s=settled.plan.written_s interval_s=settled.plan.interval_s",
        "best_interval_s=settled.best_interval_s young_s daly_s",
        text="How the job saves its state.",
    )
    verdict = Late("show.job:verdict")
    changes = Late("job.completion:job_changes")
    job: Job
    prediction: Prediction
    """Of the run; of a job with phases, that of the phase that takes most of the time."""
    settled: SettledJob
    outcome: SimulatedJobs
    bill: Bill
    phases: PredictedPhases

    def to_dict(self) -> dict[str, Any]:
        """As `predict` writes it: the step of the run, with the job in its place."""
        return self.prediction.to_dict() | {"job": plain(self)}

    @property
    def _named_phases(self) -> tuple[PredictedPhase, ...]:
        """In their order; empty if all steps are alike because the job has no phases."""
        return self.phases.parts if self.job.phases else ()

    @property
    def causes_per_day(self) -> dict[str, float]:
        """Interruptions a day by cause."""
        return {one.name: one.per_s * 86400.0 for one in self.settled.plan.causes}

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What the answer rests on, each with where it comes from."""
        return (*self.settled.inputs, *self.bill.inputs)

    @property
    def fits(self) -> bool:
        """True if the run, and every phase of it, fits in memory."""
        return self.phases.fits

    @cached_property
    def finish_s(self) -> Spread:
        """P10, P50 and P90 of the time from start to end; infinity for never."""
        return _quantiles(self.outcome.finish_s)

    @property
    def finish_dates(self) -> tuple[datetime | None, ...] | None:
        """The same as dates (ISO 8601), if the job says when it starts."""
        start = self.job.start
        return None if start is None else tuple(_date(start, seconds) for seconds in self.finish_s)

    @property
    def interruptions(self) -> Spread:
        """P10, P50 and P90 of how often the job stops without a plan."""
        return _quantiles(self.outcome.interruptions)

    @property
    def finished_share(self) -> float:
        """Share of the simulated jobs that came to their end."""
        return float(np.mean(self.outcome.finished))

    def chance_by(self, seconds: float) -> float:
        """Share of the simulated jobs that are done within `seconds` of the start."""
        return float(np.mean(self.outcome.finished & (self.outcome.finish_s <= seconds)))

    def chance_within(self, usd: float) -> float | None:
        """Share of the simulated jobs that are done for at most `usd`; None without a price."""
        cost = self.bill.usd(self.outcome.finish_s)
        return None if cost is None else float(np.mean(self.outcome.finished & (cost <= usd)))

    @cached_property
    def ledger(self) -> Ledger:
        """Mean seconds by cause of the jobs that came to their end; they add up to `mean_s`."""
        done = self.outcome.finished
        if not done.any():
            return Ledger()
        spent = self.outcome.ledger_s.items()
        return Ledger({cause: float(np.mean(seconds[done])) for cause, seconds in spent})

    @property
    def mean_s(self) -> float:
        """Mean time from start to end of the jobs that came to their end."""
        return float(self.ledger.total)

    @property
    def effective(self) -> float:
        """Share of the time that is useful: of steps that count over all time."""
        return float(self.ledger[Cause.USEFUL]) / self.mean_s if self.mean_s else 0.0

    @property
    def cost_usd(self) -> Spread | None:
        """P10, P50 and P90 of the bill."""
        low, middle, high = map(self.bill.usd, self.finish_s)
        return None if middle is None else (low, middle, high)

    @property
    def cost_range_usd(self) -> dict[str, tuple[Endless, Endless]]:
        """P50 of the bill at the lowest and at the highest price that sellers ask, by terms."""
        half_s, bill = self.finish_s[1], self.bill
        asked = bill.prices_usd_per_gpu_hour
        return {
            terms: (bill.rent_usd(low, half_s), bill.rent_usd(high, half_s))
            for terms, (low, high) in asked.items()
        }

    @property
    def owned_cost_usd(self) -> Spread | None:
        """P10, P50 and P90 of the bill if the GPUs are bought: their hours and electricity."""
        low, middle, high = map(self.bill.owned_usd, self.finish_s)
        return None if middle is None else (float(low), float(middle), float(high))

    @property
    def carbon_kg(self) -> Spread | None:
        """P10, P50 and P90 of the CO2 equivalents of the energy."""
        low, middle, high = map(self.bill.carbon_kg, self.finish_s)
        return None if middle is None else (low, middle, high)

    @property
    def energy_j(self) -> Spread | None:
        """P10, P50 and P90 of the energy."""
        low, middle, high = map(self.bill.joules, self.finish_s)
        return None if middle is None else (low, middle, high)

    @property
    def mean_between_s(self) -> Endless:
        """Mean time between interruptions, in the steady state."""
        rate = self.settled.plan.rate_per_s
        return 1.0 / rate if rate else float("inf")

    @property
    def young_s(self) -> Endless:
        """Young's checkpoint interval for this job."""
        return float(young_s(self.settled.plan.blocking_s, self.mean_between_s))

    @property
    def daly_s(self) -> Endless:
        """Daly's checkpoint interval for this job."""
        return float(daly_s(self.settled.plan.blocking_s, self.mean_between_s))

    def __repr__(self) -> str:
        run, half = self.phases.longest.run, self.finish_s[1] / 86400.0
        return (
            f"<Completion {run.model.name} on {run.gpus} {run.cluster.device.name}: "
            f"{self.phases.steps:,} steps in {half:.4g} days, {self.effective:.1%} effective>"
        )


def _quantiles(values: Any) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, QUANTILES, method="inverted_cdf")
    return float(low), float(middle), float(high)


def _date(start: datetime, seconds: float) -> datetime | None:
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return None


FASTER_STORAGE = 4.0


@published("change=what gained_s saved_usd effective_training_time=completion.effective")
@dataclass(frozen=True)
class JobChange:
    """One change, and what it is computed to bring."""

    what: str
    """In the words of the job's keys."""
    completion: Completion
    gained_s: Endless
    """Of the P50 from start to end; infinite if the job ends only with it."""
    saved_usd: float | None
    """Of the P50 of the bill; negative if it costs more."""


def job_changes(completion: Completion, progress: Progress | None = None) -> list[JobChange]:
    """Single changes of the job, the one that gains most first."""
    with catalogue_overlay(completion.prediction.pricing.catalogue):
        return _changes(completion, progress)


def _changes(completion: Completion, progress: Progress | None) -> list[JobChange]:
    prediction, phases = completion.prediction, completion.phases
    others = [one for one in tried(completion) if not is_endless(job_plan(one[1], prediction, phases).plan)]
    if not others:
        return []
    played = finish_all([job for _, job in others], prediction, phases, progress=progress)
    found = [
        JobChange(what, other, *_gains(completion, other))
        for (what, _), other in zip(others, played, strict=True)
    ]
    return sorted(found, key=lambda change: -change.gained_s)


def _gains(before: Completion, after: Completion) -> tuple[float, float | None]:
    neither = before.finish_s[1] == after.finish_s[1] == float("inf")
    gained = 0.0 if neither else before.finish_s[1] - after.finish_s[1]
    costs = before.cost_usd, after.cost_usd
    if costs[0] is None or costs[1] is None or not abs(gained) < float("inf"):
        return gained, None
    return gained, costs[0][1] - costs[1][1]


def tried(completion: Completion) -> Iterator[tuple[str, Job]]:
    """Jobs that differ from this one in a single thing, and what that is."""
    job, settled = completion.job, completion.settled
    plan, cluster = settled.plan, completion.prediction.cluster
    if plan.rate_per_s <= 0:
        return
    saving, known = job.checkpoints, job.measured
    if saving.interval_s is not None:
        yield "checkpoints.interval best", _with(job, "checkpoints", interval_s=None)
    if not plan.written_s:
        copied = _with(job, "measured", checkpoint_s=None)
        yield "checkpoints.blocking false", _with(copied, "checkpoints", blocking=False)
    written_s = plan.written_s or plan.blocking_s
    rate = FASTER_STORAGE * settled.checkpoint_bytes / max(written_s, 1e-9)
    faster = _with(job, "checkpoints", storage_bytes_per_s=rate)
    yield "storage 4 times as fast", _with(faster, "measured", checkpoint_s=None)
    if plan.detection_s > QUICK_DETECTION_S:
        quick = _with(job, "failures", detection_s=QUICK_DETECTION_S)
        yield "failures.detection 30 s", quick
    half_s = float(_input(completion, "restart")) / 2
    part = "failures" if known.restart_s is None else "measured"
    yield "restart in half the time", _with(job, part, restart_s=half_s)
    more = max(settled.domain_nodes, plan.spares // 2)
    yield (
        f"{more} more spare node{'s' * (more > 1)}",
        job.model_copy(update={"spare_nodes": plan.spares + more}),
    )
    if settled.domain_nodes > 1:
        gpus = int(cluster.gpus_per_node)
        one = _with(job, "failures", domain_gpus=gpus)
        yield f"failures.domain_gpus {gpus} (one node, not {settled.domain_nodes})", one
    if job.when_short == "wait":
        yield "when_short shrink", job.model_copy(update={"when_short": "shrink"})


def _with(job: Job, part: str, **fields: Any) -> Job:
    """`job` with other values in one of its parts."""
    before: Description = getattr(job, part)
    return job.model_copy(update={part: before.model_copy(update=fields)})


def _input(completion: Completion, name: str) -> float:
    return next(i.value for i in completion.inputs if i.name == name)
