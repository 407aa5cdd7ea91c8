"""Why the workers of a team stand still.

Holds `Idle`, `idle_of` (times in which one worker neither computes nor exchanges inside its
replica) and `Share`, `share_of` (where all of its time goes). It waits for the wires as long as it
would if all others had been ready with it, and beyond that for the worker that was ready last.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from syncwall.timeline.team import MEETING, Stood, Team
from syncwall.work.block import Stream

Why = Literal["wires", "worker", "host"]


@dataclass(frozen=True, slots=True)
class Idle:
    """One worker stands still."""

    start_s: float
    end_s: float
    why: Why
    whom: int | None = None
    """The worker that is waited for."""

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Share:
    """Where the time of one worker goes; the parts add up to the whole."""

    computing_s: float
    inside_s: float
    """Waiting for the tensor- or context-parallel ranks of its own replica."""
    wires_s: float
    worker_s: float
    """Waiting for a slower worker."""
    host_s: float


def idle_of(team: Team, worker: int) -> list[Idle]:
    """When and why `worker` stands still, in order."""
    found: list[Idle] = []
    for stood in team.stood:
        start_s, end_s = float(stood.starts[worker]), float(stood.ends[worker])
        if end_s <= start_s:
            continue
        if stood.stream is None:
            found.append(Idle(start_s, end_s, "host"))
        elif stood.stream in MEETING:
            found.extend(_split(stood, worker))
    return _joined(found)


def share_of(team: Team, worker: int, idle: list[Idle], end_s: float) -> Share:
    """The time of `worker` from 0 to `end_s`."""
    computing_s = sum(
        float(one.ends[worker] - one.starts[worker])
        for one in team.done
        if one.segment.stream is Stream.COMPUTE
    )
    of = {why: sum(i.seconds for i in idle if i.why == why) for why in ("wires", "worker", "host")}
    inside_s = end_s - computing_s - sum(of.values())
    return Share(computing_s, inside_s, of["wires"], of["worker"], of["host"])


def _split(stood: Stood, worker: int) -> Iterator[Idle]:
    """First what the wires take, then what another worker makes longer."""
    start_s, end_s = float(stood.starts[worker]), float(stood.ends[worker])
    wires_s = min(max(float(stood.alone[worker]), start_s), end_s)
    if wires_s > start_s:
        yield Idle(start_s, wires_s, "wires")
    if end_s > wires_s:
        yield Idle(wires_s, end_s, "worker", stood.last)


def _joined(pieces: list[Idle]) -> list[Idle]:
    """The same with neighbours of one reason as one."""
    found: list[Idle] = []
    for piece in pieces:
        last = found[-1] if found else None
        if (
            last
            and last.end_s == piece.start_s
            and (last.why, last.whom) == (piece.why, piece.whom)
        ):
            found[-1] = Idle(last.start_s, piece.end_s, last.why, last.whom)
        else:
            found.append(piece)
    return found
