"""Who is dead, stopped, hung or cut off: pure functions over states of ranks.

Holds `dead`, `stopped`, `hung`, `lost_nodes` and `patience_s`. Times are seconds since the epoch;
`now_s` is given, so that a recorded run is judged as a live one was.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from syncwall.watch.events import Finding, FindingKind, NodeReport, Process, RankState
from syncwall.watch.thresholds import THRESHOLDS, Thresholds


def dead(ranks: Iterable[RankState], limits: Thresholds = THRESHOLDS) -> list[Finding]:
    """The rank that died first, with those that died of it; several if they died far apart.

    A rank that ended by an exception counts as dead, too; one that finished does not.
    """
    ended = _in_order(one for one in ranks if one.process in (Process.DEAD, Process.FAILED))
    found: list[list[RankState]] = []
    for one in ended:
        when_s = one.changed_s or 0.0
        if found and when_s - (found[-1][-1].changed_s or 0.0) <= limits.cascade_s:
            found[-1].append(one)
        else:
            found.append([one])
    return [_death(group) for group in found]


def _in_order(ended: Iterable[RankState]) -> list[RankState]:
    """By time; of dead ranks of one node only the kernel knows the order."""
    latest_s: dict[str, float] = {}
    found = []
    for one in sorted(ended, key=lambda one: one.died_as or 0):
        when_s = one.changed_s or 0.0
        if one.process is Process.DEAD:
            when_s = latest_s[one.node] = max(when_s, latest_s.get(one.node, 0.0))
        found.append(replace(one, changed_s=when_s))
    return sorted(found, key=lambda one: (one.changed_s or 0.0, one.died_as or 0))


def _death(group: Sequence[RankState]) -> Finding:
    first, *others = group
    said = f"process {first.pid} {first.where or 'is gone'} in step {first.step}"
    if first.process is not Process.FAILED:
        said += f", {first.phase}"
    if others:
        later_s = (others[0].changed_s or 0.0) - (first.changed_s or 0.0)
        said += f"; {len(others)} more ended from {later_s * 1e3:.0f} ms later on"
    return Finding(
        FindingKind.DEAD, first.rank, first.node, first.changed_s or 0.0, said,
        since_step=first.step, also=tuple(one.rank for one in others),
    )  # fmt: skip


def stopped(ranks: Iterable[RankState]) -> list[Finding]:
    """Ranks that a signal or a debugger stopped."""
    return [
        Finding(
            FindingKind.STOPPED, one.rank, one.node, one.changed_s or 0.0,
            f"process {one.pid} is stopped (SIGSTOP or a debugger) in step {one.step}, {one.phase}",
            since_step=one.step,
        )
        for one in ranks
        if one.process is Process.STOPPED
    ]  # fmt: skip


def hung(
    ranks: Sequence[RankState], now_s: float, limits: Thresholds = THRESHOLDS, *,
    whole: bool = True,
) -> list[Finding]:  # fmt: skip
    """Ranks for which the others wait, once nobody has made a mark for too long.

    Those that are dead or stopped explain a silence already. Of the others, it is whoever does not
    wait for communication while somebody does; if all of them wait, whoever stands elsewhere than
    most do, or has come least far; if nobody does, all of them, as one finding about the job.
    Unless the `whole` job is seen, ranks that all wait are not judged: they wait for somebody else.
    """
    running = [one for one in ranks if one.process is Process.RUNNING and one.phase != "ended"]
    explained = any(one.process in (Process.DEAD, Process.FAILED, Process.STOPPED) for one in ranks)
    if explained or not running:
        return []
    if not all(now_s - one.phase_since_s > patience_s(one, limits) for one in running):
        return []
    waiting = [one for one in running if one.phase == "exposed communication"]
    if not whole and len(waiting) == len(running):
        return []
    silent_s = min(now_s - one.phase_since_s for one in running)
    if not waiting and silent_s <= limits.nobody_waits_s:
        return []
    culprits = _culprits(running)
    if len(culprits) == len(running) > 1:
        return [_all_hang(culprits, now_s)]
    return [_hang(one, len(running) - len(culprits), now_s) for one in culprits]


def patience_s(one: RankState, limits: Thresholds) -> float:
    """Silence that says nothing yet, where a rank stands."""
    if one.phase in ("checkpoint", "evaluation"):
        return limits.save_s
    if one.step_s is None or one.phase == "starting":
        return limits.start_s
    return max(
        limits.hang_floor_s, limits.hang_steps * one.step_s,
        limits.hang_beyond_longest * one.longest_silence_s,
    )  # fmt: skip


def _culprits(running: Sequence[RankState]) -> list[RankState]:
    elsewhere = [one for one in running if one.phase != "exposed communication"]
    if elsewhere:
        return elsewhere
    places = {one.rank: (one.step, one.progress, one.collectives) for one in running}
    (most, count), *_ = Counter(places.values()).most_common()
    if 2 * count > len(running) > count:
        return [one for one in running if places[one.rank] != most]
    first = min(places.values())
    return [one for one in running if places[one.rank] == first]


def _hang(one: RankState, waiting: int, now_s: float) -> Finding:
    said = (
        f"no mark for {now_s - one.phase_since_s:.1f} s in step {one.step}: stands in {one.phase}"
    )
    if one.where:
        said += f" ({one.where})"
    if waiting:
        said += f"; {waiting} others wait for it"
    return Finding(
        FindingKind.HUNG, one.rank, one.node, one.phase_since_s, said, since_step=one.step
    )


def _all_hang(ranks: Sequence[RankState], now_s: float) -> Finding:
    since_s = max(one.phase_since_s for one in ranks)
    phases = ", ".join(sorted({one.phase for one in ranks}))
    said = f"no rank has made a mark for {now_s - since_s:.1f} s: all stand in {phases}"
    also = tuple(one.rank for one in ranks)
    return Finding(FindingKind.HUNG, None, "", since_s, said, since_step=ranks[0].step, also=also)


def lost_nodes(
    reports: Mapping[str, NodeReport], silent_s: Mapping[str, float],
    limits: Thresholds = THRESHOLDS, now_s: float = 0.0,
) -> list[Finding]:  # fmt: skip
    """Nodes whose report has not changed for too long, though its ranks had not ended.

    `silent_s` is by the clock of who reads, so that clocks of nodes need not agree.
    """
    found = []
    for node, report in reports.items():
        if silent_s[node] <= limits.node_silent_s:
            continue
        if not report.quiet and all(one.process.is_over for one in report.ranks):
            continue
        ranks = tuple(sorted((*(one.rank for one in report.ranks), *report.quiet)))
        said = f"nothing heard of it for {silent_s[node]:.1f} s: cut off, or its agent is gone"
        found.append(
            Finding(
                FindingKind.NODE_LOST, None, node, now_s - silent_s[node], said, also=ranks
            )
        )  # fmt: skip
    return found
