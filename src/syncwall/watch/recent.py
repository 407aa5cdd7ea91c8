"""What an agent has seen so far, added up for whoever exports or shows it.

Holds `Recent`, a listener with `RankTotals`, and `Snapshot`, what it knows at one moment: the live
ledger of a step, the ranks, latest steps and losses, findings.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from syncwall.cause import Cause
from syncwall.watch.events import (
    FORMAT,
    Expectation,
    Finding,
    FindingKey,
    FindingKind,
    RankState,
    StepRecord,
)
from syncwall.watch.live import Live

_KEPT: Final = 240
"""Steps that a ledger and curves show."""


@dataclass(slots=True)
class RankTotals:
    """One rank since it was watched, restarts included."""

    node: str = ""
    steps: int = 0
    seconds: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    tokens: float = 0.0
    latest: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=_KEPT))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A watched job at one moment."""

    now_s: float
    node: str
    world: int
    ranks: tuple[RankState, ...]
    """Of this node and of others that it hears of."""
    step_s: float | None = None
    """Mean of the latest steps of all ranks."""
    seconds: Mapping[Cause, float] = field(default_factory=dict)
    """Of such a step."""
    steps: tuple[int, ...] = ()
    """Numbers of the latest steps of the lowest rank ..."""
    steps_s: tuple[float, ...] = ()
    """... their times ..."""
    losses: tuple[float | None, ...] = ()
    """... and losses."""
    tokens_per_s: float | None = None
    """Of the node, over the latest steps."""
    mfu: float | None = None
    goodput: float | None = None
    finish_s: tuple[float, float, float] | None = None
    """P10, P50 and P90 of the time that is left."""
    findings: tuple[Finding, ...] = ()
    """That hold now, of this node's agent and of the first one's."""
    past: tuple[Finding, ...] = ()
    """Those that held and do no more, the latest last."""
    expected: Expectation | None = None
    notes: tuple[str, ...] = ()
    format: int = FORMAT


class Recent:
    """Totals of all ranks of a node."""

    def __init__(self) -> None:
        self.totals: dict[int, RankTotals] = defaultdict(RankTotals)
        self.live: Live | None = None
        self.found: dict[FindingKey, Finding] = {}
        self.counted: dict[FindingKind, int] = defaultdict(int)
        """Findings so far, by kind."""
        self.flops_per_token: float | None = None
        self.peak_flops: float | None = None
        """Of one device."""
        self.goodput: float | None = None
        self.finish_s: tuple[float, float, float] | None = None

    def round(self, live: Live) -> None:
        """Add up."""
        self.live = live
        for state in live.reports[0].ranks if live.reports else ():
            self.totals[state.rank].node = state.node
        for step in live.steps:
            total = self.totals[step.rank]
            if total.latest and step.step <= total.latest[-1].step:
                total.latest.clear()  # the rank was started anew
            total.steps += 1
            total.tokens += step.tokens or 0.0
            total.latest.append(step)
            for cause, spent_s in step.seconds.items():
                total.seconds[cause] += spent_s
        for one in live.new:
            self.found[one.key] = one
            self.counted[one.kind] += 1

    @property
    def tokens_per_s(self) -> float | None:
        """Of all ranks together, over their latest steps."""
        found = [_tokens_per_s(list(one.latest)) for one in self.totals.values()]
        return sum(rates) if (rates := [one for one in found if one is not None]) else None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs over what the devices of these ranks could do; recomputation not counted."""
        if not self.flops_per_token or not self.peak_flops or self.tokens_per_s is None:
            return None
        ranks = sum(1 for one in self.totals.values() if one.latest)
        return self.tokens_per_s * self.flops_per_token / (self.peak_flops * ranks)

    def snapshot(self) -> Snapshot | None:
        """What is known now; None before the first round."""
        live = self.live
        if live is None:
            return None
        latest = [list(one.latest) for one in self.totals.values() if one.latest]
        count = sum(map(len, latest))
        seconds: dict[Cause, float] = defaultdict(float)
        for step in (step for steps in latest for step in steps):
            for cause, spent_s in step.seconds.items():
                seconds[cause] += spent_s / count
        first = list(self.totals[min(self.totals)].latest) if self.totals else []
        held = {one.key for one in live.findings}
        return Snapshot(
            live.now_s, live.reports[0].node if live.reports else "",
            max((one.world for one in live.reports), default=0), live.ranks,
            step_s=sum(seconds.values()) if count else None,
            seconds={cause: seconds[cause] for cause in sorted(seconds, key=lambda c: c.order)},
            steps=tuple(one.step for one in first), steps_s=tuple(one.step_s for one in first),
            losses=tuple(one.loss for one in first), tokens_per_s=self.tokens_per_s, mfu=self.mfu,
            goodput=self.goodput, finish_s=self.finish_s, findings=live.findings + live.told,
            past=tuple(one for key, one in self.found.items() if key not in held)[-20:],
            expected=live.expected,
            notes=tuple(dict.fromkeys(note for one in live.reports for note in one.notes)),
        )  # fmt: skip


def _tokens_per_s(steps: list[StepRecord]) -> float | None:
    told = [one for one in steps if one.tokens is not None]
    spent_s = sum(one.step_s for one in told)
    return sum(one.tokens or 0.0 for one in told) / spent_s if spent_s else None


def median_step_s(total: RankTotals) -> float | None:
    """Of the latest steps of a rank."""
    return median(one.step_s for one in total.latest) if total.latest else None
