"""A watched run as plain data.

Holds `WatchRecord` and `watch_record`; `finding_record` and `expected_record`, which are parts of
live records, too.
"""

from typing_extensions import TypedDict

from syncwall.cause import Cause
from syncwall.show.records.interface import record
from syncwall.watch.events import Expectation, Finding, FindingKind, Group, grouped
from syncwall.watch.summary import Summary


@record
class FindingRecord(TypedDict):
    """Something that was wrong."""

    kind: FindingKind
    """What."""
    rank: int | None
    """Whose; null if it is about a node or the whole job."""
    node: str
    """Where; empty if it is about the whole job."""
    since_s: float
    """Since the epoch."""
    since_step: int | None
    """The step in which it began."""
    evidence: str
    """What it rests on."""
    cost_s: float | None
    """That each step takes longer for it; null if the job stood still."""
    group: Group | None
    """The line of the ledger that grew."""
    also: list[int]
    """Other ranks that it is about."""
    device: int | None
    """The GPU of the node that it is about."""


@record
class ExpectedRecord(TypedDict):
    """A predicted step."""

    step_s: float
    """Predicted."""
    low_s: float
    """Nine of ten such runs are slower."""
    high_s: float
    """Nine of ten such runs are faster."""
    groups_s: dict[Group, float]
    """Seconds of a step in the lines of a live ledger."""
    source: str
    """What was predicted."""


@record
class WatchRecord(TypedDict):
    """A run that was watched."""

    command: list[str]
    """What was run; empty if an agent was started without one."""
    code: int
    """Exit code of the command."""
    node: str
    """That was watched."""
    ranks: int
    """Of this node."""
    world: int
    """Ranks of the job."""
    steps: int
    """Of the rank that came farthest."""
    step_s: float | None
    """Mean over ranks and steps; null without a step."""
    ledger_s: dict[Cause, float]
    """Seconds of a step by cause, mean over ranks and steps; they sum to `step_s`."""
    groups_s: dict[Group, float]
    """The same in the lines that a prediction can be compared in."""
    tokens_per_s: float | None
    """All ranks of the node; null if nobody told tokens."""
    watched_s: float
    """How long."""
    findings: list[FindingRecord]
    """All that ever held, in the order in which they came."""
    expected: ExpectedRecord | None
    """What it was compared with."""
    lost_marks: int
    """Overwritten before they were read."""
    notes: list[str]
    """What could not be told."""


def watch_record(found: Summary, command: tuple[str, ...] = (), code: int = 0) -> WatchRecord:
    """All of it."""
    return {
        "command": list(command), "code": code, "node": found.node, "ranks": found.ranks,
        "world": found.world, "steps": found.steps, "step_s": found.step_s,
        "ledger_s": dict(found.seconds), "groups_s": grouped(found.seconds),
        "tokens_per_s": found.tokens_per_s, "watched_s": found.watched_s,
        "findings": [finding_record(one) for one in found.findings],
        "expected": expected_record(found.expected) if found.expected else None,
        "lost_marks": found.lost_marks, "notes": list(found.notes),
    }  # fmt: skip


def finding_record(one: Finding) -> FindingRecord:
    """One finding."""
    return {
        "kind": one.kind, "rank": one.rank, "node": one.node, "since_s": one.since_s,
        "since_step": one.since_step, "evidence": one.evidence, "cost_s": one.cost_s,
        "group": one.group, "also": list(one.also), "device": one.device,
    }  # fmt: skip


def expected_record(one: Expectation) -> ExpectedRecord:
    """What was predicted."""
    return {
        "step_s": one.step_s, "low_s": one.low_s, "high_s": one.high_s,
        "groups_s": grouped(one.seconds), "source": one.source,
    }  # fmt: skip
