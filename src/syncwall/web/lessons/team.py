"""A step as each of several data-parallel workers sees it, and why one stands still.

Holds `last_micro_batch`, a `LastMicroBatch` of `DoneSegment`s and `Standstill`s; `idle_of` and
`share_of`, the idle times (`WorkerWait`) and all time (`WorkerShare`) of one worker; `seconds_of`,
how long a step takes a team; and `pass_seconds`. A worker waits for the wires as long as it would
if all others had been ready with it, and beyond that for the worker that was ready last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from syncwall.cause import Cause
from syncwall.cost.prices import Prices
from syncwall.timeline.segments import Segment, Segments, segments
from syncwall.timeline.streams import MEETING, Clock, WorkerTeam
from syncwall.work.block import Block, Stage, Stream
from syncwall.work.number import Number

WorkerTimes = NDArray[np.float64]
"""Seconds from the start, one for each worker."""
WaitReason = Literal["wires", "worker", "host"]


@dataclass(frozen=True, slots=True)
class DoneSegment:
    """One segment as every worker did it."""

    part: str
    """Of the step: forward, backward, update."""
    block: str
    round: int
    segment: Segment
    ready: WorkerTimes
    """When each worker could have begun."""
    starts: WorkerTimes
    ends: WorkerTimes


@dataclass(frozen=True, slots=True)
class Standstill:
    """The compute streams stand still; where `ends` equals `starts` that worker does not."""

    stream: Stream | None
    """What they wait for; None for the host."""
    starts: WorkerTimes
    ends: WorkerTimes
    alone: WorkerTimes
    """When each would have gone on if all others had been ready with it."""

    @property
    def last(self) -> int:
        """The worker that the others wait for."""
        return int(self.alone.argmax())


@dataclass(slots=True)
class TeamRecord:
    """What a clock of a team does, round by round."""

    team: WorkerTeam
    part: str = ""
    block: str = ""
    round: int = 0
    done: list[DoneSegment] = field(default_factory=list)
    standstills: list[Standstill] = field(default_factory=list)

    def begin(self, block: Segments) -> None:
        """Every segment carries its times."""

    def ran(self, segment: Segment, ready: Any, start: Any) -> None:
        """Write down `segment` of every worker."""
        times = (np.asarray(ready), np.asarray(start), np.asarray(start + segment.seconds))
        self.done.append(DoneSegment(self.part, self.block, self.round, segment, *times))

    def waited(self, what: Segment | Stream | None, cause: Cause, start: Any, end: Any) -> None:
        """Write down that computation stood still for `what`; None is the host."""
        if not np.any(end > start):
            return
        alone: Number = end
        stream = what.stream if isinstance(what, Segment) else what
        if isinstance(what, Segment):
            alone = self.team.alone.get(what, end)
        elif stream in MEETING:
            alone = self.team.own[stream]
        self.standstills.append(Standstill(stream, start, end, np.asarray(alone)))


@dataclass(frozen=True, slots=True)
class LastMicroBatch:
    """The last micro batch and the update, per worker."""

    done: list[DoneSegment]
    standstills: list[Standstill]
    forward_s: WorkerTimes
    """When each worker has ended its forward pass."""
    backward_s: WorkerTimes
    met_s: WorkerTimes
    """When it has the gradients of all."""
    end_s: WorkerTimes


def last_micro_batch(stage: Stage, prices: Prices, slowness: Sequence[float]) -> LastMicroBatch:
    """The last micro batch of `stage`, all workers beginning together, with every round."""
    clock = Clock.of_team(slowness)
    assert clock.team is not None
    clock.record = record = TeamRecord(clock.team)
    moments: list[WorkerTimes] = []
    parts = {"forward": stage.forward, "backward": stage.last_backward, "update": stage.finish}
    for part, blocks in parts.items():
        record.part = part
        moments.append(_run(clock, blocks, prices))
        if part != "forward":
            moments.append(np.asarray(clock.join()))
    forward_s, backward_s, met_s, _, end_s = moments
    return LastMicroBatch(record.done, record.standstills, forward_s, backward_s, met_s, end_s)


def _run(clock: Clock, blocks: Sequence[Block], prices: Prices) -> WorkerTimes:
    """Run all rounds of `blocks`; when each worker is free to compute again."""
    assert clock.team is not None
    for block in blocks:
        if isinstance(clock.record, TeamRecord):
            clock.record.block = block.name
        clock.run(clock.team.slowed(segments(block, prices)), block.rounds)
    return np.asarray(clock.free[Stream.COMPUTE] + np.zeros(len(clock.team.slowness)))


@dataclass(frozen=True, slots=True)
class TeamSeconds:
    """Seconds of a team on one class of ranks, without pipeline bubble and what is once a step."""

    micro_s: float
    """A micro batch that only adds up gradients."""
    final_s: float
    """The last micro batch, the reduction of gradients and the update."""

    def of_step(self, microbatches: float) -> float:
        """All micro batches."""
        return (microbatches - 1) * self.micro_s + self.final_s


def team_seconds(stage: Stage, prices: Prices, slowness: Sequence[float], window: float = 0.0) -> TeamSeconds:
    """How long a team takes, by the same shortcut of three rounds as the prediction's.

    `window` is `timeline.step.reduction_window`.
    """
    micro, final = Clock.of_team(slowness), Clock.of_team(slowness)
    for clock, backward in ((micro, stage.backward), (final, stage.last_backward)):
        begun = _run(clock, stage.forward, prices)
        _run(clock, backward, prices)
    final.move_earlier(Stream.REDUCE, (micro.next_micro_batch() - begun) * window)
    final.join()
    _run(final, stage.finish, prices)
    final.join()
    return TeamSeconds(float(np.max(micro.ledger.total)), float(np.max(final.ledger.total)))


def pass_seconds(stage: Stage, prices: Prices, slowness: float = 1.0) -> tuple[float, float]:
    """Forward and backward pass of a micro batch that another one follows."""
    alone = Clock.of_team([slowness])
    forward_s = float(_run(alone, stage.forward, prices)[0])
    _run(alone, stage.backward, prices)
    alone.next_micro_batch()
    return forward_s, float(np.max(alone.ledger.total)) - forward_s


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


def team_idle(seen: LastMicroBatch, worker: int) -> list[WorkerWait]:
    """When and why `worker` neither computes nor exchanges inside its replica, in order."""
    found: list[WorkerWait] = []
    for piece in _waits(seen, worker):
        last = found[-1] if found else None
        same = last and (last.end_s, last.why, last.whom) == (piece.start_s, piece.why, piece.whom)
        if last and same:  # neighbours of one reason are one
            found[-1] = WorkerWait(last.start_s, piece.end_s, last.why, last.whom)
        else:
            found.append(piece)
    return found


def _waits(seen: LastMicroBatch, worker: int) -> Iterator[WorkerWait]:
    """First what the wires take, then what another worker makes longer."""
    for stood in seen.standstills:
        start_s, end_s = float(stood.starts[worker]), float(stood.ends[worker])
        if stood.stream is None and end_s > start_s:
            yield WorkerWait(start_s, end_s, "host")
        elif stood.stream in MEETING and end_s > start_s:
            wires_s = min(max(float(stood.alone[worker]), start_s), end_s)
            if wires_s > start_s:
                yield WorkerWait(start_s, wires_s, "wires")
            if end_s > wires_s:
                yield WorkerWait(wires_s, end_s, "worker", stood.last)


def share_of(seen: LastMicroBatch, worker: int, idle: Sequence[WorkerWait]) -> WorkerShare:
    """All time of `worker`."""
    computing_s = sum(
        float(one.ends[worker] - one.starts[worker])
        for one in seen.done
        if one.segment.stream is Stream.COMPUTE
    )
    of = {why: sum(i.seconds for i in idle if i.why == why) for why in ("wires", "worker", "host")}
    inside_s = float(seen.end_s[worker]) - computing_s - sum(of.values())
    return WorkerShare(computing_s, inside_s, of["wires"], of["worker"], of["host"])
