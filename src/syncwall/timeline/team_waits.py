"""Why the workers of a team stand still.

Holds `WorkerWait`, `idle_of` (times in which one worker neither computes nor exchanges inside its
replica) and `WorkerShare`, `share_of` (where all of its time goes). It waits for the wires as long
as it would if all others had been ready with it, and beyond that for the worker that was ready
last.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from syncwall.timeline.team import MEETING, Standstill, TeamClock
from syncwall.work.block import Stream

WaitReason = Literal["wires", "worker", "host"]


@dataclass(frozen=True, slots=True)
class WorkerWait:
    """One worker stands still."""

    start_s: float
    end_s: float
    why: WaitReason
    whom: int | None = None
    """The worker that is waited for."""

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """Where the time of one worker goes; the parts add up to the whole."""

    computing_s: float
    inside_s: float
    """Waiting for the tensor- or context-parallel ranks of its own replica."""
    wires_s: float
    worker_s: float
    """Waiting for a slower worker."""
    host_s: float


def idle_of(team: TeamClock, worker: int) -> list[WorkerWait]:
    """When and why `worker` stands still, in order."""
    found: list[WorkerWait] = []
    for stood in team.standstills:
        start_s, end_s = float(stood.starts[worker]), float(stood.ends[worker])
        if end_s <= start_s:
            continue
        if stood.stream is None:
            found.append(WorkerWait(start_s, end_s, "host"))
        elif stood.stream in MEETING:
            found.extend(_split(stood, worker))
    return _joined(found)


def share_of(team: TeamClock, worker: int, idle: list[WorkerWait], end_s: float) -> WorkerShare:
    """The time of `worker` from 0 to `end_s`."""
    computing_s = sum(
        float(one.ends[worker] - one.starts[worker])
        for one in team.done
        if one.segment.stream is Stream.COMPUTE
    )
    of = {why: sum(i.seconds for i in idle if i.why == why) for why in ("wires", "worker", "host")}
    inside_s = end_s - computing_s - sum(of.values())
    return WorkerShare(computing_s, inside_s, of["wires"], of["worker"], of["host"])


def _split(stood: Standstill, worker: int) -> Iterator[WorkerWait]:
    """First what the wires take, then what another worker makes longer."""
    start_s, end_s = float(stood.starts[worker]), float(stood.ends[worker])
    wires_s = min(max(float(stood.alone[worker]), start_s), end_s)
    if wires_s > start_s:
        yield WorkerWait(start_s, wires_s, "wires")
    if end_s > wires_s:
        yield WorkerWait(wires_s, end_s, "worker", stood.last)


def _joined(pieces: list[WorkerWait]) -> list[WorkerWait]:
    """The same with neighbours of one reason as one."""
    found: list[WorkerWait] = []
    for piece in pieces:
        last = found[-1] if found else None
        if (
            last
            and last.end_s == piece.start_s
            and (last.why, last.whom) == (piece.why, piece.whom)
        ):
            found[-1] = WorkerWait(last.start_s, piece.end_s, last.why, last.whom)
        else:
            found.append(piece)
    return found
