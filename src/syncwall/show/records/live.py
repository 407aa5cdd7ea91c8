"""A watched job at one moment, as plain data.

Holds `LiveRecord` and `live_record`.
"""

from typing_extensions import TypedDict

from syncwall.cause import Cause
from syncwall.show.records.interface import record
from syncwall.show.records.watch import (
    ExpectedRecord,
    FindingRecord,
    expected_record,
    finding_record,
)
from syncwall.watch.events import Group, Process, grouped
from syncwall.watch.summary import Snapshot


@record
class RankRecord(TypedDict):
    """One rank."""

    rank: int
    """Its number."""
    node: str
    """Where it runs."""
    pid: int
    """Its process."""
    process: Process
    """What the kernel says of it."""
    phase: str
    """Where it stands."""
    phase_since_s: float
    """Its last mark, since the epoch."""
    step: int
    """The one that it is in."""
    step_s: float | None
    """Median of its latest steps."""


@record
class LiveRecord(TypedDict):
    """A run while it trains."""

    now_s: float
    """Since the epoch."""
    node: str
    """Whose agent says so."""
    world: int
    """Ranks of the job."""
    ranks: list[RankRecord]
    """That the agent knows."""
    step_s: float | None
    """Mean over ranks and latest steps; null without a step."""
    ledger_s: dict[Cause, float]
    """Seconds of such a step by cause; they sum to `step_s`."""
    groups_s: dict[Group, float]
    """The same in the lines that a prediction can be compared in."""
    tokens_per_s: float | None
    """Of the node; null if nobody told tokens."""
    mfu: float | None
    """Model FLOPs utilization; null if FLOPs are not known."""
    loss: float | None
    """The latest."""
    goodput: float | None
    """Share of the job's wall time in steps that count; null without --life."""
    remaining_s: list[float] | None
    """P10, P50 and P90 of the time until the job is done; null without --steps."""
    findings: list[FindingRecord]
    """That hold now."""
    past: list[FindingRecord]
    """That held."""
    expected: ExpectedRecord | None
    """What it is compared with."""
    notes: list[str]
    """What cannot be told."""


def live_record(found: Snapshot) -> LiveRecord:
    """All of it."""
    losses = [one for one in found.losses if one is not None]
    return {
        "now_s": found.now_s, "node": found.node, "world": found.world,
        "ranks": [
            {
                "rank": one.rank, "node": one.node, "pid": one.pid, "process": one.process,
                "phase": one.phase, "phase_since_s": one.phase_since_s, "step": one.step,
                "step_s": one.step_s,
            }
            for one in found.ranks
        ],
        "step_s": found.step_s, "ledger_s": dict(found.seconds),
        "groups_s": grouped(found.seconds), "tokens_per_s": found.tokens_per_s, "mfu": found.mfu,
        "loss": losses[-1] if losses else None, "goodput": found.goodput,
        "remaining_s": list(found.finish_s) if found.finish_s else None,
        "findings": [finding_record(one) for one in found.findings],
        "past": [finding_record(one) for one in found.past],
        "expected": expected_record(found.expected) if found.expected else None,
        "notes": list(found.notes),
    }  # fmt: skip
