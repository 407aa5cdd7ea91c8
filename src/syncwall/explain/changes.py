"""What changed between two days of a job: seconds, kernels, collectives, settings.

A day is a job that was traced once; files of the same ranks in several directories are several
days.

A step ends when the last rank has done its work and the data has moved, so a change of the step is
the change that all ranks share in a kind of their own time, plus the most that single ranks changed
beyond that, plus that of transfers. What others wait for a slow rank is its effect, not a cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.explain.benchmark_changes import (
    BenchmarkChange,
    TimedBenchmark,
    changed_benchmarks,
    timed_benchmarks,
)
from syncwall.explain.finding import Finding
from syncwall.explain.series import FEWEST, deviation, first_above
from syncwall.explain.setting_changes import SettingChange, changed_settings, settings_of
from syncwall.explain.traces.job_traces import JobTraces, explain_traces, job_of, summaries
from syncwall.explain.traces.rank import KINDS, RankSummary
from syncwall.explain.training_log import Pace, pace_of, seconds_of_steps
from syncwall.problems import InputError
from syncwall.public import published
from syncwall.read.detect import FileKind
from syncwall.read.training_log import TrainingLog
from syncwall.units import plural

OWN: Final = tuple(kind for kind in KINDS if kind != "communication")
"""What a rank does itself."""


@dataclass(frozen=True)
class Day:
    """S steps of N ranks."""

    name: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    numbers: Any
    """(S,): of the steps."""
    step_s: Any
    """(S,): median over ranks."""
    own_s: Any
    """(S, N, len(OWN))"""
    wait_s: Any
    """(S, N): in collectives, for other ranks; 0 of one rank alone."""
    transfer_s: Any
    """(S, N): in collectives, exposed, while data moved."""
    job: JobTraces


def day_of(job: JobTraces, name: str) -> Day:
    """The steps that all ranks of `job` recorded."""
    ranks = job.summaries
    numbers = ranks[0].step_numbers
    for one in ranks[1:]:
        numbers = np.intersect1d(numbers, one.step_numbers)
    rows = [np.flatnonzero(np.isin(one.step_numbers, numbers)) for one in ranks]
    own = np.stack([one.own_s[row] for one, row in zip(ranks, rows, strict=True)], axis=1)
    steps = np.stack([one.step_s[row] for one, row in zip(ranks, rows, strict=True)], axis=1)
    talking = own[:, :, KINDS.index("communication")]
    wait = np.zeros_like(talking)
    if job.verdict is not None:
        wait = np.minimum(job.verdict.skew.wait_s, talking)
    return Day(
        name,
        tuple(one.rank for one in ranks),
        tuple(one.host or "" for one in ranks),
        np.sort(numbers),
        np.median(steps, axis=1),
        own[:, :, [KINDS.index(k) for k in OWN]],
        wait,
        talking - wait,
        job,
    )


def read_days(
    paths: Sequence[Path], *, shown: int | None, workers: int | None = None, ray: str | None = None
) -> tuple[Day, ...]:
    """Each day among the traces at `paths`, with the ledger of the rank `shown`."""
    if len(paths) == 1:
        return (day_of(explain_traces(paths), paths[0].name),)
    read = summaries(paths, workers=workers, ray=ray, days=True)
    if not read.ranks:
        raise InputError(read.problems)
    groups: dict[Path, list[RankSummary]] = {}
    for one in read.ranks:
        groups.setdefault(Path(one.source).parent, []).append(one)
    if len({one.rank for one in read.ranks}) == len(read.ranks):
        groups = {paths[0].parent: list(read.ranks)}
    found = []
    for folder, ranks in sorted(groups.items()):
        if len({one.rank for one in ranks}) < len(ranks):
            message = "holds a rank twice: give each day a directory of its own"
            raise InputError.of(message, file=str(folder))
        found.append(day_of(job_of(ranks, shown=shown), folder.name))
    return tuple(found)


MATTERS: Final = 0.05
"""Changes under this share of the step are not worth a verdict."""
_SURE: Final = 4.0
"""Standard errors of the step that a change must exceed."""
NAMED_FROM: Final = 0.5
"""Share of the change that one part must explain to be named alone."""
_RESAMPLES: Final = 200


@dataclass(frozen=True, slots=True)
class ChangeCause:
    """One reason for a change."""

    kind: str
    """compute, data, gc, host, sync, other, or transfer."""
    seconds: float
    """Longer, or shorter if negative."""
    ranks: tuple[int, ...] = ()
    """Those that changed more than the others; empty if all did alike."""


@dataclass(frozen=True)
class StepChange:
    """What became of a step."""

    before_s: float
    """Median over the steps of the good days."""
    now_s: float
    least_s: float
    """Changes below this are noise: of steps within a day, and of good days among each other."""
    parts: tuple[ChangeCause, ...]
    """The largest first, in the direction of the change."""
    sure: float
    """Share of resamples of the steps with the same verdict."""
    first_bad: int | None = None
    """Number of the step from which on it is slow, if earlier ones were not."""
    what: str = "step"
    """Or a token or a sample, where a training log tells the time of no step."""

    @property
    def change_s(self) -> float:
        """What a step takes longer."""
        return self.now_s - self.before_s

    @property
    def is_changed(self) -> bool:
        """True if the step is slower or faster than noise explains."""
        return abs(self.change_s) > self.least_s

    @property
    def is_slower(self) -> bool:
        """True if it is slower."""
        return self.is_changed and self.change_s > 0

    @property
    def named(self) -> tuple[ChangeCause, ...]:
        """The part that explains most, or the two largest; none that is next to nothing."""
        change = abs(self.change_s)
        large = tuple(one for one in self.parts[:2] if abs(one.seconds) >= MATTERS * change)
        return large[:1] if large and abs(large[0].seconds) >= NAMED_FROM * change else large


def difference(now: Day, good: Sequence[Day]) -> StepChange:
    """What of `now` differs from the good days."""
    before = np.concatenate([day.step_s for day in good])
    change = float(np.median(now.step_s) - np.median(before))
    within = _error(now.step_s) ** 2 + max(_error(day.step_s) for day in good) ** 2
    days = np.array([np.median(day.step_s) for day in good])
    between = float(days.max() - days.min())
    least = max(MATTERS * float(np.median(before)), _SURE * within**0.5, between)
    parts = _ordered(_parts(*_medians(now, good)), change, now.ranks)
    first = first_above(now.step_s, float(np.median(before)) + least) if change > least else None
    return StepChange(
        float(np.median(before)),
        float(np.median(now.step_s)),
        least,
        parts,
        _same_verdict(now, good, change, least, parts),
        None if first is None else int(now.numbers[first]),
    )


def _error(step_s: Any) -> float:
    """Standard error of the median of the steps of a day, from their absolute deviations."""
    return float(1.2533 * deviation(step_s) / len(step_s) ** 0.5)


def _medians(now: Day, good: Sequence[Day], rng: np.random.Generator | None = None) -> tuple[Any, Any]:
    """Changes of own time (N, kinds) and of transfers (N,), of steps or of a draw of them."""

    def middle(day: Day, values: Any, rows: Any) -> Any:
        return np.median(values[rows], axis=0)

    def drawn(day: Day) -> Any:
        count = len(day.step_s)
        return np.arange(count) if rng is None else rng.integers(count, size=count)

    rows = drawn(now)
    own, moved = middle(now, now.own_s, rows), middle(now, now.transfer_s, rows)
    same = [day for day in good if day.ranks == now.ranks]
    if not same:  # another number of ranks: each beside the usual one
        usual = np.mean([np.median(day.own_s, axis=(0, 1)) for day in good], axis=0)
        sent = np.mean([np.median(day.transfer_s) for day in good])
        return own - usual, moved - sent
    taken = [(day, drawn(day)) for day in same]
    return (
        own - np.mean([middle(day, day.own_s, rows) for day, rows in taken], axis=0),
        moved - np.mean([middle(day, day.transfer_s, rows) for day, rows in taken], axis=0),
    )


def _parts(own: Any, moved: Any) -> dict[tuple[str, tuple[int, ...]], float]:
    """Seconds by kind and by index of the ranks that changed beyond the others."""
    shared = np.where((own > 0).all(axis=0), own.min(axis=0), 0.0)
    shared = np.where((own < 0).all(axis=0), own.max(axis=0), shared)
    found: dict[tuple[str, tuple[int, ...]], float] = {}
    for n, kind in enumerate(OWN):
        found[kind, ()] = float(shared[n])
    excess = own - shared
    total = excess.sum(axis=1)
    if len(own) > 1:
        worst = int(np.argmax(np.abs(total)))
        like = tuple(np.flatnonzero(total * np.sign(total[worst]) > 0.5 * abs(total[worst])).tolist())
        for n, kind in enumerate(OWN):
            found[kind, like] = found.get((kind, like), 0.0) + float(excess[worst, n])
    found["transfer", ()] = float(np.median(moved))
    return found


def _ordered(
    found: dict[tuple[str, tuple[int, ...]], float], change: float, ranks: Sequence[int]
) -> tuple[ChangeCause, ...]:
    same_way = [(key, s) for key, s in found.items() if s * change > 0]
    return tuple(
        ChangeCause(kind, seconds, tuple(ranks[n] for n in who))
        for (kind, who), seconds in sorted(same_way, key=lambda one: -abs(one[1]))
    )


def _same_verdict(
    now: Day, good: Sequence[Day], change: float, least: float, parts: Sequence[ChangeCause]
) -> float:
    """Share of draws of the steps that say the same: changed or not, and by which part."""
    rng, same = np.random.default_rng(0), 0
    before = np.concatenate([day.step_s for day in good])
    for _ in range(_RESAMPLES):
        one, other = (values[rng.integers(len(values), size=len(values))] for values in (now.step_s, before))
        drawn = float(np.median(one) - np.median(other))
        if abs(change) <= least:
            same += abs(drawn) <= least
        elif drawn * change > 0 and abs(drawn) > least:
            first = _ordered(_parts(*_medians(now, good, rng)), change, now.ranks)[:1]
            same += not parts or (bool(first) and first[0].kind == parts[0].kind)
    return same / _RESAMPLES


_SHARE: Final = 0.1
"""Of the change of a step that a kernel must have to be named."""
_CALLS: Final = 1.2
_SLOWER: Final = 1.25
_HIDDEN: Final = 0.25
"""Share of a collective's time that is no longer hidden, from which overlap is lost."""


@dataclass(frozen=True, slots=True)
class NameChange:
    """A kernel or operator of a step, of the rank that is shown."""

    name: str
    before_s: float
    now_s: float


def changed_names(now: Day, before: Day, change_s: float) -> tuple[NameChange, ...]:
    """Those that changed most in the direction of the step, at least a tenth of its change."""
    one, other = before.job.names_s, now.job.names_s
    every = [NameChange(n, one.get(n, 0.0), other.get(n, 0.0)) for n in dict.fromkeys([*one, *other])]
    least = _SHARE * abs(change_s)
    moved = [
        c
        for c in every
        if (c.now_s - c.before_s) * change_s > 0 and abs(c.now_s - c.before_s) >= max(least, 1e-9)
    ]
    return tuple(sorted(moved, key=lambda c: -abs(c.now_s - c.before_s))[:5])


@dataclass(frozen=True, slots=True)
class CollectiveChange:
    """All calls of one kind in a step."""

    kind: str
    calls: tuple[float, float]
    """Before and now, in a step."""
    bytes: tuple[float, float]
    """Of a call; NaN if unknown."""
    call_s: tuple[float, float]
    """A call on the rank that waits least."""
    exposed: tuple[float, float]
    """Share of its time behind which nothing is computed."""

    @property
    def what(self) -> str:
        """What about it changed: calls, overlap or rate."""
        if not 1 / _CALLS <= self.calls[1] / max(self.calls[0], 1e-9) <= _CALLS:
            return "calls"
        if abs(self.exposed[1] - self.exposed[0]) > _HIDDEN:
            return "overlap"
        return "rate"


def changed_collectives(now: Day, before: Day) -> tuple[CollectiveChange, ...]:
    """Kinds whose calls, overlap or rate changed."""
    one, other = (_kinds(day.job.summaries) for day in (before, now))
    found = [
        CollectiveChange(kind, *((one[kind][n], other[kind][n]) for n in range(4)))
        for kind in one
        if kind in other
    ]
    return tuple(each for each in found if each.what != "rate" or _other_rate(each))


def _other_rate(one: CollectiveChange) -> bool:
    ratio = one.call_s[1] / max(one.call_s[0], 1e-12)
    return not 1 / _SLOWER <= ratio <= _SLOWER


def _kinds(ranks: Sequence[RankSummary]) -> dict[str, tuple[float, float, float, float]]:
    """By kind: calls of a step, bytes of a call, seconds of a call, exposed share."""
    found = {}
    for kind in dict.fromkeys(kind for one in ranks for kind in one.kinds):
        rows = [row for one in ranks if kind in one.kinds and (row := _of_rank(one, kind))]
        if rows:
            calls, size, seconds, exposed = (np.array(column) for column in zip(*rows, strict=True))
            known = size[~np.isnan(size)]
            middle = float(np.median(known)) if len(known) else float("nan")
            least = int(np.argmin(seconds))
            found[kind] = (
                float(calls[least]),
                middle,
                float(seconds[least]),
                float(exposed[least]),
            )
    return found


def _of_rank(one: RankSummary, kind: str) -> tuple[float, float, float, float] | None:
    own: Any = (one.kind == one.kinds.index(kind)) & (one.step >= 0)
    total = float(one.duration_ns[own].sum())
    if not own.any() or total <= 0:
        return None
    sizes = one.bytes[own][~np.isnan(one.bytes[own])]
    return (
        own.sum() / len(one.step_s),
        float(np.median(sizes)) if len(sizes) else float("nan"),
        float(np.median(one.duration_ns[own])) / 1e9,
        float(one.exposed_ns[own].sum()) / total,
    )


Files = Mapping[str, Sequence[Any]]


@published(
    "is_changed is_slower days before_s=difference.before_s now_s=difference.now_s",
    "noise_s=difference.least_s sure=difference.sure first_bad=difference.first_bad parts names",
    "collectives settings findings benchmarks",
)
@dataclass(frozen=True)
class Changed:
    """What is different from the good days."""

    days: int
    """Good days that it was compared with; 0 without traces on both sides."""
    difference: StepChange | None
    """Of a step; None without traces."""
    names: tuple[NameChange, ...] = ()
    """Kernels or operators, the most first."""
    collectives: tuple[CollectiveChange, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    benchmarks: tuple[BenchmarkChange, ...] = ()
    """Those that both days have, changed or not."""
    findings: tuple[Finding, ...] = ()
    """What is wrong now, and was not."""
    compared: tuple[str, ...] = ()
    """What both sides have, in words."""
    not_compared: tuple[str, ...] = ()
    """Kinds of files in which nothing was compared."""

    @property
    def parts(self) -> tuple[ChangeCause, ...]:
        """Why, the most first."""
        return self.difference.parts if self.difference else ()

    @property
    def is_slower(self) -> bool:
        """True if a step or a benchmark is slower than noise explains."""
        step = self.difference is not None and self.difference.is_slower
        return step or any(one.is_slower for one in self.benchmarks)

    @property
    def is_changed(self) -> bool:
        """True if a step or a benchmark is slower or faster."""
        step = self.difference is not None and self.difference.is_changed
        return step or any(one.is_changed for one in self.benchmarks)


def what_changed(
    now: JobTraces | None, read_now: Files, good: Sequence[Day], read_before: Files
) -> Changed | None:
    """The differences; None if nothing of both sides can be compared."""
    before = good[-1].job if good else None
    both = settings_of(read_now, now), settings_of(read_before, before)
    settings = changed_settings(*both)
    timed = list(timed_benchmarks(read_now)), list(timed_benchmarks(read_before))
    benchmarks = tuple(changed_benchmarks(*timed))
    ranks = {one.rank for one in now.summaries} if now is not None else set()
    good = [day for day in good if ranks.intersection(day.ranks)]  # other ranks are no other day
    compared, kinds = _compared(now, good, both, benchmarks, timed[0])
    logged = logged_difference(read_now, read_before)
    if logged is not None:
        lines = sum(len(one.what.steps) for one in read_now[FileKind.TRAINING_LOG])
        compared, kinds = (
            (f"{plural(lines, 'line')} of a training log", *compared),
            kinds | {FileKind.TRAINING_LOG},
        )
    traced = {FileKind.TRACE} if now is not None or before is not None else set()
    every = {*read_now, *read_before} | traced
    known = Changed(
        len(good),
        None,
        settings=settings,
        benchmarks=benchmarks,
        compared=compared,
        not_compared=tuple(sorted(str(kind) for kind in every - kinds)),
    )
    if now is None or not good:
        if logged is not None:
            known = replace(known, days=len(read_before[FileKind.TRAINING_LOG]), difference=logged)
        is_both = set(read_now) & set(read_before) or (now is not None and before is not None)
        return known if is_both else None
    day = day_of(now, "now")
    found = difference(day, good)
    if not found.is_changed:
        return replace(known, difference=found)
    names = changed_names(day, good[-1], found.change_s)
    return replace(known, difference=found, names=names, collectives=changed_collectives(day, good[-1]))


def logged_difference(now: Files, before: Files) -> StepChange | None:
    """The steps of training logs beside those of good ones; None if they tell other things."""
    logs, old = ([one.what for one in files.get(FileKind.TRAINING_LOG, ())] for files in (now, before))
    if not logs or not old:
        return None
    for times in (_step_times, pace_of):
        one, good = times(logs[0]), [times(log) for log in old]
        alike = all(pace.what == one.what for pace in good)
        if alike and min(len(pace.seconds) for pace in (one, *good)) >= FEWEST:
            break
    else:
        return None
    step_s, old_s = one.seconds, np.concatenate([pace.seconds for pace in good])
    medians = [pace.median for pace in good]
    within = _error(step_s) ** 2 + max(_error(pace.seconds) for pace in good) ** 2
    usual = float(np.median(old_s))
    least = max(MATTERS * usual, _SURE * within**0.5, max(medians) - min(medians))
    change = float(np.median(step_s)) - usual
    sure = _drawn_alike(step_s, old_s, change, least)
    first = first_above(step_s, usual + least) if change > least else None
    since = None if first is None else int(one.steps[first])
    return StepChange(usual, usual + change, least, (), sure, since, what=one.what)


def _step_times(log: TrainingLog) -> Pace:
    """Seconds of the steps after the warm-up, where the log tells them in any way."""
    pace = pace_of(log)
    seconds = seconds_of_steps(log)[np.isin(log.steps, pace.steps)]
    known = np.isfinite(seconds)
    return replace(pace, seconds=seconds[known], steps=pace.steps[known], what="step")


def _drawn_alike(now_s: Any, before_s: Any, change: float, least: float) -> float:
    """Share of draws of the steps that say the same."""
    rng, same = np.random.default_rng(0), 0
    for _ in range(_RESAMPLES):
        one, other = (values[rng.integers(len(values), size=len(values))] for values in (now_s, before_s))
        drawn = float(np.median(one) - np.median(other))
        same += abs(drawn) <= least if abs(change) <= least else drawn * change > 0 and abs(drawn) > least
    return same / _RESAMPLES


_OF_SETTINGS: Final = {FileKind.NCCL_LOG}
"""Kinds of files of which settings are what is compared."""


def _compared(
    now: JobTraces | None,
    good: Sequence[Day],
    settings: tuple[Mapping[str, str], Mapping[str, str]],
    benchmarks: Sequence[BenchmarkChange],
    timed: Sequence[TimedBenchmark],
) -> tuple[tuple[str, ...], set[str]]:
    """What was compared, in words, and the kinds of files that it is from."""
    said, kinds = [], set[str]()
    if now is not None and good:
        steps = len(now.ledger.steps)
        said.append(f"{plural(steps, 'step')} of {plural(len(now.ranks) or 1, 'rank')}")
        kinds.add(FileKind.TRACE)
    names = {one.kind for one in benchmarks}
    if names:
        said.append(plural(len(benchmarks), "benchmark"))
        kinds |= {one.kind for one in timed if one.name in names}
    common = settings[0].keys() & settings[1].keys()
    if common:
        said.append(plural(len(common), "setting"))
        kinds |= _OF_SETTINGS
    return tuple(said), kinds
