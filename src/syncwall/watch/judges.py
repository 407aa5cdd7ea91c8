"""Judges of the ranks of a live run: pure functions over their states.

Holds `Thresholds` and `THRESHOLDS`, every number of all judges and why it is that one, fixed before
the runs that are reported in `docs/explanation/watch.md`. Who is dead, stopped, hung or cut off:
`dead`, `stopped`, `hung`, `lost_nodes` and `patience_s`. Times are seconds since the epoch; `now_s`
is given, so that a recorded run is judged as a live one was. Each judge is silent where it does not
know enough; those of speed are in `syncwall.watch.speed`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncwall.watch.events import Finding, FindingKind, NodeReport, Process, RankState


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All of them."""

    poll_s: float = 0.25
    """Between two looks at rings and processes: a stopped rank is named within 0.5 s."""
    judge_s: float = 1.0
    """Between two judgements of speed; those of processes are made at every look."""

    hang_floor_s: float = 3.0
    """Silence that no short step explains: pauses of garbage collection and of the file system are
    below a second."""
    hang_steps: float = 5.0
    """Silence in steps: a rank that is this late has never caught up in the prototype's runs."""
    hang_beyond_longest: float = 1.5
    """A silence is no hang below this multiple of the longest one that the rank has survived."""
    nobody_waits_s: float = 60.0
    """Silence of ranks of which none waits for another: they are busy with the same thing, such as
    what a script does after its last step."""
    start_s: float = 600.0
    """Before the first steps: loading, compiling and the first collective take minutes."""
    save_s: float = 600.0
    """Within a checkpoint or an evaluation: they are long, and only some ranks write."""

    cascade_s: float = 10.0
    """A rank that dies so soon after another dies of it: its collective breaks, or torchrun ends
    it; torchrun waits 30 s before it kills, but sends the first signal at once."""
    node_silent_s: float = 3.0
    """A node whose report stays the same; reports come four times a second."""

    throttled_s: float = 15.0
    """For which clocks are held down: a burst of work does so for moments."""
    device_error_s: float = 600.0
    """For which an error of a device is told: what it does to the job comes later."""

    window: int = 25
    """Steps of which medians are compared; one in four ranks may have a hiccup a window."""
    windows: int = 3
    """In a row, so that a straggler is named within 100 steps and a busy minute is not one."""
    straggler_share: float = 0.03
    """By which own time must exceed the median of the ranks, as a share of it, in each window."""
    straggler_deviations: float = 5.0
    """The same of the mean of the windows, in median absolute deviations of the ranks."""
    straggler_mean: float = 0.06
    """The same in the mean of the windows: of a healthy run of 1,450 steps 1 of 58 windows was
    over 3%, and three in a row with 6% on average are not what a shared machine does."""
    fewest_ranks: int = 3
    """To call one of two ranks slow needs no statistics: the other is the only measure. Then the
    deviation is not known, and `straggler_two` holds."""
    straggler_two: float = 0.08
    """The share that holds in every window with two ranks."""

    waited_share: float = 0.5
    """Of what a step takes longer, to be waiting for a core: then the host is busy."""

    slowed_share: float = 0.10
    """That the job's step grew by, against the level before ..."""
    slowed_deviations: float = 4.0
    """... and standard deviations of the windows before and after, more of few windows."""
    slowed_windows: int = 3
    """In a row: with the one in which it begins, 100 steps ..."""
    slowed_s: float = 8.0
    """... and for so long: a busy second of a machine is nobody's concern."""
    reference_windows: int = 4
    """That a slow-down is measured against at least, the first one left out: it warms up."""
    level_windows: int = 16
    """Before and after a change that are compared at most."""

    pause_steps: float = 5.0
    """A step is a pause beyond so many usual ones ..."""
    pause_s: float = 2.0
    """... if it is longer by so much; what is shorter shows in windows, if it comes often."""
    stall_share: float = 0.5
    """Of what a pause takes longer, to be waiting for data."""
    stall_told_s: float = 60.0
    """For which it is told, and a busy host."""
    predicted_windows: int = 2
    """Beyond the interval of a prediction, in a row."""


THRESHOLDS: Final = Thresholds()


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
    if first.error:
        said += f": {first.error}"
    if others:
        later_s = (others[0].changed_s or 0.0) - (first.changed_s or 0.0)
        said += f"; {len(others)} more ended from {later_s * 1e3:.0f} ms later on"
    return Finding(
        FindingKind.DEAD,
        first.rank,
        first.node,
        first.changed_s or 0.0,
        said,
        since_step=first.step,
        also=tuple(one.rank for one in others),
    )


def stopped(ranks: Iterable[RankState]) -> list[Finding]:
    """Ranks that a signal or a debugger stopped."""
    return [
        Finding(
            FindingKind.STOPPED,
            one.rank,
            one.node,
            one.changed_s or 0.0,
            f"process {one.pid} is stopped (SIGSTOP or a debugger) in step {one.step}, {one.phase}",
            since_step=one.step,
        )
        for one in ranks
        if one.process is Process.STOPPED
    ]


def hung(
    ranks: Sequence[RankState],
    now_s: float,
    limits: Thresholds = THRESHOLDS,
    *,
    whole: bool = True,
) -> list[Finding]:
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
    if not all(now_s - one.phase_since_s > patience_s(one, limits) + one.starved_s for one in running):
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
    """Silence that says nothing yet, in the current phase of a rank."""
    if one.phase in ("checkpoint", "evaluation"):
        return limits.save_s
    if one.step_s is None or one.phase == "starting":
        return limits.start_s
    return max(
        limits.hang_floor_s,
        limits.hang_steps * one.step_s,
        limits.hang_beyond_longest * one.longest_silence_s,
    )


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
    said = f"no mark for {now_s - one.phase_since_s:.1f} s in step {one.step}: stands in {one.phase}"
    if one.where:
        said += f" ({one.where})"
    if waiting:
        said += f"; {waiting} others wait for it"
    return Finding(FindingKind.HUNG, one.rank, one.node, one.phase_since_s, said, since_step=one.step)


def _all_hang(ranks: Sequence[RankState], now_s: float) -> Finding:
    since_s = max(one.phase_since_s for one in ranks)
    phases = ", ".join(sorted({one.phase for one in ranks}))
    said = f"no rank has made a mark for {now_s - since_s:.1f} s: all stand in {phases}"
    also = tuple(one.rank for one in ranks)
    return Finding(FindingKind.HUNG, None, "", since_s, said, since_step=ranks[0].step, also=also)


def lost_nodes(
    reports: Mapping[str, NodeReport],
    silent_s: Mapping[str, float],
    limits: Thresholds = THRESHOLDS,
    now_s: float = 0.0,
) -> list[Finding]:
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
        found.append(Finding(FindingKind.NODE_LOST, None, node, now_s - silent_s[node], said, also=ranks))
    return found
