"""Runs and jobs beside each other: time, speed, memory, money, and where the time goes.

Holds `compare`, `Comparison`, `ComparedRun` and `Beside` (one run beside the first). Every number
of a run is that of its own prediction; what nobody stated is chosen alike in runs of one machine and
one split of the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, isfinite, log
from pathlib import Path
from typing import Any, Final

from syncwall.answer.difference import (
    FLOOR,
    Ratio,
    is_same_setup,
    ledger_difference,
    memory_deviation,
    ratio_deviation,
    step_changed,
    step_deviation,
)
from syncwall.answer.interval import Z80
from syncwall.answer.prediction import Prediction, predict
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cause import Cause
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Job, Run
from syncwall.describe.base import is_open
from syncwall.describe.files import RunFile
from syncwall.describe.layout import Schedule
from syncwall.describe.rules import broken_rules, not_offered
from syncwall.describe.stated import StatedRun
from syncwall.job.bill import usual_owned, usual_price
from syncwall.job.completion import Completion, finish
from syncwall.job.simulation import Progress
from syncwall.problems import InputError
from syncwall.public import Answer, Late, published

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST: Final = len(_LETTERS)
"""Runs that can be compared at once."""
_TOKENS: Final = 1e6
_HOUR_S: Final = 3600.0
_TUNED: Final = ("micro_batch", "virtual_stages")
"""Fields that everybody tunes anew for another split of the model or the GPUs."""
_ALIKE: Final = ("recompute", "shard", *_TUNED)
"""Fields that are chosen alike, those first that change most."""
Compared = Run | Job | str | Path | Prediction | Completion
"""What can be compared: a run, a job, a file of one of them, or what was predicted of it."""


@published(
    "name=title what gpus step_s=prediction.step_s step_interval_s=prediction.step_interval_s",
    "extrapolating=prediction.interval.extrapolating left_open=prediction.assumed",
    "alone_step_s=alone.step_s",
    "tokens_per_s_per_gpu=prediction.tokens_per_s_per_gpu tokens_per_s mfu=prediction.mfu",
    "fits=prediction.fits memory_bytes=prediction.memory_bytes",
    "memory_interval_bytes=prediction.memory_interval_bytes ledger_s=prediction.ledger",
    "usd_per_gpu_hour price_source owned_usd_per_gpu_hour usd_per_1m_tokens",
    "job=completion._outlook",
)
@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    what = Late("show.compare:what_runs")
    name: str
    """A letter."""
    prediction: Prediction
    completion: Completion | None = None
    """The whole job; None if nobody says how long it is."""
    title: str = ""
    """Its letter, and what tells it from the others."""
    alone: Prediction | None = None
    """What `predict` says, if something was chosen otherwise because of the other runs."""
    searched: Run | None = None
    """The run as it was stated, if its layout was searched."""

    @property
    def asked(self) -> Run:
        """The run as it was stated."""
        return self.searched or (self.alone or self.prediction).settled.asked

    @property
    def gpus(self) -> int:
        """GPUs that train."""
        return int(self.prediction.work.gpus)

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second of all GPUs together."""
        return self.prediction.tokens_per_s_per_gpu * self.gpus

    @cached_property
    def price(self) -> tuple[float, str] | None:
        """USD for a GPU-hour, and where that is from; None if nobody states one."""
        if self.completion is None:
            return usual_price(self.prediction.cluster)
        each = self.completion.bill.usd_per_gpu_hour
        source = next((i.source for i in self.completion.bill.inputs if i.name == "price"), "")
        return None if each is None else (each, source or "given")

    @property
    def usd_per_gpu_hour(self) -> float | None:
        """None if no price is known."""
        return None if self.price is None else self.price[0]

    @property
    def price_source(self) -> str | None:
        """Where the price is from."""
        return None if self.price is None else self.price[1]

    @cached_property
    def owned_usd_per_gpu_hour(self) -> float | None:
        """USD for a GPU-hour if the GPUs are bought; None if nobody states what one costs."""
        if self.completion is None:
            return usual_owned(self.prediction.cluster)
        return self.completion.bill.owned_usd_per_gpu_hour

    @property
    def usd_per_1m_tokens(self) -> float | None:
        """USD for a million tokens while steps follow each other, without spares and failures."""
        speed = self.prediction.tokens_per_s_per_gpu
        return None if self.price is None or not speed else self.price[0] / speed / _HOUR_S * _TOKENS

    def job_value(self, name: str) -> float | None:
        """P50 of a quantity of the job; None if there is none, or no end."""
        if self.completion is None:
            return None
        bounds: tuple[float, ...] | None = getattr(self.completion, name)
        return None if bounds is None or not isfinite(bounds[1]) else bounds[1]


MEASURES: Final[dict[str, Callable[[ComparedRun], float | None]]] = {
    "step_s": lambda one: one.prediction.step_s,
    "tokens_per_s_per_gpu": lambda one: one.prediction.tokens_per_s_per_gpu,
    "tokens_per_s": lambda one: one.tokens_per_s,
    "mfu": lambda one: one.prediction.mfu,
    "usd_per_1m_tokens": lambda one: one.usd_per_1m_tokens,
    "memory_bytes": lambda one: one.prediction.memory_bytes,
    "finish_s": lambda one: one.job_value("finish_s"),
    "cost_usd": lambda one: one.job_value("cost_usd"),
    "owned_cost_usd": lambda one: one.job_value("owned_cost_usd"),
    "energy_j": lambda one: one.job_value("energy_j"),
    "carbon_kg": lambda one: one.job_value("carbon_kg"),
}
"""What is compared, by the names that JSON has; of a job the P50."""
_OF_JOB: Final = ("finish_s", "cost_usd", "owned_cost_usd", "energy_j", "carbon_kg")


@published(
    "before=before.name after=after.name verdict told_apart=is_told_apart",
    "same_setup=is_same_setup changed_share chosen_apart chosen_alike=alike ratios ledger_s",
)
@dataclass(frozen=True)
class Beside:
    """A run beside the first one."""

    verdict = Late("show.compare:verdict")
    before: ComparedRun
    after: ComparedRun

    @cached_property
    def ratios(self) -> dict[str, Ratio]:
        """By quantity, as the keys of a run or of its job."""
        found = {}
        for name, value in MEASURES.items():
            before, after = value(self.before), value(self.after)
            if before and after:
                found[name] = Ratio(before, after, self._deviation(name))
        return found

    def _deviation(self, name: str) -> float:
        pair = self.before.prediction, self.after.prediction
        if name == "memory_bytes":
            return memory_deviation(*pair)
        if name not in _OF_JOB:
            return step_deviation(*pair)
        jobs = [_job_deviation(one) for one in (self.before, self.after)]
        lengths = {one.job_value("finish_s") for one in (self.before, self.after)}
        return max(ratio_deviation(*pair, *jobs), FLOOR * hypot(*jobs) if len(lengths) > 1 else 0.0)

    @property
    def speed(self) -> Ratio:
        """Of both: in tokens, or without any in steps."""
        found = self.ratios.get("tokens_per_s")
        if found is not None:
            return found
        step = self.ratios["step_s"]
        return Ratio(step.after, step.before, step.deviation)

    @cached_property
    def changed_share(self) -> float:
        """Share of the time of a GPU for a token that is not common to both steps."""
        return step_changed(self.before.prediction, self.after.prediction)

    @cached_property
    def chosen_apart(self) -> dict[str, tuple[str, str]]:
        """What nobody stated of either, and was chosen otherwise: the values of both."""
        first, other = self.before.prediction.assumed, self.after.prediction.assumed
        return {key: (first[key], other[key]) for key in first if other.get(key, first[key]) != first[key]}

    @property
    def is_same_setup(self) -> bool:
        """True if the runs differ in layout, batch and number of GPUs only."""
        return is_same_setup(self.before.prediction, self.after.prediction)

    @property
    def rests_on_choices(self) -> bool:
        """True if something was chosen otherwise that is not just tuned anew for each layout."""
        return any(key not in _TUNED for key in self.chosen_apart)

    @cached_property
    def alike(self) -> Ratio | None:
        """The speeds if what both leave open were chosen alike; None if it is, or nothing fits both."""
        if not self.rests_on_choices:
            return None
        pair = {one.name: one.prediction for one in (self.before, self.after)}
        one_split = len(set(map(_split, pair.values()))) == 1
        for field in _ALIKE if one_split else _ALIKE[: -len(_TUNED)]:
            if all(is_open(one.settled.asked.layout, field) for one in pair.values()):
                pair |= _one_value(pair, field)
        found = Beside(*(ComparedRun(name, one) for name, one in pair.items()))
        return None if found.rests_on_choices else found.speed

    @cached_property
    def ledger_s(self) -> dict[Cause, float]:
        """Seconds of the step by cause that the run has more than the first."""
        return ledger_difference(self.before.prediction, self.after.prediction)

    @property
    def is_told_apart(self) -> bool:
        """True if one of them is surely the faster one, also if both are chosen alike."""
        speed = self.alike if self.rests_on_choices else self.speed
        return speed is not None and speed.is_told_apart


def _job_deviation(one: ComparedRun) -> float:
    """Deviation of the logarithm of a job's length, of its P10 and P90."""
    assert one.completion is not None
    low_s, _, high_s = one.completion.finish_s
    return log(high_s / low_s) / 2.0 / Z80 if isfinite(high_s) else one.prediction.interval.deviation


@published("runs=_titled_runs beside")
@dataclass(frozen=True)
class Comparison(Answer):
    """Two or more runs; the others are seen beside the first."""

    verb = "compare"
    _titled_runs = Late("show.compare:titled_runs")
    runs: tuple[ComparedRun, ...]

    @cached_property
    def beside(self) -> tuple[Beside, ...]:
        """Every run but the first, beside it."""
        return tuple(Beside(self.runs[0], other) for other in self.runs[1:])

    @property
    def fits(self) -> bool:
        """True if all of them fit."""
        return all((one.completion or one.prediction).fits for one in self.runs)

    def __repr__(self) -> str:
        said = [
            f"{one.after.name} {'differs' if one.is_told_apart else one.speed.certainty}"
            for one in self.beside
        ]
        steps = ", ".join(f"{one.name} {one.prediction.step_s:.4g} s" for one in self.runs)
        return f"<Comparison: {steps}: {', '.join(said)}>"


@takes_catalogue
def compare(*runs: Compared, tokens: float | str | None = None, catalogue: Folders = None) -> Comparison:
    """`runs` beside the first of them: what differs, and whether by more than the doubt.

    Each is a run, a job, a file of one of them, or what `predict` or `finish` said of it. `tokens`
    is how long each of them trains, for its length and its bill. What runs of one machine and split
    leave open is chosen alike where it fits them; what was predicted before stays as it is.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(tp=8, shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-70b", cluster="dgx-h100", nodes=32, layout=layout)
        >>> other = run.model_copy(update={"cluster": sw.cluster("dgx-b200", nodes=32)})
        >>> found = sw.compare(run, other)
        >>> found
        <Comparison: A ... s, B ... s: B differs>
        >>> found.beside[0].ratios["step_s"].after == sw.predict(other).step_s
        True
        >>> sw.compare(run, run)
        <Comparison: A ... s, B ... s: B the same>
    """
    predicted = any(isinstance(one, Prediction | Completion) for one in runs)
    return comparison([_answered(one, tokens) for one in runs], alike=not predicted)


def comparison(found: Sequence[tuple[Prediction, Completion | None]], *, alike: bool = False) -> Comparison:
    """What was predicted of each run, as a comparison; `alike` chooses anew what all leave open."""
    if not 2 <= len(found) <= MOST:
        raise InputError.of(f"two to {MOST} runs can be compared, not {len(found)}")
    runs = [ComparedRun(_LETTERS[n], *one) for n, one in enumerate(found)]
    return Comparison(tuple(_chosen_alike(runs) if alike else runs))


def _chosen_alike(runs: Sequence[ComparedRun]) -> list[ComparedRun]:
    """`runs` with one value of each field that several leave open, where all of these fit with it.

    On other machines and in another split of the model, what is chosen is part of what differs.
    """
    if any(one.prediction.is_recorded or (one.completion and one.completion.job.phases) for one in runs):
        return list(runs)
    fitting = {one.name: one.prediction for one in runs if one.prediction.has_headroom}
    for field in _ALIKE:
        groups: dict[Any, dict[str, Prediction]] = {}
        for name, one in fitting.items():
            if is_open(one.settled.asked.layout, field):
                groups.setdefault(_split(one), {})[name] = one
        for several in groups.values():
            fitting |= _one_value(several, field)
    return [_chosen_again(one, fitting.get(one.name, one.prediction)) for one in runs]


def _split(one: Prediction) -> tuple[object, ...]:
    layout = one.run.layout
    machine = one.run.cluster
    degrees = layout.tp, layout.pp, layout.cp, layout.ep
    return *degrees, machine.name, machine.gpus, machine.device.name, layout.global_batch


def _one_value(several: dict[str, Prediction], field: str) -> dict[str, Prediction]:
    """Those of `several` with the value of `field` with which all fit, and are fastest; else none."""
    names = (field, "recompute_layers", "recompute_modules") if field == "recompute" else (field,)
    layouts = (one.run.layout for one in several.values())
    values = dict.fromkeys(tuple(getattr(one, name) for name in names) for one in layouts)
    ways: list[dict[str, Prediction]] = []
    for value in values if len(values) > 1 else ():
        stated = dict(zip(names, value, strict=True))
        tried = {name: _restated(one, stated) for name, one in several.items()}
        fitting = {name: one for name, one in tried.items() if one is not None}
        ways += [fitting] if len(fitting) == len(several) else []
    return min(ways, key=_log_seconds, default={})


def _log_seconds(way: dict[str, Prediction]) -> float:
    return sum(log(one.step_s) for one in way.values())


def _restated(one: Prediction, stated: dict[str, Any]) -> Prediction | None:
    """`one` as if fields had been `stated`; None if that is not possible or does not fit."""
    asked, layout, update = one.settled.asked, one.run.layout, dict(stated)
    if all(getattr(layout, name) == value for name, value in stated.items()):
        return one
    if "virtual_stages" in stated and is_open(asked.layout, "schedule"):
        interleaved = stated["virtual_stages"] > 1
        update["schedule"] = Schedule.INTERLEAVED if interleaved else Schedule.ONE_F_ONE_B
    changed, software = layout.model_copy(update=update), one.run.software
    family = framework_or_default(software.framework)
    if broken_rules(asked.model, changed, asked.seq, asked.gpus):
        return None
    if set(update) & not_offered(family, software, changed, asked.model).keys():
        return None
    found = one.again(asked.model_copy(update={"layout": asked.layout.model_copy(update=update)}))
    return found if found.has_headroom else None


def _chosen_again(one: ComparedRun, prediction: Prediction) -> ComparedRun:
    """`one` with another prediction of its run, and its job anew."""
    if prediction is one.prediction:
        return one
    prediction = replace(prediction, without_effect=one.prediction.without_effect)
    if one.completion is None:
        return replace(one, prediction=prediction, alone=one.prediction)
    completion = finish(one.completion.job.model_copy(update={"run": prediction.settled.asked}), prediction)
    return replace(one, prediction=completion.prediction, completion=completion, alone=one.prediction)


def _answered(one: Compared, tokens: float | str | None) -> tuple[Prediction, Completion | None]:
    if isinstance(one, Completion):
        return one.prediction, one
    if isinstance(one, str | Path):
        file = RunFile(Path(one))
        run = StatedRun.of_file(file).run()
        return answered_job(run, file.job(run, {} if tokens is None else {"tokens": tokens}))
    if isinstance(one, Job):
        return answered_job(one.run, one)
    if isinstance(one, Prediction) and tokens is None:
        return one, None
    if isinstance(one, Prediction) and one.is_recorded:
        raise InputError.of("tokens= is for runs: of a recorded program no job is predicted")
    run = one.run if isinstance(one, Prediction) else one
    job = None if tokens is None else Job.model_validate({"run": run, "tokens": tokens})
    return answered_job(run, job, one if isinstance(one, Prediction) else None)


def answered_job(
    run: Run,
    job: Job | None,
    prediction: Prediction | None = None,
    progress: Progress | None = None,
) -> tuple[Prediction, Completion | None]:
    """`run` predicted, unless it is, and its `job` played through if there is one."""
    prediction = prediction or predict(run)
    if job is None:
        return prediction, None
    completion = finish(job, prediction, progress=progress)
    return completion.prediction, completion
