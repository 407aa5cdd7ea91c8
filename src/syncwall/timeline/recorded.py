"""What a clock writes down while it runs: every operation in time, and every wait of computation.

Holds `Interval` and `Record`. An operation is drawn as long as the clock lets it take: computation
beside communication and weights that share their links take longer than alone, so the pieces of a
segment are stretched until they fill it. Where computation stands still for the steps of rings,
each segment is followed by its share of that wait.
"""

from dataclasses import dataclass, field

from syncwall.cause import Cause
from syncwall.timeline.segments import Segment, Segments
from syncwall.work.block import AnyTask, Operation, Phase, Stream
from syncwall.work.number import Number


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
    phase: str = Phase.FORWARD
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
            one: stretched(one, working if one.stream is Stream.COMPUTE else 1.0)
            for one in block.segments
        }
        self.round = 0

    def ran(self, segment: Segment, ready: Number, start: Number) -> None:
        """The operations of `segment`, one after the other from its `start` on."""
        start_s = float(start)
        for operation, seconds in self._drawn[segment]:
            end_s = start_s + seconds
            phase = self.phase if operation.phase is Phase.FORWARD else operation.phase
            shown = (operation.name, operation.cause, segment.stream, phase, start_s, end_s)
            self.intervals.append(Interval(*shown, operation.what, self.block, self.round))
            start_s = end_s
        if segment.stream is Stream.COMPUTE:
            for cause, share in self._held_up.items():
                end_s = start_s + share * float(segment.seconds)
                self._stand_still("steps of rings", cause, start_s, end_s)
                start_s = end_s

    def waited(
        self, what: Segment | Stream | None, cause: Cause, start: Number, end: Number
    ) -> None:
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
