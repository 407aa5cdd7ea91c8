"""A job at one moment, and its end: what agents give to whoever shows or exports it.

Holds `Live` (a round of an agent), `Listener` (who is told of rounds) and `Summary`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from syncwall.cause import Cause
from syncwall.watch.devices import DeviceState
from syncwall.watch.events import (
    Expectation,
    Finding,
    NodeReport,
    RankState,
    StepRecord,
)


@dataclass(frozen=True, slots=True)
class Live:
    """What an agent knows after one round."""

    now_s: float
    """Since the epoch."""
    reports: tuple[NodeReport, ...]
    """Of this node, then of others that were heard of: on the first node of all, elsewhere of the
    first. In a large job, ranks that are well are left out."""
    steps: tuple[StepRecord, ...]
    """Finished on this node since the round before."""
    findings: tuple[Finding, ...]
    """That hold now."""
    new: tuple[Finding, ...]
    """Those of them that did not hold in the round before."""
    expected: Expectation | None = None
    told: tuple[Finding, ...] = ()
    """What the first node has found elsewhere: shown here, and told to others by its own agent."""
    devices: tuple[DeviceState, ...] = ()
    """Of this node, where NVML is there."""

    @property
    def ranks(self) -> tuple[RankState, ...]:
        """Of all nodes, by rank."""
        states = (one for report in self.reports for one in report.ranks)
        return tuple(sorted(states, key=lambda one: one.rank))


class Listener(Protocol):
    """Somebody who is told of every round; it must return soon, and what it raises is ignored."""

    def round(self, live: Live) -> None:
        """Once for each look at the ranks, four times a second."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A watched job after its end, as its node saw it."""

    node: str
    ranks: int
    """Processes that were watched."""
    world: int
    steps: int
    """Finished by the rank that came farthest."""
    step_s: float | None
    """Mean over ranks and steps; None without a step."""
    seconds: Mapping[Cause, float]
    """Of a step, the mean over ranks and steps."""
    tokens_per_s: float | None
    """All ranks of the node together; None if nobody told tokens."""
    watched_s: float
    findings: tuple[Finding, ...]
    """All that ever held, in the order in which they came."""
    expected: Expectation | None
    lost_marks: int
    notes: tuple[str, ...]
