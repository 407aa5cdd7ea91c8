"""Who drags, whether the job slowed down, and whether it is slower than predicted.

Holds `stragglers`, `slow_down`, `slower_than_predicted`; `windows_of` and `job_windows`, which sum
up steps of a rank and of the job.
Pure functions over windows of steps; each of them is silent where it does not know enough.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import fmean, median

from syncwall.cause import Cause
from syncwall.watch.events import (
    OF_A_STEP,
    Expectation,
    Finding,
    FindingKind,
    Group,
    StepRecord,
    Window,
    grouped,
)
from syncwall.watch.thresholds import THRESHOLDS, Thresholds

_COMPARED = 512
"""Ranks that a straggler's ledger is compared with, of many."""


def window_of(steps: Sequence[StepRecord], node: str = "") -> Window:
    """Steps of one rank summed up."""
    sums: dict[Cause, float] = defaultdict(float)
    for one in steps:
        for cause, spent_s in one.seconds.items():
            sums[cause] += spent_s
    own = [one.own_s for one in steps] if all(one.own_is_known for one in steps) else None
    return Window(
        steps[0].rank, steps[0].step, len(steps), median(own) if own else None,
        median(one.step_s for one in steps),
        {cause: spent_s / len(steps) for cause, spent_s in sums.items()}, steps[-1].end_s, node,
    )  # fmt: skip


def windows_of(steps: Iterable[StepRecord], limits: Thresholds = THRESHOLDS) -> list[Window]:
    """Whole windows of steps of one rank; they begin at multiples of their length on all ranks."""
    found, inside = [], list[StepRecord]()
    for one in steps:
        if one.step % limits.window == 0:
            inside.clear()
        inside.append(one)
        if len(inside) == limits.window:
            found.append(window_of(inside))
            inside.clear()
    return found


def together(windows: Iterable[Window]) -> list[list[Window]]:
    """Windows of the same steps, in the order of steps; only those that all ranks have."""
    by_first: dict[int, list[Window]] = defaultdict(list)
    ranks = set()
    for one in windows:
        by_first[one.first].append(one)
        ranks.add(one.rank)
    return [by_first[first] for first in sorted(by_first) if len(by_first[first]) == len(ranks)]


def stragglers(windows: Iterable[Window], limits: Thresholds = THRESHOLDS) -> list[Finding]:
    """Ranks whose own time stands out in several windows in a row, and what that costs the job."""
    return stood_out(together(windows), limits)


def stood_out(
    windows: Sequence[Sequence[Window]], limits: Thresholds = THRESHOLDS
) -> list[Finding]:
    """The same of windows that are `together` already."""
    latest = windows[-limits.windows :]
    if len(latest) < limits.windows or len(latest[0]) < 2:
        return []
    if any(one.own_s is None for same in latest for one in same):
        return []
    late = [_late(same, limits) for same in latest]
    own_s, least_s = _together_late(latest, limits)
    found = []
    for rank in sorted(set.intersection(*(set(one) for one in late))):
        extra_s = fmean(one[rank] for one in late)
        step_s = fmean(median(one.step_s for one in same) for same in latest)
        if extra_s <= max(limits.straggler_mean * own_s, least_s):
            continue
        since = next(one for one in latest[0] if one.rank == rank)
        said = (
            f"its own time is {extra_s * 1e3:.1f} ms ({extra_s / step_s:.0%} of a step) above the "
            f"median of the ranks in steps {since.first} to {latest[-1][0].first + since.steps - 1}"
        )
        found.append(
            Finding(
                FindingKind.STRAGGLER, rank, since.node, since.end_s, said,
                cost_s=extra_s, since_step=since.first, group=_grown(latest, rank),
            )
        )  # fmt: skip
    return found


def _late(same: Sequence[Window], limits: Thresholds) -> dict[int, float]:
    """Seconds above the median of the ranks, of those that stand out in one window."""
    own = {one.rank: one.own_s or 0.0 for one in same}
    is_few = len(own) < limits.fewest_ranks
    usual = min(own.values()) if is_few else median(own.values())
    share = limits.straggler_two if is_few else limits.straggler_share
    return {rank: s - usual for rank, s in own.items() if s - usual > share * usual}


def _together_late(latest: Sequence[Sequence[Window]], limits: Thresholds) -> tuple[float, float]:
    """Own time in all windows together, median of the ranks; by how much one must exceed it.

    Means over the windows are compared: what hits another rank in one of them hides nobody.
    """
    sums: dict[int, float] = defaultdict(float)
    for one in (one for same in latest for one in same):
        sums[one.rank] += (one.own_s or 0.0) / len(latest)
    middle = median(sums.values())
    deviation = median(abs(s - middle) for s in sums.values())
    if len(sums) < limits.fewest_ranks:
        return middle, 0.0
    return middle, (limits.straggler_deviations + _farther_out(len(sums))) * deviation


def _farther_out(ranks: int) -> float:
    """Median deviations by which the latest of so many healthy ranks is expected farther out than
    that of four: the largest of n normal values lies at about sqrt(2 ln n) standard deviations.
    """
    return 1.4826 * max(sqrt(2 * log(ranks)) - sqrt(2 * log(4)), 0.0)


def _grown(latest: Sequence[Sequence[Window]], rank: int) -> Group:
    """The line of a rank's own ledger that is farthest above that of the others."""
    more: dict[Group, float] = defaultdict(float)
    for same in latest:
        own = grouped(next(one for one in same if one.rank == rank).seconds)
        others = [grouped(one.seconds) for one in same[:: -(-len(same) // _COMPARED)]]
        for group in (Group.COMPUTE, Group.DATA, Group.IDLE):
            usual = median(ledger.get(group, 0.0) for ledger in others)
            more[group] += own.get(group, 0.0) - usual
    return max(more, key=lambda group: more[group])


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The same steps of all ranks."""

    first: int
    step_s: float
    """Median of the ranks."""
    groups: Mapping[Group, float]
    """Mean of the ranks."""
    end_s: float


def job_windows(windows: Iterable[Window]) -> list[JobWindow]:
    """Windows that all ranks have, in the order of steps."""
    return [job_window(same) for same in together(windows)]


def job_window(same: Sequence[Window]) -> JobWindow:
    """The same steps of all ranks as one."""
    sums: dict[Cause, float] = defaultdict(float)
    for one in same:
        for cause, spent_s in one.seconds.items():
            sums[cause] += spent_s / len(same)
    mean = dict.fromkeys(Group, 0.0) | grouped(sums)
    step_s = median(one.step_s for one in same)
    return JobWindow(same[0].first, step_s, mean, max(one.end_s for one in same))


def slow_down(windows: Sequence[JobWindow], limits: Thresholds = THRESHOLDS) -> list[Finding]:
    """The job's step has grown against all that was before: since which step, and by which line."""
    job = windows[1:]
    if len(job) < limits.reference_windows + limits.slowed_windows:
        return []
    before_s = median(one.step_s for one in job[: -limits.slowed_windows])
    first = len(job)
    while first and job[first - 1].step_s > (1 + limits.slowed_share) * before_s:
        first -= 1
    slow, usual = job[first:], job[:first]
    if len(slow) < limits.slowed_windows or len(usual) < limits.reference_windows:
        return []
    if slow[-1].end_s - usual[-1].end_s < limits.slowed_s:
        return []
    before_s = median(one.step_s for one in usual)
    now_s = median(one.step_s for one in slow)
    more = {
        group: fmean(one.groups[group] for one in slow) - fmean(one.groups[group] for one in usual)
        for group in OF_A_STEP
    }
    group = max(more, key=lambda one: more[one])
    said = (
        f"a step takes {now_s * 1e3:.1f} instead of {before_s * 1e3:.1f} ms since step "
        f"{slow[0].first}, {more[group] * 1e3:+.1f} ms of it {group}"
    )
    return [
        Finding(
            FindingKind.SLOWED_DOWN, None, "", slow[0].end_s, said, cost_s=now_s - before_s,
            since_step=slow[0].first, group=group,
        )
    ]  # fmt: skip


def slower_than_predicted(
    windows: Sequence[JobWindow], expected: Expectation, limits: Thresholds = THRESHOLDS
) -> list[Finding]:
    """Steps beyond the interval of a prediction, and the line that is farthest above its own.

    Inside the interval nothing is said: the prediction cannot know better.
    """
    job = windows[1:]
    first = len(job)
    while first and job[first - 1].step_s > expected.high_s:
        first -= 1
    slow = job[first:]
    if len(slow) < limits.predicted_windows:
        return []
    now_s = median(one.step_s for one in slow)
    predicted = grouped(expected.seconds)
    more = {
        group: fmean(one.groups[group] for one in slow) - predicted.get(group, 0.0)
        for group in OF_A_STEP
    }
    group = max(more, key=lambda one: more[one])
    spent_s = more[group] + predicted.get(group, 0.0)
    said = (
        f"a step takes {now_s:.4g} s since step {slow[0].first}; predicted "
        f"{expected.step_s:.4g} s, at most {expected.high_s:.4g} s; {group}: {spent_s:.4g} "
        f"instead of {predicted.get(group, 0.0):.4g} s"
    )
    return [
        Finding(
            FindingKind.SLOWER_THAN_PREDICTED, None, "", slow[0].end_s, said,
            cost_s=now_s - expected.step_s, since_step=slow[0].first, group=group,
        )
    ]  # fmt: skip
