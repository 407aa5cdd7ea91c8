"""A watched run as plain data: after its end, and at one moment.

Holds `WatchedRun` and `LiveRun`.
"""

from dataclasses import dataclass

from syncwall.public import published
from syncwall.watch.baseline import Comparison
from syncwall.watch.events import Group, grouped
from syncwall.watch.job_state import JobStatus
from syncwall.watch.summary import Snapshot, Summary
from syncwall.watch.verdict import RunVerdict, verdict_at_end, verdict_now


@published(
    "command code node=summary.node ranks=summary.ranks world=summary.world steps=summary.steps",
    "step_s=summary.step_s ledger_s=summary.seconds groups_s tokens_per_s=summary.tokens_per_s",
    "watched_s=summary.watched_s findings=summary.findings expected=summary.expected",
    "verdict beside_s=summary.beside_s pauses=summary.pauses",
    "lost_marks=summary.lost_marks notes=summary.notes usual=summary.usual compared",
    node="That was watched.",
    world="Ranks of the job.",
    watched_s="How long.",
    expected="What it was compared with.",
    lost_marks="Overwritten before they were read.",
    notes="What could not be told.",
)
@dataclass(frozen=True)
class WatchedRun:
    """A run that was watched."""

    summary: Summary
    command: tuple[str, ...] = ()
    """What was run; empty if an agent was started without one."""
    code: int = 0
    """Exit code of the command."""
    compared: Comparison | None = None
    """With --baseline: this run beside the earlier one."""

    @property
    def groups_s(self) -> dict[Group, float]:
        """Seconds of a step in the lines that a prediction can be compared in."""
        return grouped(self.summary.seconds)

    @property
    def verdict(self) -> RunVerdict | None:
        """What held the run up; null of fewer than five steps."""
        return verdict_at_end(self.summary)


@published(
    "state=status.state reason=status.reason age_s=status.age_s name=snapshot.name",
    "now_s=snapshot.now_s node=snapshot.node world=snapshot.world ranks=snapshot.ranks",
    "step_s=snapshot.step_s ledger_s=snapshot.seconds groups_s verdict",
    "tokens_per_s=snapshot.tokens_per_s mfu=snapshot.mfu loss goodput=snapshot.goodput",
    "remaining_s findings=snapshot.findings past=snapshot.past expected=snapshot.expected",
    "notes=snapshot.notes",
    state="What the job does, as far as this can be known: silence is never good news.",
    reason="Why; empty for a running job without a finding.",
    age_s="Of what follows, by a clock that nobody sets; null: from another machine or boot.",
    name="Its command.",
    now_s="When the agent saw this, since the epoch.",
    node="Whose agent says so.",
    world="Ranks of the job.",
    mfu="Model FLOPs utilization; null if FLOPs are not known.",
    goodput="Share of the job's wall time in steps that count; null without --life.",
    expected="What it is compared with.",
    notes="What cannot be told.",
)
@dataclass(frozen=True)
class LiveRun:
    """A run while it trains."""

    snapshot: Snapshot
    status: JobStatus

    @property
    def groups_s(self) -> dict[Group, float]:
        """Seconds of a step in the lines that a prediction can be compared in."""
        return grouped(self.snapshot.seconds)

    @property
    def verdict(self) -> RunVerdict | None:
        """What holds the run up now; null of fewer than five steps."""
        return verdict_now(self.snapshot)

    @property
    def loss(self) -> float | None:
        """The latest."""
        known = [one for one in self.snapshot.losses if one is not None]
        return known[-1] if known else None

    @property
    def remaining_s(self) -> list[float] | None:
        """P10, P50 and P90 of the time until the job is done; None without --steps."""
        return list(self.snapshot.finish_s) if self.snapshot.finish_s else None
