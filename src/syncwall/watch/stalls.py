"""Steps that waited for their batch, many times as long as a step takes.

Holds `Stalls`, which follows the ranks of one node: one stalled step is a finding by itself.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from syncwall.watch.events import Finding, FindingKind, Group, Process, RankState, StepRecord, grouped
from syncwall.watch.judges import THRESHOLDS, Thresholds
from syncwall.watch.speed import is_pause

_USUAL: Final = 64
"""Steps of a rank whose median is usual ..."""
_FEWEST: Final = 8
"""... of which so many are there."""
_TOGETHER_S: Final = 0.5
"""In which the others report the same step."""


class Stalls:
    """Findings of one node."""

    def __init__(self, limits: Thresholds = THRESHOLDS) -> None:
        self._limits = limits
        self._usual: dict[int, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=_USUAL))
        """Seconds of the latest steps by rank, and those of waiting for data."""
        self._new: dict[int, tuple[float, list[tuple[StepRecord, float]]]] = {}
        """By step: when it was first seen, and its ranks with the seconds beyond the usual."""
        self._held: list[tuple[float, Finding]] = []

    def take(
        self, steps: Iterable[StepRecord], states: Sequence[RankState], now_s: float
    ) -> tuple[Finding, ...]:
        """Findings that hold after these steps."""
        for step in steps:
            self._look(step, now_s)
        self._held = [one for one in self._held if now_s - one[0] < self._limits.stall_told_s]
        for number in [n for n, (seen_s, _) in self._new.items() if now_s - seen_s >= _TOGETHER_S]:
            self._held.append((now_s, self._told(self._new.pop(number)[1], states)))
        self._held += [(now_s, one) for one in self._under_way(states, now_s)]
        return tuple({one.key: one for _, one in reversed(self._held)}.values())

    def _look(self, step: StepRecord, now_s: float) -> None:
        usual = self._usual[step.rank]
        data_s = grouped(step.seconds).get(Group.DATA, 0.0)
        if len(usual) >= _FEWEST:
            step_s = median(one for one, _ in usual)
            more_s = data_s - median(one for _, one in usual)
            longer_s = step.step_s - step_s
            is_data = more_s >= self._limits.stall_share * longer_s
            if is_data and is_pause(step.step_s, step_s, self._limits):
                self._new.setdefault(step.step, (now_s, []))[1].append((step, more_s))
        usual.append((step.step_s, data_s))

    def _told(self, found: Sequence[tuple[StepRecord, float]], states: Sequence[RankState]) -> Finding:
        step, more_s = max(found, key=lambda one: one[1])
        usual_s = median(one for one, _ in self._usual[step.rank])
        ranks = tuple(sorted(one.rank for one, _ in found))
        node = next((one.node for one in states if one.rank == step.rank), "")
        whole = len(ranks) == len(states) > 1
        who = "all ranks" if whole else f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:8]))}"
        said = (
            f"step {step.step} took {step.step_s:.1f} s, usual {usual_s * 1e3:.1f} ms: {who} waited "
            f"{more_s:.1f} s for a batch"
        )
        return Finding(
            FindingKind.DATA_STALL,
            ranks[0] if len(ranks) == 1 and not whole else None,
            node,
            step.end_s,
            said,
            since_step=step.step,
            group=Group.DATA,
            also=ranks if len(ranks) > 1 else (),
        )

    def _under_way(self, states: Sequence[RankState], now_s: float) -> Iterable[Finding]:
        """While all ranks wait for the data loader nobody waits for them, and they are not hung."""
        running = [one for one in states if one.process is Process.RUNNING]
        if not running or any(one.phase != "data" or one.step_s is None for one in running):
            return
        since_s = max(one.phase_since_s for one in running)
        least_s = max(self._limits.pause_steps * (one.step_s or 0.0) for one in running)
        if now_s - since_s > max(self._limits.hang_floor_s, least_s):
            said = (
                f"all ranks have waited {now_s - since_s:.1f} s for the data loader in step {running[0].step}"
            )
            yield Finding(
                FindingKind.DATA_STALL,
                running[0].rank if len(running) == 1 else None,
                running[0].node,
                since_s,
                said,
                since_step=running[0].step,
                group=Group.DATA,
                also=tuple(one.rank for one in running) if len(running) > 1 else (),
            )
