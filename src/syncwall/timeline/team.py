"""Several workers that meet: one clock whose moments are arrays over data-parallel workers.

Holds `TeamClock`, what it writes down (`DoneSegment`, `Standstill`), `last_micro_batch`, which lets
a team do the last micro batch of a step, `seconds_of`, how long a step takes a team, and
`pass_seconds`. Computation of a worker takes its slowness times as long; a collective among workers
begins when the last of them is ready.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.cost.prices import Prices
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.segments import Segment, Segments, segments
from syncwall.timeline.streams import Clock, Moments
from syncwall.work.block import EXPOSED, Block, Stage, Stream
from syncwall.work.number import Number

MEETING: Final = (Stream.GATHER, Stream.REDUCE, Stream.EXPERT)
"""Streams on which data-parallel workers meet; the others stay inside a replica."""
WorkerTimes = NDArray[np.float64]
"""Seconds from the start, one for each worker."""


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


class TeamClock(Clock):
    """Time on every stream of workers of which each may be slower than the predicted one."""

    def __init__(self, slowness: Sequence[float], *, writes: bool = False) -> None:
        """`writes` runs every round and keeps `done` and `standstills`; else three rounds do."""
        self.slowness: WorkerTimes = np.asarray(slowness, dtype=float)
        self.part = ""
        self.done: list[DoneSegment] = []
        self.standstills: list[Standstill] = []
        self._writes = writes
        self._ready: list[WorkerTimes] = []
        self._alone: dict[int, WorkerTimes] = {}
        self._place = ("", 0)
        start = np.zeros(len(self.slowness))
        super().__init__(dict.fromkeys(Stream, start), dict.fromkeys(Stream, start))
        self._own = dict(self.free)  # streams as if no worker waited for another on them

    @property
    def now(self) -> WorkerTimes:
        """When each worker is free to compute."""
        return np.asarray(self.free[Stream.COMPUTE] + np.zeros(len(self.slowness)))

    def work_on(self, part: str, blocks: Sequence[Block], prices: Prices) -> None:
        """All rounds of `blocks`, as `part` of the step."""
        self.part = part
        for block in blocks:
            self._place = (block.name, 0)
            self.run(self._slowed(segments(block, prices)), block.rounds)

    def run(self, block: Segments, rounds: Number) -> None:
        """Run `rounds` rounds of a block."""
        if not self._writes:
            super().run(block, rounds)
            return
        begun = self.free[Stream.COMPUTE]
        before: list[Any] = []
        for number in range(round(float(rounds))):
            self._place = (self._place[0], number)
            before.append(self._round(block, before, self.ledger))
        if before:
            self.last_begin = before[-1].begun(block)
        self._wait_for_host(block, rounds, begun)

    def _slowed(self, block: Segments) -> Segments:
        own = Ledger({cause: seconds * self.slowness for cause, seconds in block.own.items()})
        found = [
            replace(one, seconds=one.seconds * self.slowness)
            if one.stream is Stream.COMPUTE
            else one
            for one in block.segments
        ]
        return replace(block, segments=found, own=own)

    def _round(self, block: Segments, before: Any, waited: Ledger) -> Any:
        self._ready = []
        this = super()._round(block, before, waited)
        if self._writes:
            times = zip(block.segments, self._ready, this.starts, this.ends, strict=True)
            for segment, ready, starts, ends in times:
                whole = (ready, np.asarray(starts), np.asarray(ends))
                self.done.append(DoneSegment(self.part, *self._place, segment, *whole))
        return this

    def _start(
        self, segment: Segment, block: Segments, this: Any, before: Any, waited: Ledger
    ) -> Number:
        ready = np.asarray(super()._start(segment, block, this, before, waited))
        self._ready.append(ready)
        if segment.stream not in MEETING:
            return ready
        shared, self.free[segment.stream] = self.free[segment.stream], self._own[segment.stream]
        own = np.asarray(super()._start(segment, block, this, before, waited) + segment.seconds)
        self.free[segment.stream], self._own[segment.stream] = shared, own
        self._alone[id(segment)] = own
        return np.full_like(ready, ready.max())

    def join(self) -> Number:
        """Wait for all streams."""
        now = super().join()
        self._own = dict(self.free)
        return now

    def _book(self, awaited: Segment, start: Number, end: Number, waited: Ledger) -> None:
        super()._book(awaited, start, end, waited)
        self._stand(awaited.stream, start, end, self._alone.get(id(awaited), end))

    def _wait_for(self, moments: Moments) -> Number:
        now = self.free[Stream.COMPUTE]
        for stream in EXPOSED:
            later = np.maximum(moments[stream], now)
            self._stand(stream, now, later, self._own[stream] if stream in MEETING else later)
            now = later
        return super()._wait_for(moments)

    def _wait_for_host(self, block: Segments, rounds: Number, begun: Number) -> None:
        before = self.free[Stream.COMPUTE]
        super()._wait_for_host(block, rounds, begun)
        now = self.free[Stream.COMPUTE]
        self._stand(None, before, now, now)

    def _stand(self, stream: Stream | None, starts: Any, ends: Any, alone: Any) -> None:
        if self._writes and np.any(ends > starts):
            self.standstills.append(Standstill(stream, starts, ends, alone))


@dataclass(frozen=True, slots=True)
class LastMicroBatch:
    """The last micro batch and the update, as each worker lives through them."""

    team: TeamClock
    forward_s: WorkerTimes
    """When each worker has ended its forward pass."""
    backward_s: WorkerTimes
    met_s: WorkerTimes
    """When it has the gradients of all."""
    end_s: WorkerTimes


def last_micro_batch(stage: Stage, prices: Prices, slowness: Sequence[float]) -> LastMicroBatch:
    """The last micro batch of `stage`, all workers beginning together, with every round."""
    team = TeamClock(slowness, writes=True)
    team.work_on("forward", stage.forward, prices)
    forward_s = team.now
    team.work_on("backward", stage.last_backward, prices)
    backward_s = team.now
    team.join()
    met_s = team.now
    team.work_on("update", stage.finish, prices)
    team.join()
    return LastMicroBatch(team, forward_s, backward_s, met_s, team.now)


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


def seconds_of(
    stage: Stage, prices: Prices, slowness: Sequence[float], window: float = 0.0
) -> TeamSeconds:
    """How long a team takes, by the same shortcut of three rounds as the prediction's.

    `window` is `timeline.step.reduction_window`.
    """
    micro, final = TeamClock(slowness), TeamClock(slowness)
    for team, backward in ((micro, stage.backward), (final, stage.last_backward)):
        team.work_on("forward", stage.forward, prices)
        begun = team.now
        team.work_on("backward", backward, prices)
    final.move_earlier(Stream.REDUCE, (micro.next_micro_batch() - begun) * window)
    final.join()
    final.work_on("update", stage.finish, prices)
    final.join()
    return TeamSeconds(float(np.max(micro.ledger.total)), float(np.max(final.ledger.total)))


def pass_seconds(stage: Stage, prices: Prices, slowness: float = 1.0) -> tuple[float, float]:
    """Forward and backward pass of a micro batch that another one follows."""
    alone = TeamClock([slowness])
    alone.work_on("forward", stage.forward, prices)
    forward_s = float(alone.now[0])
    alone.work_on("backward", stage.backward, prices)
    alone.next_micro_batch()
    return forward_s, float(np.max(alone.ledger.total)) - forward_s
