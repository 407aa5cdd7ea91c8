"""Judges of the speed of a live run: pure functions over windows of steps.

Holds `window_of` and `windows_of` (steps of a rank summed up), `common_windows`, `JobWindow` with
`job_window` and `job_windows` (the same steps of all ranks); who drags and who only has no core:
`stragglers`, `stood_out`; whether the job slowed down and whether it is slower than predicted:
`job_slowdown`, `slower_than_predicted`. `is_pause` says which steps are no steps as usual.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean, median
from typing import Final

from syncwall.cause import Cause
from syncwall.outliers import TO_DEVIATION, farther_out, middle_and_spread, stands_out
from syncwall.watch.cores import HostLoad
from syncwall.watch.events import (
    OF_A_STEP,
    OWN,
    Expectation,
    Finding,
    FindingKind,
    Group,
    StepRecord,
    StepWindow,
    group_of,
    grouped,
)
from syncwall.watch.judges import THRESHOLDS, Thresholds

Hosts = Mapping[str, HostLoad]
"""Loads by node, of those that are known."""
_NOBODY: Final[Hosts] = {}


def is_pause(step_s: float, usual_s: float | None, limits: Thresholds = THRESHOLDS) -> bool:
    """True for a step so much longer than usual that it says nothing of the others."""
    if usual_s is None:
        return False
    return step_s > limits.pause_steps * usual_s and step_s - usual_s > limits.pause_s


_COMPARED = 512
"""Ranks that a straggler's ledger is compared with, of many."""


def window_of(steps: Sequence[StepRecord], node: str = "", waited_s: float | None = None) -> StepWindow:
    """Steps of one rank summed up; `waited_s` is what they waited for a core together."""
    sums: dict[Cause, float] = defaultdict(float)
    for one in steps:
        for cause, spent_s in one.seconds.items():
            sums[cause] += spent_s
    own = [one.own_s for one in steps] if all(one.own_is_known for one in steps) else None
    return StepWindow(
        steps[0].rank,
        steps[0].step,
        len(steps),
        median(own) if own else None,
        median(one.step_s for one in steps),
        {cause: spent_s / len(steps) for cause, spent_s in sums.items()},
        steps[-1].end_s,
        node,
        None if waited_s is None else waited_s / len(steps),
    )


def windows_of(steps: Iterable[StepRecord], limits: Thresholds = THRESHOLDS) -> list[StepWindow]:
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


def common_windows(windows: Iterable[StepWindow]) -> list[list[StepWindow]]:
    """Windows of the same steps, in the order of steps; only those that all ranks have."""
    by_first: dict[int, list[StepWindow]] = defaultdict(list)
    ranks = set()
    for one in windows:
        by_first[one.first].append(one)
        ranks.add(one.rank)
    return [by_first[first] for first in sorted(by_first) if len(by_first[first]) == len(ranks)]


def stragglers(
    windows: Iterable[StepWindow], limits: Thresholds = THRESHOLDS, hosts: Hosts = _NOBODY
) -> list[Finding]:
    """Ranks whose own time stands out in several windows in a row, and what that costs the job."""
    return stood_out(common_windows(windows), limits, hosts)


def stood_out(
    windows: Sequence[Sequence[StepWindow]], limits: Thresholds = THRESHOLDS, hosts: Hosts = _NOBODY
) -> list[Finding]:
    """The same of windows that are `together` already.

    A rank whose own time is longer because it waits for a core does not drag: its host is busy.
    """
    latest = windows[-limits.windows :]
    if len(latest) < limits.windows or len(latest[0]) < 2:
        return []
    if any(one.own_s is None for same in latest for one in same):
        return []
    late = [_late(same, limits) for same in latest]
    own_s, spread_s = _usual(latest)
    ranks = len(latest[0])
    deviations = limits.straggler_deviations + farther_out(ranks)
    is_few = ranks < limits.fewest_ranks  # then their spread is not known
    found, taken = [], list[tuple[StepWindow, float, float]]()
    for rank in sorted(set.intersection(*(set(one) for one in late))):
        extra_s = fmean(one[rank] for one in late)
        if not stands_out(
            extra_s,
            own_s,
            share=limits.straggler_mean,
            spread=0.0 if is_few else spread_s,
            deviations=deviations,
        ):
            continue
        since = next(one for one in latest[0] if one.rank == rank)
        waited_s, worked_s = _waited(latest, rank)
        if waited_s >= limits.waited_share * extra_s and worked_s <= limits.straggler_mean * own_s:
            taken.append((since, extra_s, waited_s))
        else:
            found.append(_straggler(latest, since, extra_s, hosts))
    return found + _taken(taken, hosts)


def _straggler(
    latest: Sequence[Sequence[StepWindow]], since: StepWindow, extra_s: float, hosts: Hosts
) -> Finding:
    step_s = fmean(median(one.step_s for one in same) for same in latest)
    cause, more_s = _grown(latest, since.rank)
    said = (
        f"its own time is {extra_s * 1e3:.1f} ms ({extra_s / step_s:.0%} of a step) above the median of "
        f"the ranks in steps {since.first} to {latest[-1][0].first + since.steps - 1}, "
        f"{more_s * 1e3:+.1f} ms of it {cause.title}"
    )
    if since.waited_s is None and since.node in hosts and hosts[since.node].is_busy:
        said += f"; its host is busy, which may be why: {hosts[since.node]}"
    return Finding(
        FindingKind.STRAGGLER,
        since.rank,
        since.node,
        since.end_s,
        said,
        cost_s=extra_s,
        since_step=since.first,
        group=group_of(cause),
    )


def _taken(ranks: Sequence[tuple[StepWindow, float, float]], hosts: Hosts) -> list[Finding]:
    """Hosts whose cores others take from these ranks: windows, extra seconds and those of waiting."""
    found = []
    for node in dict.fromkeys(one.node for one, _, _ in ranks):
        here = [one for one in ranks if one[0].node == node]
        since, extra_s, waited_s = max(here, key=lambda one: one[1])
        said = (
            f"rank {since.rank} waits {waited_s * 1e3:.1f} ms a step longer for a core than the others, "
            f"which makes its own time {extra_s * 1e3:.1f} ms longer"
        )
        found.append(_busy(node, since, said, extra_s, hosts, tuple(one.rank for one, _, _ in here)))
    return found


def _busy(
    node: str,
    since: "StepWindow | JobWindow",
    said: str,
    cost_s: float,
    hosts: Hosts,
    also: tuple[int, ...] = (),
) -> Finding:
    if node in hosts:
        said += f"; {hosts[node]}"
    where = None, node, since.end_s, said
    return Finding(FindingKind.HOST_BUSY, *where, cost_s=cost_s, since_step=since.first, also=also)


def _waited(latest: Sequence[Sequence[StepWindow]], rank: int) -> tuple[float, float]:
    """Seconds of a step for which a rank waits for a core, and for which it works, above the median
    of the ranks; 0 of waiting where it is not known.
    """
    waits, works = [], []
    for same in latest:
        if any(one.waited_s is None for one in same):
            return 0.0, 0.0
        waited = {one.rank: one.waited_s or 0.0 for one in same}
        worked = {one.rank: _own_mean_s(one) - waited[one.rank] for one in same}
        usual = min if len(same) < THRESHOLDS.fewest_ranks else median
        others = [one.rank for one in same if one.rank != rank]
        waits.append(waited[rank] - usual(waited[one] for one in others))
        works.append(worked[rank] - usual(worked[one] for one in others))
    return fmean(waits), fmean(works)


def _own_mean_s(window: StepWindow) -> float:
    return sum(spent_s for cause, spent_s in window.seconds.items() if group_of(cause) in OWN)


def _late(same: Sequence[StepWindow], limits: Thresholds) -> dict[int, float]:
    """Seconds above the median of the ranks, of those that stand out in one window."""
    own = {one.rank: one.own_s or 0.0 for one in same}
    is_few = len(own) < limits.fewest_ranks
    usual = min(own.values()) if is_few else median(own.values())
    share = limits.straggler_two if is_few else limits.straggler_share
    return {rank: s - usual for rank, s in own.items() if stands_out(s - usual, usual, share=share)}


def _usual(latest: Sequence[Sequence[StepWindow]]) -> tuple[float, float]:
    """Own time of the ranks in all windows together: its median and spread.

    Means over the windows are compared: what hits another rank in one of them hides nobody.
    """
    sums: dict[int, float] = defaultdict(float)
    for one in (one for same in latest for one in same):
        sums[one.rank] += (one.own_s or 0.0) / len(latest)
    return middle_and_spread(sums.values())


def _grown(latest: Sequence[Sequence[StepWindow]], rank: int) -> tuple[Cause, float]:
    """The line of a rank's own ledger that is farthest above that of the others, and by how much."""
    more: dict[Cause, float] = defaultdict(float)
    for same in latest:
        own = next(one for one in same if one.rank == rank)
        others = [one.seconds for one in same[:: -(-len(same) // _COMPARED)] if one is not own]
        for cause in {cause for one in (own.seconds, *others) for cause in one if group_of(cause) in OWN}:
            usual_s = median(one.get(cause, 0.0) for one in others)
            more[cause] += (own.seconds.get(cause, 0.0) - usual_s) / len(latest)
    cause = max(more, key=lambda one: more[one])
    return cause, more[cause]


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The same steps of all ranks."""

    first: int
    step_s: float
    """Median of the ranks."""
    groups: Mapping[Group, float]
    """Mean of the ranks."""
    end_s: float
    waited_s: float | None = None
    """Of a step, for a core, the mean of the ranks; None if it is not known."""


def job_windows(windows: Iterable[StepWindow]) -> list[JobWindow]:
    """Windows that all ranks have, in the order of steps."""
    return [job_window(same) for same in common_windows(windows)]


def job_window(same: Sequence[StepWindow]) -> JobWindow:
    """The same steps of all ranks as one."""
    sums: dict[Cause, float] = defaultdict(float)
    for one in same:
        for cause, spent_s in one.seconds.items():
            sums[cause] += spent_s / len(same)
    mean = dict.fromkeys(Group, 0.0) | grouped(sums)
    step_s = median(one.step_s for one in same)
    waits = [one.waited_s for one in same if one.waited_s is not None]
    waited_s = fmean(waits) if len(waits) == len(same) else None
    return JobWindow(same[0].first, step_s, mean, max(one.end_s for one in same), waited_s)


def job_slowdown(
    windows: Sequence[JobWindow], limits: Thresholds = THRESHOLDS, hosts: Hosts = _NOBODY
) -> list[Finding]:
    """The job's step has grown, and stays so: since which step, and by which line.

    The reference is the level just before the change, so that it does not matter how long the job
    ran before. If it grew because ranks wait for a core, the host is busy.
    """
    job = windows[1:]
    first = _level_change([log(one.step_s) for one in job if one.step_s > 0], limits)
    if first is None or job[-1].end_s - job[first - 1].end_s < limits.slowed_s:
        return []
    slow, usual = job[first:], job[max(first - limits.level_windows, 0) : first]
    before_s = median(one.step_s for one in usual)
    now_s = median(one.step_s for one in slow)
    more = {
        group: fmean(one.groups[group] for one in slow) - fmean(one.groups[group] for one in usual)
        for group in OF_A_STEP
    }
    group = max(more, key=lambda one: more[one])
    said = f"a step takes {now_s * 1e3:.1f} instead of {before_s * 1e3:.1f} ms since step {slow[0].first}, "
    waited_s = _waited_more(slow, usual)
    own_s = sum(more[one] for one in OWN)
    if waited_s is not None and waited_s >= limits.waited_share * max(own_s, (now_s - before_s) / 2):
        node = max(hosts, key=lambda one: hosts[one].pressure or 0.0, default="")
        said += f"and its ranks wait {waited_s * 1e3:.1f} ms longer for a core"
        return [_busy(node, slow[0], said, now_s - before_s, hosts)]
    return [
        Finding(
            FindingKind.SLOWED_DOWN,
            None,
            "",
            slow[0].end_s,
            f"{said}{more[group] * 1e3:+.1f} ms of it {group}",
            cost_s=now_s - before_s,
            since_step=slow[0].first,
            group=group,
        )
    ]


def _waited_more(slow: Sequence[JobWindow], usual: Sequence[JobWindow]) -> float | None:
    now = [one.waited_s for one in slow if one.waited_s is not None]
    before = [one.waited_s for one in usual if one.waited_s is not None]
    return fmean(now) - fmean(before) if now and before else None


def _level_change(levels: Sequence[float], limits: Thresholds) -> int | None:
    """Where a series (of logarithms) rose to the level that it still has; None if it did not."""
    count, least = len(levels), limits.slowed_windows
    more = log(1 + limits.slowed_share)
    if count < limits.reference_windows + least or min(levels[-least:]) <= min(levels) + more:
        return None
    now = median(levels[-least:])
    found, best = None, 0.0
    for at in range(limits.reference_windows, count - least + 1):
        before = levels[max(at - limits.level_windows, 0) : at]
        after = levels[at : at + limits.level_windows]
        usual, spread = middle_and_spread(before)
        _, noise = middle_and_spread(after)
        rest = levels[at:]  # to the end: a level that was left again is none
        level = median(rest[:: -(-len(rest) // limits.level_windows)])
        sure = limits.slowed_deviations * (1 + limits.reference_windows / len(before))
        bar = max(more, sure * TO_DEVIATION * max(spread, noise))
        if min(level, now) - usual <= bar or min(levels[-least:]) - usual <= more:
            continue
        middle = median([*before, *after])
        apart = sum(abs(one - middle) for one in [*before, *after])
        gained = apart - len(before) * _away(before, usual) - len(after) * _away(after, median(after))
        if gained > best:
            found, best = at, gained
    return found


def _away(levels: Sequence[float], middle: float) -> float:
    return fmean(abs(one - middle) for one in levels)


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
        group: fmean(one.groups[group] for one in slow) - predicted.get(group, 0.0) for group in OF_A_STEP
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
            FindingKind.SLOWER_THAN_PREDICTED,
            None,
            "",
            slow[0].end_s,
            said,
            cost_s=now_s - expected.step_s,
            since_step=slow[0].first,
            group=group,
        )
    ]
