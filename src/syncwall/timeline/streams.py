"""Operations on streams: each starts when its stream is free and what it waits for has ended.

An operation is drawn as long as the clock lets it take: computation beside communication and
weights that share their links take longer than alone, so the pieces of a segment are stretched
until they fill it. Where computation stands still for the steps of rings, each segment is followed
by its share of that wait.

Its moments may be arrays over layouts or, with a `Team`, over workers that wait for each other. A
block that repeats is run three times; then every further round takes as long as the third. One that
prefetches several rounds is run as often as it repeats: what it is ahead may last long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from syncwall.cause import Cause
from syncwall.cost.compute import smooth_max
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.segments import ACTIVATIONS, Segment, Segments
from syncwall.work.block import EXPOSED, AnyTask, Operation, StepPhase, Stream, Wait
from syncwall.work.number import Number, is_one, least, most, where


@dataclass(slots=True)
class Interval:
    """One operation in time, seconds from the start; or a wait, of which the name says for what."""

    name: str
    cause: Cause
    stream: str
    phase: str
    start_s: float
    end_s: float
    what: AnyTask | None = None
    """None for a wait."""
    block: str = ""
    """The block that it belongs to (dense layer, output layer, ...)."""
    round: int = 0
    """Rounds of the block before this one."""


@dataclass(slots=True)
class Record:
    """Intervals in the order in which they were met."""

    intervals: list[Interval] = field(default_factory=list)
    waits: list[Interval] = field(default_factory=list)
    """Times in which the compute stream stands still, with the cause that the ledger books."""
    block: str = ""
    phase: str = StepPhase.FORWARD
    """Of what runs now. Waits take it, and weights that are gathered for it, whose operations are
    the same forward and backward."""
    round: int = 0
    _drawn: dict[Segment, list[tuple[Operation, float]]] = field(default_factory=dict)
    _held_up: dict[Cause, float] = field(default_factory=dict)
    """Share of each second of the compute stream that waits for steps of rings, by cause."""

    def begin(self, block: Segments) -> None:
        """The block that runs from now on."""
        compute_s = float(block.compute_s) or 1.0
        self._held_up = {c: float(s) / compute_s for c, s in block.held_up.items() if float(s) > 0}
        working = 1.0 - sum(self._held_up.values())
        self._drawn = {
            one: stretched(one, working if one.stream is Stream.COMPUTE else 1.0) for one in block.segments
        }
        self.round = 0

    def ran(self, segment: Segment, ready: Number, start: Number) -> None:
        """The operations of `segment`, one after the other from its `start` on."""
        start_s = float(start)
        for operation, seconds in self._drawn[segment]:
            end_s = start_s + seconds
            phase = self.phase if operation.phase is StepPhase.FORWARD else operation.phase
            shown = (operation.name, operation.cause, segment.stream, phase, start_s, end_s)
            self.intervals.append(Interval(*shown, operation.what, self.block, self.round))
            start_s = end_s
        if segment.stream is Stream.COMPUTE:
            for cause, share in self._held_up.items():
                end_s = start_s + share * float(segment.seconds)
                self._stand_still("steps of rings", cause, start_s, end_s)
                start_s = end_s

    def waited(self, what: Segment | Stream | None, cause: Cause, start: Number, end: Number) -> None:
        """Computation stood still for `what`; None is the host."""
        name = "the host" if what is None else str(what)
        if isinstance(what, Segment):
            name = what.pieces[0][0].name if what.pieces else what.cause
        self._stand_still(name, cause, float(start), float(end))

    def _stand_still(self, what: str, cause: Cause, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            place = (None, self.block, self.round)
            stream = Stream.COMPUTE
            self.waits.append(Interval(what, cause, stream, self.phase, start_s, end_s, *place))

    def moved(self, stream: Stream, earlier_s: float) -> None:
        """All of `stream` happened so much earlier; what was before the start is left out."""
        kept = []
        for interval in self.intervals:
            if interval.stream == stream:
                interval.end_s -= earlier_s
                interval.start_s = max(interval.start_s - earlier_s, 0.0)
                if interval.end_s <= 0.0:
                    continue
            kept.append(interval)
        self.intervals = kept


def stretched(segment: Segment, share: float = 1.0) -> list[tuple[Operation, float]]:
    """The operations of `segment` that take time; their seconds add up to a share of its own."""
    pieces = [(operation, float(seconds)) for operation, seconds in segment.pieces]
    alone_s = sum(seconds for _, seconds in pieces)
    longer = share * float(segment.seconds) / alone_s if alone_s > 0 else 1.0
    return [(operation, seconds * longer) for operation, seconds in pieces if seconds > 0]


__all__ = ["MEETING", "ROUNDS", "Clock", "ClockRecord", "Interval", "Moments", "WorkerTeam"]

ROUNDS = 3
"""Rounds after which the pattern of waiting repeats: prefetch reaches one round ahead."""
Moments = dict[Stream, Number]
MEETING: Final = (Stream.GATHER, Stream.REDUCE, Stream.EXPERT)
"""Streams on which data-parallel workers meet; the others stay inside a replica."""


class ClockRecord(Protocol):
    """What is told of every operation and wait; each moment may be an array over workers."""

    round: int

    def begin(self, block: Segments) -> None:
        """The block that runs from now on."""

    def ran(self, segment: Segment, ready: Number, start: Number) -> None:
        """`segment` could have begun when it was `ready`, and did at its `start`."""

    def waited(self, what: Segment | Stream | None, cause: Cause, start: Number, end: Number) -> None:
        """Computation stood still for `what`; None is the host."""


@dataclass(slots=True)
class WorkerTeam:
    """Workers of which each computes `slowness` times as long as the predicted one.

    A collective among them begins when the last of them is ready.
    """

    slowness: NDArray[np.float64]
    own: Moments
    """When streams are free, as if no worker waited for another on them."""
    alone: dict[Segment, Number] = field(default_factory=dict)
    """When each worker would have ended a collective if all others had been ready with it."""

    def slowed(self, block: Segments) -> Segments:
        """`block` with the computation of each worker."""
        own = Ledger({cause: seconds * self.slowness for cause, seconds in block.own.items()})
        found = [
            replace(one, seconds=one.seconds * self.slowness) if one.stream is Stream.COMPUTE else one
            for one in block.segments
        ]
        return replace(block, segments=found, own=own)


@dataclass(slots=True)
class Clock:
    """Time on every stream of one rank, or of a team."""

    free: Moments = field(default_factory=lambda: dict.fromkeys(Stream, 0.0))
    busy: Moments = field(default_factory=lambda: dict.fromkeys(Stream, 0.0))
    """Seconds that each stream has worked."""
    ledger: Ledger = field(default_factory=Ledger)
    record: ClockRecord | None = None
    """If there is one, every operation and wait is written into it (single layouts only)."""
    last_begin: Number = 0.0
    """When the computation of the last round so far began."""
    team: WorkerTeam | None = None

    @classmethod
    def of_team(cls, slowness: Sequence[float]) -> "Clock":
        """A clock whose moments are arrays over workers."""
        free: Moments = dict.fromkeys(Stream, np.zeros(len(slowness)))
        team = WorkerTeam(np.asarray(slowness, dtype=float), dict(free))
        return cls(free, dict(free), team=team)

    def copy(self) -> "Clock":
        """Another clock that shows the same time."""
        ledger = Ledger(self.ledger)
        return Clock(dict(self.free), dict(self.busy), ledger, self.record, self.last_begin, self.team)

    def run(self, block: Segments, rounds: Number) -> None:
        """Run `rounds` rounds of a block: none, a part of one, many, or an array of them."""
        begun = self.free[Stream.COMPUTE]
        if self.record is not None:
            self._run_all(block, round(float(rounds)))
            self._wait_for_host(block, rounds, begun)
            return
        shots = [(dict(self.free), Ledger())]
        waited = Ledger()
        before: list[_Round] = []
        most_rounds = ceil(rounds.max() if isinstance(rounds, np.ndarray) else rounds)
        if _prefetched(block) == 1:
            most_rounds = min(ROUNDS, most_rounds)
        for _ in range(most_rounds):
            before.append(self._round(block, before, waited))
            shots.append((dict(self.free), Ledger(waited)))
        ended = self.free[Stream.COMPUTE]
        if not isinstance(rounds, np.ndarray) and rounds == len(shots) - 1:
            self.ledger.include(waited)  # every round was run
        else:
            self._extrapolate(shots, rounds)
        if before:
            lasted = ended - before[-1].begun(block)
            self.last_begin = where(rounds > 0, self.free[Stream.COMPUTE] - lasted, self.last_begin)
        self._wait_for_host(block, rounds, begun)
        self._keep_up(block, rounds)
        self.ledger.include(block.own, rounds)
        for segment in block.segments:
            if segment.stream is not Stream.COMPUTE:
                self.busy[segment.stream] = self.busy[segment.stream] + segment.seconds * rounds

    def next_micro_batch(self) -> Number:
        """End a micro batch that another one follows at once; the time at which that one begins.

        What is still on its way moves beside the next one; only a stream with more work than
        computation has time for makes it wait.
        """
        return self._wait_for(self.busy)

    def move_earlier(self, stream: Stream, earlier_s: Number) -> None:
        """Let `stream` have begun up to `earlier_s` earlier; it cannot end before computation."""
        soonest = least(self.free[stream], self.free[Stream.COMPUTE])
        self.free[stream] = most(self.free[stream] - earlier_s, soonest)

    def join(self) -> Number:
        """Wait for all streams; the time at which the last of them is free."""
        now = self._wait_for(self.free)
        self.free = dict.fromkeys(Stream, now)
        if self.team is not None:
            self.team.own = dict(self.free)
        return now

    def _wait_for(self, moments: Moments) -> Number:
        """Book what is left of each stream's `moments` after computation; when the last is over."""
        now = self.free[Stream.COMPUTE]
        for stream, cause in EXPOSED.items():
            late = most(moments[stream] - now, 0.0)
            self.ledger.add(cause, late)
            if self.record is not None:
                self.record.waited(stream, cause, now, now + late)
            now = now + late
        return now

    def _run_all(self, block: Segments, rounds: int) -> None:
        assert self.record is not None
        self.record.begin(block)
        before: list[_Round] = []
        for number in range(rounds):
            self.record.round = number
            before.append(self._round(block, before, self.ledger))
        if before:
            self.last_begin = before[-1].begun(block)
        self.ledger.include(block.own, rounds)

    def _round(self, block: Segments, before: "list[_Round]", waited: Ledger) -> "_Round":
        this = _Round([], [])
        for segment in block.segments:
            free = self.free[segment.stream]
            ready = start = self._start(segment, free, block, this, before, waited)
            if self.team is not None and segment.stream in MEETING:
                free = self.team.own[segment.stream]
                own = self._start(segment, free, block, this, before, waited) + segment.seconds
                self.team.own[segment.stream] = self.team.alone[segment] = own
                start = np.full_like(ready, np.max(ready))
            end = start + segment.seconds
            this.starts.append(start)
            this.ends.append(end)
            absent = segment.moving is not None
            self.free[segment.stream] = most(self.free[segment.stream], end) if absent else end
            if self.record is not None:
                self.record.ran(segment, ready, start)
        for wait in block.awaited:
            if wait.when is False:
                continue
            self._await(this, wait, block.segments[wait.index], waited)
        return this

    def _await(self, this: "_Round", wait: Wait, awaited: Segment, waited: Ledger) -> None:
        """Computation goes on when the share of a segment that it waits for has ended."""
        now, moment = self.free[Stream.COMPUTE], this.moment(wait)
        later = most(now, moment if wait.when is True else moment * wait.when)
        self._book(awaited, now, later, waited)
        self.free[Stream.COMPUTE] = later

    def _book(self, awaited: Segment, start: Number, end: Number, waited: Ledger) -> None:
        """Computation stands still from `start` to `end` because of `awaited`."""
        waited.add(awaited.cause, end - start)
        if self.record is not None:
            self.record.waited(awaited, awaited.cause, start, end)

    def _wait_for_host(self, block: Segments, rounds: Number, begun: Number) -> None:
        """Rounds that are shorter than the host needs to issue them wait for the host.

        A host that keeps in step with the device issues nothing while that waits for others.
        """
        device_s = self.free[Stream.COMPUTE] - begun
        if block.host_in_step:
            device_s = block.compute_s * rounds
        longer = smooth_max(device_s, block.host_s * rounds) - device_s
        if block.launch_blocking:
            longer = block.host_s * rounds
        self.ledger.add(Cause.HOST, longer)
        if self.record is not None:
            now = self.free[Stream.COMPUTE]
            self.record.waited(None, Cause.HOST, now, now + longer)
        self.free[Stream.COMPUTE] = self.free[Stream.COMPUTE] + longer

    def _start(
        self,
        segment: Segment,
        start: Number,
        block: Segments,
        this: "_Round",
        before: "list[_Round]",
        waited: Ledger,
    ) -> Number:
        """When `segment` can begin on a stream that is free from `start` on."""
        if segment.moving is not None:  # what does not exist waits for no turn
            start = start * segment.moving
        if segment.stream in ACTIVATIONS and not segment.waits:  # the first of a block
            start = most(start, self.free[Stream.COMPUTE])
        for wait in segment.waits:
            if wait.when is False:
                continue
            if wait.of == "end":
                moment = this.moment(wait)
            elif wait.of == "computed":
                moment = self.free[Stream.COMPUTE]
            elif (wait.of == "last begin") == bool(before):
                continue
            elif len(before) < wait.rounds:  # asked for while the block before was computed
                moment = self.last_begin
            else:
                moment = before[-wait.rounds].starts[wait.index]
            if wait.when is not True:
                moment = moment * wait.when
            later = most(start, moment)
            if segment.stream is Stream.COMPUTE:
                self._book(block.segments[wait.index], start, later, waited)
            start = later
        return start

    def _extrapolate(self, shots: list[tuple[Moments, Ledger]], rounds: Number) -> None:
        """The state after `rounds` rounds, from that after none, one, two and so on."""
        grown = _growth(len(shots), rounds)
        for stream in Stream:
            values = [shot[0][stream] for shot in shots]
            if any(value is not values[0] for value in values):
                self.free[stream] = values[0] + grown(values)
        for cause in shots[-1][1]:
            self.ledger.add(cause, grown([shot[1][cause] for shot in shots]))

    def _keep_up(self, block: Segments, rounds: Number) -> None:
        """Gradients leave after the last computation, even if the stream began with a backlog, and
        weights have come before it.

        Three rounds may all be spent on a backlog that many rounds would have worked off.
        """
        leaving: Number = 0.0
        for index, segment in reversed(list(enumerate(block.segments))):
            if segment.stream is Stream.COMPUTE:
                break
            if segment.stream is Stream.REDUCE:
                left = sum(1.0 * wait.when for wait in block.awaited if wait.index == index)
                leaving = leaving + segment.seconds * (1.0 - left)
        now = self.free[Stream.COMPUTE]
        soonest = (now + leaving) * (rounds > 0)
        self.free[Stream.REDUCE] = most(self.free[Stream.REDUCE], soonest)
        if block.gathers_first:
            latest = now - block.compute_s * (rounds > 0)
            self.free[Stream.GATHER] = least(self.free[Stream.GATHER], latest)


def _prefetched(block: Segments) -> int:
    """Rounds whose weights are asked for before they begin."""
    waits = block.segments[0].waits if block.gathers_first else ()
    return max((wait.rounds for wait in waits if wait.of == "previous start"), default=1)


def _growth(count: int, rounds: Number) -> Callable[[list[Number]], Number]:
    """How much a value grows in `rounds` rounds, given it after 0, 1, ... `count` - 1 of them."""
    if count == ROUNDS + 1 and np.min(rounds) >= ROUNDS - 1:
        further = rounds - (ROUNDS - 1.0)
        return lambda values: (values[-2] - values[0]) + further * (values[-1] - values[-2])
    last = count - 2
    shares = [least(most(rounds - float(n), 0.0), 1.0) for n in range(last)]
    shares.append(most(rounds - float(last), 0.0))
    return lambda values: sum(
        share * (after - before) for before, after, share in zip(values, values[1:], shares, strict=False)
    )


@dataclass(slots=True)
class _Round:
    """Starts and ends of the segments of one round of a block."""

    starts: list[Number]
    ends: list[Number]

    def moment(self, wait: Wait) -> Number:
        """When the share of a segment that is waited for has ended."""
        end = self.ends[wait.index]
        if is_one(wait.share):
            return end
        begun = self.starts[wait.index]
        return begun + wait.share * (end - begun)

    def begun(self, block: Segments) -> Number:
        """When its computation began."""
        streams = (segment.stream for segment in block.segments)
        return next(s for s, one in zip(self.starts, streams, strict=True) if one is Stream.COMPUTE)
