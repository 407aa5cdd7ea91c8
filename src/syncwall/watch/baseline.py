"""A watched run beside an earlier one: slower or not, and by which line of the ledger.

Holds `UsualStep` and `usual_step`, what a summary keeps of its windows for that; `Baseline` and
`read_baseline`, the JSON of an earlier `syncwall watch`; `Outcome`, `Comparison` and `compared`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import hypot, pi, sqrt
from pathlib import Path
from statistics import median, stdev
from typing import Final

from pydantic import TypeAdapter, ValidationError

from syncwall.problems import InputError
from syncwall.public import published
from syncwall.watch.events import OF_A_STEP, Finding, Group
from syncwall.watch.expected import seen_before
from syncwall.watch.speed import JobWindow

_FEWEST: Final = 3
"""Windows after the first one, which warms up: what varies less often is not seen in fewer."""


@published("step_s error_s groups_s windows")
@dataclass(frozen=True, slots=True)
class UsualStep:
    """A step without warm-up, hiccups, checkpoints and evaluations."""

    step_s: float
    """Median over windows of 25 steps, of the median of each."""
    error_s: float
    """Standard error of that, from what windows differ by."""
    groups_s: Mapping[Group, float]
    """Median over windows, of the mean of each."""
    windows: int
    """That it rests on."""


def usual_step(windows: Iterable[JobWindow]) -> UsualStep | None:
    """The step that windows of a job agree on; None of fewer than four."""
    job = list(windows)[1:]
    if len(job) < _FEWEST:
        return None
    times_s = [one.step_s for one in job]
    error_s = sqrt(pi / 2 / len(job)) * stdev(times_s)
    groups = {group: median(one.groups[group] for one in job) for group in OF_A_STEP}
    return UsualStep(median(times_s), error_s, groups, len(job))


@dataclass(frozen=True, slots=True)
class Baseline:
    """An earlier run."""

    name: str
    world: int | None
    usual: UsualStep | None
    stopped_by: str
    """A finding for which its steps are not those of a healthy run; empty without one."""


def read_baseline(path: Path) -> Baseline:
    """What `syncwall watch --json` wrote; InputError if it is something else."""
    seen = seen_before(path)
    if seen is None:
        raise InputError.of(f"{path}: write it with syncwall watch --json {path.name} -- COMMAND")
    try:
        usual = TypeAdapter(UsualStep | None).validate_python(seen.get("usual"))
        findings = TypeAdapter(list[Finding]).validate_python(seen.get("findings", []))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError.of(f"{path}: {where} is not what syncwall watch writes") from None
    return Baseline(path.name, seen.get("world"), usual, stop_in(findings))


def stop_in(findings: Iterable[Finding]) -> str:
    """The first finding that stopped a job; empty without one."""
    return next((f"{one.kind}: {one.evidence}" for one in findings if one.kind.stops_the_job), "")


class Outcome(StrEnum):
    """Of a comparison."""

    WITHIN = "within"
    SLOWER = "slower"
    NOT_COMPARABLE = "not comparable"

    @property
    def exit_code(self) -> int:
        """Of `syncwall watch --baseline`, if the command itself ended well."""
        return {Outcome.WITHIN: 0, Outcome.SLOWER: 1, Outcome.NOT_COMPARABLE: 3}[self]


@published("outcome reason baseline limit share before_s now_s error_s group group_more_s")
@dataclass(frozen=True, slots=True)
class Comparison:
    """A run beside its baseline."""

    outcome: Outcome
    """within: at most `limit` slower; not comparable: `reason` says why."""
    reason: str
    """In one clause, with figures."""
    baseline: str
    """Name of its file."""
    limit: float
    """Share by which a step may be longer."""
    share: float | None = None
    """By which a step is longer; null if it is not known."""
    before_s: float | None = None
    """A usual step of the baseline ..."""
    now_s: float | None = None
    """... and of this run."""
    error_s: float | None = None
    """Standard error of the difference."""
    group: Group | None = None
    """The line of the ledger that grew most."""
    group_more_s: float | None = None
    """By so much a step."""


def compared(
    usual: UsualStep | None,
    world: int,
    findings: Sequence[Finding],
    baseline: Baseline,
    limit: float,
) -> Comparison:
    """A run, whose usual step may not be known, beside an earlier one."""
    why = _obstacle(usual, world, findings, baseline)
    before = baseline.usual
    if why or usual is None or before is None:
        return Comparison(Outcome.NOT_COMPARABLE, why, baseline.name, limit)
    more_s = usual.step_s - before.step_s
    error_s = hypot(usual.error_s, before.error_s)
    share = more_s / before.step_s
    grew = {one: usual.groups_s.get(one, 0.0) - before.groups_s.get(one, 0.0) for one in OF_A_STEP}
    group = max(grew, key=lambda one: grew[one])
    said = f"a step takes {_ms(usual.step_s)} instead of {_ms(before.step_s)}: {share:+.1%}"
    if 2 * error_s > max(limit * before.step_s, abs(more_s)):
        outcome = Outcome.NOT_COMPARABLE
        said += f" ± {2 * error_s / before.step_s:.1%}, too noisy to tell {limit:.1%}"
    elif share > limit:
        outcome = Outcome.SLOWER
        said += f", more than {limit:.1%}"
        said += f"; {group} grew by {_ms(grew[group])}" if grew[group] > 0 else ""
    else:
        outcome = Outcome.WITHIN
        said += f", at most {limit:.1%} is allowed"
    named = (group, grew[group]) if grew[group] > 0 else (None, None)
    figures = share, before.step_s, usual.step_s, error_s, *named
    return Comparison(outcome, said, baseline.name, limit, *figures)


def _obstacle(usual: UsualStep | None, world: int, findings: Sequence[Finding], baseline: Baseline) -> str:
    """Why two runs say nothing about each other; empty if they do."""
    few = f"has fewer than {_FEWEST + 1} windows of 25 steps that all ranks finished"
    if baseline.usual is None:
        return f"the baseline {few}, or an older syncwall wrote it"
    if usual is None:
        return f"this run {few}"
    if baseline.world != world:
        return f"the baseline has {baseline.world} ranks, this run {world}"
    for name, stop in (("the baseline", baseline.stopped_by), ("this run", stop_in(findings))):
        if stop:
            return f"{name} was stopped: {stop}"
    return ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"
