"""What holds a run up, without anybody having said what it should be like.

Holds `Bound`, `RunVerdict`, `run_verdict`, and with it `verdict_at_end` and `verdict_now`. Thresholds
and advice are those of `explain`; agents do not load this.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from syncwall.cause import Cause
from syncwall.explain.traces.rank_comparison import NEXT
from syncwall.explain.verdict import COSTLY, FEW_STEPS
from syncwall.public import published
from syncwall.watch.events import Finding, FindingKind, Group, grouped
from syncwall.watch.summary import Snapshot, Summary


class Bound(StrEnum):
    """What a step mostly waits for, or works at."""

    INPUT = "input-bound"
    COMPUTE = "compute-bound"
    COMMUNICATION = "communication-bound"
    HOST = "host-bound"
    STRAGGLING = "straggling"


_WAITS: Final = {
    Group.DATA: (Bound.INPUT, "waits for data", NEXT["slow data loader"]),
    Group.COMMUNICATION: (
        Bound.COMMUNICATION,
        "waits for communication, or for ranks that come to it late",
        NEXT["communication-bound"],
    ),
    Group.IDLE: (
        Bound.HOST,
        "is code of the loop between the phases",
        "take logging, .item() and copies out of the loop, or do them rarely",
    ),
}
_COMPARE: Final = "compare it with a prediction or an earlier run: syncwall watch --expect run.yaml"


@published()
@dataclass(frozen=True, slots=True)
class RunVerdict:
    """What holds a run up."""

    bound: Bound
    """In one word."""
    share: float
    """Of a step."""
    what: str
    """What this share of a step does."""
    next: str
    """What to do about it first."""

    def __str__(self) -> str:
        """In one line: "input-bound: 40% of a step waits for data"."""
        return f"{self.bound}: {self.share:.0%} of a step {self.what}"


def run_verdict(seconds: Mapping[Cause, float], findings: Iterable[Finding], steps: int) -> RunVerdict | None:
    """Of a mean step by cause and the findings that hold; None of fewer steps than tell something."""
    step_s = sum(seconds.values())
    if steps < FEW_STEPS or not step_s:
        return None
    costly = sorted(findings, key=lambda one: -(one.cost_s or 0.0))
    for one in costly:
        share = min((one.cost_s or 0.0) / step_s, 1.0)
        if one.kind is FindingKind.STRAGGLER:
            of_data = one.group is Group.DATA
            advice = NEXT["slow data loader" if of_data else "slow worker"]
            return RunVerdict(Bound.STRAGGLING, share, f"waits for rank {one.rank}", advice)
        if one.kind is FindingKind.HOST_BUSY:
            what = f"waits for cores of {one.node}" if one.node else "waits for cores"
            advice = "give the job cores of its own, or move what else runs there"
            return RunVerdict(Bound.HOST, share, what, advice)
    spent = grouped(seconds)
    largest = max(_WAITS, key=lambda group: spent.get(group, 0.0))
    share = spent.get(largest, 0.0) / step_s
    if share >= COSTLY:
        bound, what, advice = _WAITS[largest]
        return RunVerdict(bound, share, what, advice)
    share = spent.get(Group.COMPUTE, 0.0) / step_s
    return RunVerdict(Bound.COMPUTE, share, "is its forward and backward pass and optimizer", _COMPARE)


def verdict_at_end(found: Summary) -> RunVerdict | None:
    """Over all steps, with the findings that held to the end."""
    return run_verdict(found.seconds, found.held, found.steps)


def verdict_now(found: Snapshot) -> RunVerdict | None:
    """Over the latest steps, with the findings that hold."""
    return run_verdict(found.seconds, found.findings, len(found.steps))
