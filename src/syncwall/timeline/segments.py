"""A priced block: what is done without interruption is one segment.

Holds `Segment`, `Segments`, `segments` and `ACTIVATIONS`. Operations that take no time are left
out; computation between two waits is one segment, whose causes are booked once instead of round by
round.
"""

from dataclasses import dataclass, field, replace

from syncwall.cause import Cause
from syncwall.cost.prices import Prices
from syncwall.timeline.ledger import Ledger
from syncwall.work.block import Block, Operation, StepPhase, Stream, Wait
from syncwall.work.number import Number, anywhere, least, most
from syncwall.work.operations import Collective, Gemm

ACTIVATIONS = (Stream.TENSOR, Stream.CONTEXT, Stream.EXPERT)
"""Streams that move what was computed last."""
EXCHANGED = (Stream.GATHER, Stream.REDUCE)
"""Streams of weights and gradients, which computation may run beside."""
COPIES = Cause.EXPOSED_OFFLOAD  # of weights from the host: they slow down no processor


@dataclass(slots=True, eq=False)
class Segment:
    """Operations of one stream that run back to back; equal only to itself."""

    stream: Stream
    cause: Cause
    seconds: Number
    waits: tuple[Wait, ...]
    """Indices are those of segments."""
    pieces: list[tuple[Operation, Number]]
    moving: Number | None = None
    """1 where this communication takes time, 0 where (in arrays) there is none; None if it always
    does."""


@dataclass(slots=True)
class Segments:
    """One round of a block."""

    segments: list[Segment]
    own: Ledger
    """Seconds of the compute stream by cause in one round; of waits only `held_up`."""
    host_s: Number = 0.0
    """Time that the host needs to issue one round."""
    awaited: tuple[Wait, ...] = ()
    """Segments for which the computation after a round waits."""
    meetings: Number = 0.0
    """Collectives of a round that no computation runs beside: ranks meet in each."""
    host_in_step: bool = False
    """The host cannot run ahead: it issues each expert only when the one before is done."""
    held_up: Ledger = field(default_factory=Ledger)
    """Waits for the steps of rings beside computation, which stands still so long in between."""
    launch_blocking: bool = False
    """It issues nothing while the device works."""

    @property
    def compute_s(self) -> Number:
        """Time of the compute stream in one round; of waits only `held_up`."""
        return sum(s.seconds for s in self.segments if s.stream is Stream.COMPUTE)

    @property
    def gathers_first(self) -> bool:
        """True if a round begins with weights that its computation waits for."""
        return self.segments[0].stream is Stream.GATHER


def segments(block: Block, prices: Prices) -> Segments:
    """`block` priced and packed, with contention in its computation."""
    host_in_step = prices.experts_in_step and anywhere(block.host_waits)
    operations = _asked_late(block) if host_in_step else block.operations
    priced = [(op, prices.seconds(op.what)) for op in operations]
    exchanging = any(op.stream in EXCHANGED for op in operations)
    activations_s = _over_nics_s(priced, prices) if exchanging else 0.0
    shares = _left_over(block, priced)
    found, where = _packed(priced)
    for segment in found:
        segment.waits = tuple(_renumbered(_exposed(segment.waits, shares), where))
    awaited = tuple(_renumbered(_exposed(block.awaited, shares), where))
    slower: Number = 0.0
    held_up = Ledger()
    met: Number = 0.0
    if exchanging:
        blocked = [_blocked_share(index, found, awaited) for index in range(len(found))]
        _share_links(found, blocked)
        _share_nics(found, blocked, prices, activations_s)
        slower = _lost_beside(found, blocked, prices.fit.network.contention)
        held_up = _held_up(found, blocked, prices)
        shared = zip(found, blocked, strict=True)
        met = sum(share * (one.seconds > 0) for one, share in shared if anywhere(share))
    own = _slow_down(found, slower, held_up)
    for segment in found:
        if segment.stream is not Stream.COMPUTE and anywhere(segment.seconds == 0):
            segment.moving = 1.0 * (segment.seconds > 0)
    host_s = _host_s(found, prices) + prices.host_wait_s * block.host_waits
    return Segments(found, own, host_s, awaited, met, host_in_step, held_up, prices.launch_blocking)


def _asked_late(block: Block) -> tuple[Operation, ...]:
    """A forward pass whose weights are asked for when all before is computed: until then the host
    waits for token counts. Backward, hooks have asked before the layer begins.
    """
    if block.operations[-1].phase is not StepPhase.FORWARD:
        return block.operations

    def late(wait: Wait) -> Wait:
        return replace(wait, of="computed") if wait.of == "previous start" else wait

    return tuple(
        op.waiting(tuple(map(late, op.after))) if op.stream is Stream.GATHER else op
        for op in block.operations
    )


def _host_s(found: list[Segment], prices: Prices) -> Number:
    """Time to issue the kernels of one round, one by one where no graph holds them.

    What takes no time is not issued: the mere begin of a block, and in arrays what some layouts do
    not recompute.
    """
    issued: Number = 0.0
    further: Number = 0.0
    for segment in found:
        if segment.stream is Stream.COMPUTE:
            for operation, seconds in segment.pieces:
                if operation.scope not in prices.captured:
                    issued = issued + prices.kernels(operation.what) * (seconds > 0)
                if isinstance(operation.what, Gemm) and anywhere(operation.what.count > 1):
                    further = further + most(operation.what.count - 1.0, 0.0)  # of experts
    return prices.host_s * issued + prices.host_expert_s * further


def _left_over(block: Block, priced: list[tuple[Operation, Number]]) -> dict[int, Number]:
    """Share of communication that is cut up and waited for, by operation.

    Cut into pieces, c seconds of communication beside g of computation leave the larger of c x
    share (the first or last piece) and c - g. What runs beside computation before it has begun with
    that: only what is left over is behind it, and `priced` at that.
    """
    found: dict[int, Number] = {}
    waits = [wait for operation in block.operations for wait in operation.after]
    for wait in (*waits, *block.awaited):
        if wait.beside is None or wait.index in found:
            continue
        operation, moving_s = priced[wait.index]
        beside_s = sum((priced[index][1] for index in wait.beside), 0.0)
        share = most(wait.share, 1.0 - beside_s / most(moving_s, 1e-30))
        begun_before = bool(wait.beside) and wait.beside[0] < wait.index
        if begun_before:
            priced[wait.index] = (operation, moving_s * share)
        found[wait.index] = 1.0 if begun_before else share
    return found


def _exposed(waits: tuple[Wait, ...], shares: dict[int, Number]) -> tuple[Wait, ...]:
    """The waits with these shares."""
    if not shares:
        return waits
    return tuple(
        replace(wait, share=shares[wait.index], beside=None) if wait.index in shares else wait
        for wait in waits
    )


def _blocked_share(index: int, found: list[Segment], awaited: tuple[Wait, ...]) -> Number:
    """1 where no computation runs beside weights or gradients on their way, else 0."""
    waits = awaited if found[index].stream is Stream.REDUCE else found[index].waits
    chosen = [w for w in waits if (w.index == index if waits is awaited else w.of == "computed")]
    return sum(1.0 * wait.when for wait in chosen) if chosen else 0.0


def _packed(priced: list[tuple[Operation, Number]]) -> tuple[list[Segment], dict[int, int]]:
    """Segments, and the segment that each operation went into."""
    found: list[Segment] = []
    where: dict[int, int] = {}
    present = [op.stream is Stream.COMPUTE or anywhere(seconds) for op, seconds in priced]
    awaited = _awaited(priced, present)
    computing: int | None = None
    for index, (operation, seconds) in enumerate(priced):
        if not present[index]:
            continue  # nothing moves, so nobody waits for it
        if operation.stream is Stream.COMPUTE:
            into = None if computing is None or _blocked(operation, where) else computing
        else:
            into = len(found) - 1 if found and _continues(operation, found[-1]) else None
        piece = (operation, seconds)
        if into is None:
            into = len(found)
            found.append(Segment(operation.stream, operation.cause, seconds, operation.after, [piece]))
        else:
            found[into].seconds = found[into].seconds + seconds
            found[into].pieces.append(piece)
        where[index] = into
        if operation.stream is Stream.COMPUTE:
            computing = None if index in awaited else into
    return found, where


def _continues(operation: Operation, segment: Segment) -> bool:
    """True if communication follows its like on the same stream and waits for the same.

    Sums and scatters are kept apart: in arrays some layouts have the one, some the other.
    """
    pairs = zip(operation.after, segment.waits, strict=False)
    before = segment.pieces[-1][0]
    return (
        operation.stream is segment.stream
        and _is_sum(operation) == _is_sum(before)
        and len(operation.after) == len(segment.waits)
        and all(a.index == b.index and a.of == b.of and a.when is b.when for a, b in pairs)
    )


def _is_sum(operation: Operation) -> bool:
    return isinstance(operation.what, Collective) and operation.what.kind == "all-reduce"


def _blocked(operation: Operation, where: dict[int, int]) -> bool:
    """True if it waits for something that takes time."""
    return any(wait.of != "end" or wait.index in where for wait in operation.after)


def _awaited(priced: list[tuple[Operation, Number]], present: list[bool]) -> set[int]:
    """Operations for whose end communication that takes time waits."""
    there = (op for (op, _), is_there in zip(priced, present, strict=True) if is_there)
    moving = (op for op in there if op.stream is not Stream.COMPUTE)
    return {wait.index for op in moving for wait in op.after if wait.of == "end"}


def _renumbered(waits: tuple[Wait, ...], where: dict[int, int]) -> list[Wait]:
    """The waits with the numbers of segments, each segment once."""
    found: dict[tuple[int, str], Wait] = {}
    for wait in waits:
        if wait.index in where:
            moved = wait.on(where[wait.index])
            found.setdefault((moved.index, moved.of), moved)
    return list(found.values())


def _share_links(found: list[Segment], blocked: list[Number]) -> None:
    """Weights on their way in and gradients of the same ranks on their way out share the links.

    The gather of the next layer runs beside the reduction of the last one, so it takes as long as
    both together, unless both are waited for.
    """
    gathers = [one for one in found if one.stream is Stream.GATHER and one.cause is not COPIES]
    alone = sum(blocked[i] for i, s in enumerate(found) if s is gathers[0]) if gathers else 0.0
    coming: dict[str | None, Number] = {}
    for segment in gathers:
        for operation, seconds in segment.pieces:
            coming[_axis(operation)] = coming.get(_axis(operation), 0.0) + seconds
    leaving: Number = 0.0
    for segment, waited_for in zip(found, blocked, strict=True):
        if segment.stream is Stream.REDUCE:
            for operation, seconds in segment.pieces:
                together = (coming.get(_axis(operation), 0.0) > 0) * (1.0 - alone * waited_for)
                leaving = leaving + seconds * together
    for segment in gathers[:1]:
        segment.seconds = segment.seconds + leaving


def _over_nics_s(priced: list[tuple[Operation, Number]], prices: Prices) -> Number:
    """Time that activations need the NICs, hidden by computation or not."""
    total: Number = 0.0
    for operation, seconds in priced:
        if operation.stream in ACTIVATIONS:
            total = total + seconds * prices.over_nics(operation.what)
    return total


def _share_nics(found: list[Segment], blocked: list[Number], prices: Prices, activations_s: Number) -> None:
    """Weights and gradients on their way share the NICs with what activations send over them.

    A round sends both, one after the other as far as the NICs are concerned, so that weights or
    gradients are hidden only by computation and not by the exchange of activations as well.
    """
    if not anywhere(activations_s):
        return
    left: Number = 1.0  # the first that needs the NICs waits for the others
    for stream in EXCHANGED:
        for segment, waited_for in zip(found, blocked, strict=True):
            if segment.stream is stream:
                moving: Number = 0.0
                for operation, seconds in segment.pieces:
                    moving = most(moving, (seconds > 0) * prices.over_nics(operation.what))
                later = activations_s * moving * left * (1.0 - waited_for)
                segment.seconds = segment.seconds + later
                left = left * (1.0 - moving)


def _axis(operation: Operation) -> str | None:
    return operation.what.axis if isinstance(operation.what, Collective) else None


def _slow_down(found: list[Segment], slower: Number, held_up: Ledger) -> Ledger:
    """Stretch computation where communication runs beside it; the ledger of one round."""
    own = Ledger()
    busy_s = _computing_s(found)
    stretched = 1.0 + slower + held_up.total / most(busy_s, 1e-30)
    for segment in found:
        if segment.stream is Stream.COMPUTE:
            for operation, seconds in segment.pieces:
                own.add(operation.cause, seconds)
            segment.seconds = segment.seconds * stretched
    own.add(Cause.CONTENTION, busy_s * slower)
    own.include(held_up)
    return own


def _computing_s(found: list[Segment]) -> Number:
    return sum(segment.seconds for segment in found if segment.stream is Stream.COMPUTE)


def _held_up(found: list[Segment], blocked: list[Number], prices: Prices) -> Ledger:
    """Time of the steps of rings beside computation, which wait although it could hide them.

    Bandwidth is hidden, the steps are not: published runs of FSDP lose for every layer what NCCL
    counts for the steps of its rings, though there is computation enough to hide them; see
    docs/explanation/communication.md.
    """
    held = Ledger()
    computes = _computing_s(found) > 0
    for segment, waited_for in zip(found, blocked, strict=True):
        if segment.stream in EXCHANGED:
            started_s = sum(prices.ring_start_s(operation.what) for operation, _ in segment.pieces)
            if anywhere(started_s):
                held.add(segment.cause, started_s * (1.0 - waited_for) * computes)
    return held


def _lost_beside(found: list[Segment], blocked: list[Number], contention: float) -> Number:
    """Time that weights and gradients on their way take from the processors that compute, over that
    of the computation.

    A second beside communication computes for 1 - `contention`, as long as both are there.
    """
    moving_s: Number = 0.0
    for segment, waited_for in zip(found, blocked, strict=True):
        if segment.stream in EXCHANGED and segment.cause is not COPIES:
            alone_s = sum(seconds for _, seconds in segment.pieces)
            moving_s = moving_s + alone_s * (1.0 - waited_for)
    busy_s = _computing_s(found)
    together_s = least(moving_s, busy_s / (1.0 - contention))
    return together_s * contention / most(busy_s, 1e-30)
