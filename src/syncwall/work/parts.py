"""A layer as parts that know how they run forward and backward.

Holds `LayerPart`, and `forward_block` and `backward_block`, which lay parts out as operations. The
backward pass goes through the parts in reverse; what is recomputed runs forward once more first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncwall.cause import Cause
from syncwall.describe.choice import Dtype
from syncwall.describe.matrices import Matrix
from syncwall.work.block import EXPOSED, Block, Operation, Scope, StepPhase, Stream, Task, Wait
from syncwall.work.number import Number, Truth, anywhere, negated
from syncwall.work.operations import (
    Collective,
    CollectiveKind,
    CoreAttention,
    Eager,
    Elementwise,
    Gemm,
    Group,
    Scan,
)

TRANSPOSED: Final[dict[CollectiveKind, CollectiveKind]] = {
    "all-gather": "reduce-scatter",
    "reduce-scatter": "all-gather",
    "all-to-all": "all-to-all",
}


@dataclass(frozen=True, slots=True)
class LayerPart:
    """One thing that a layer does, in both directions."""

    name: str
    cause: Cause
    forward: Task | None
    backward: tuple[Task, ...]
    stream: Stream = Stream.COMPUTE
    waited_for: Number = 1.0
    """Share of it that the computation after it waits for; less than 1 with declared overlap."""
    beside_next: Truth = False
    """True where the very next computation runs beside it, so that only what follows waits."""
    recomputed: Number = 0.0
    """Share of its forward work that the backward pass repeats."""
    scope: Scope = Scope.OTHER
    is_trained: bool = False
    """True if its weights have gradients where all others are frozen."""
    matrices: tuple[Matrix, ...] = ()
    """Those that it multiplies by, if adapters may stand beside them."""

    def trained(self) -> "LayerPart":
        """The same part of an adapter."""
        return replace(self, is_trained=True)

    def within(self, scope: Scope) -> "LayerPart":
        """The same part of a layer's `scope`."""
        return LayerPart(
            self.name,
            self.cause,
            self.forward,
            self.backward,
            self.stream,
            self.waited_for,
            self.beside_next,
            self.recomputed,
            scope,
            self.is_trained,
            self.matrices,
        )


@dataclass(frozen=True, slots=True)
class Lane:
    """Where one kind of communication goes: its group and its stream."""

    group: Group
    stream: Stream

    @property
    def cause(self) -> Cause:
        """Its line in the ledger."""
        return EXPOSED[self.stream]


def gemm(  # noqa: PLR0913 - three dimensions are three arguments
    name: str, cause: Cause, m: Number, n: Number, k: Number, dtype: Dtype, *, count: Number = 1
) -> LayerPart:
    """A multiplication by a weight."""
    forward = Gemm(m, n, k, dtype, count)
    return LayerPart(name, cause, forward, (forward.for_input, forward.for_weight))


def attention(name: str, what: CoreAttention) -> LayerPart:
    """Fused attention."""
    return LayerPart(name, Cause.ATTENTION, what, (what.backward,))


def elementwise(name: str, bytes_: Number, kernels: Number = 1, eager: Eager | None = None) -> LayerPart:
    """Memory-bound work; its gradient moves twice as much. Its kind is the name's last word."""
    kind = name.rpartition(" ")[2]
    forward = Elementwise(bytes_, kernels, kind=kind, eager=eager)
    backward = Elementwise(2.0 * bytes_, 2 * kernels, kind=f"{kind} backward", eager=eager)
    return LayerPart(name, Cause.ELEMENTWISE, forward, (backward,))


def exchange(
    name: str, kind: CollectiveKind, bytes_: Number, lane: Lane, waited_for: Number = 1.0
) -> list[LayerPart]:
    """A collective whose gradient is its transpose (gather and scatter, all-to-all), if any."""
    if not anywhere(bytes_):
        return []
    forward = Collective(kind, bytes_, lane.group)
    backward = Collective(TRANSPOSED[kind], bytes_, lane.group)
    return [LayerPart(name, lane.cause, forward, (backward,), lane.stream, waited_for)]


def one_way(
    name: str, bytes_: Number, lane: Lane, waited_for: Number = 1.0, *, forward: bool
) -> list[LayerPart]:
    """An all-reduce one way, if any, whose gradient is the identity (Megatron's f and g)."""
    if not anywhere(bytes_):
        return []
    what = Collective("all-reduce", bytes_, lane.group)
    back = () if forward else (what,)
    return [LayerPart(name, lane.cause, what if forward else None, back, lane.stream, waited_for)]


def forward_block(name: str, parts: Sequence[LayerPart], rounds: Number, host_waits: Number = 0.0) -> Block:
    """The parts in order."""
    work = [(part, part.forward) for part in parts if part.forward is not None]
    operations, awaited = _laid_out(work, StepPhase.FORWARD)
    return Block(name, tuple(operations), rounds, awaited, host_waits)


def backward_block(
    name: str,
    parts: Sequence[LayerPart],
    rounds: Number,
    host_waits: Number = 0.0,
    *,
    frozen: bool = False,
    async_tp: bool = False,
) -> Block:
    """What is recomputed in order, then the gradients of the parts in reverse.

    Weights that are `frozen` have none; with `async_tp` the sum of an input gradient runs beside
    the gradient of the weight.
    """
    bytes_: dict[tuple[int, int], Number] = {}
    again = [(part, _scaled(part.forward, part.recomputed, bytes_)) for part in parts if part.forward]
    kept = [(part, what) for part, what in again if what is not None]
    again_first, _ = _laid_out(kept, StepPhase.RECOMPUTE)
    gradients = [
        (part, what)
        for part in reversed(parts)
        for what in part.backward
        if part.is_trained or not (frozen and _is_weight_gradient(what))
    ]
    if async_tp:
        gradients = _sums_first(gradients)
    operations, awaited = _laid_out(gradients, StepPhase.BACKWARD, again_first, beside=async_tp)
    return Block(name, tuple(operations), rounds, awaited, host_waits)


def _sums_first(work: Sequence[tuple[LayerPart, Task]]) -> list[tuple[LayerPart, Task]]:
    """Tensor-parallel communication right behind a weight gradient moves before it."""
    moved: list[tuple[LayerPart, Task]] = []
    for part, what in work:
        if part.stream is Stream.TENSOR and moved and _is_weight_gradient(moved[-1][1]):
            moved.insert(len(moved) - 1, (part, what))
        else:
            moved.append((part, what))
    return moved


def _is_weight_gradient(what: Task) -> bool:
    return isinstance(what, Gemm) and what.is_weight_gradient


def _laid_out(
    work: Sequence[tuple[LayerPart, Task]],
    phase: StepPhase,
    before: Sequence[Operation] = (),
    *,
    beside: bool = False,
) -> tuple[list[Operation], tuple[Wait, ...]]:
    """Operations in order: communication waits for what was computed, computation for it.

    And what of the communication is left for the computation after them to wait for. Weight
    gradients wait for none of it if it runs `beside` them.
    """
    laid = list(before)
    pending: list[Wait] = []
    later: list[Wait] = []
    no_wait: tuple[Wait, ...] = ()
    last_compute = max((i for i, op in enumerate(laid) if op.stream is Stream.COMPUTE), default=None)
    for part, what in work:
        cause = (
            Cause.RECOMPUTE if phase is StepPhase.RECOMPUTE and part.stream is Stream.COMPUTE else part.cause
        )
        if part.stream is Stream.COMPUTE and beside and _is_weight_gradient(what):
            waits, last_compute = no_wait, len(laid)
        elif part.stream is Stream.COMPUTE:
            waits, pending, later = tuple(pending), later, []
            last_compute = len(laid)
        else:
            waits = no_wait if last_compute is None else (Wait(last_compute),)
            share, beside_next = part.waited_for, part.beside_next
            if beside_next is not True:
                pending.append(Wait(len(laid), negated(beside_next), share))
            if beside_next is not False:
                later.append(Wait(len(laid), beside_next, share))
        laid.append(Operation(part.name, what, cause, part.stream, waits, phase, part.scope))
    cut_up = {
        part.name for part, _ in work if part.stream is Stream.TENSOR and anywhere(part.waited_for != 1.0)
    }
    return _beside(laid, (*pending, *later), cut_up) if cut_up else (laid, (*pending, *later))


def _beside(
    laid: list[Operation], awaited: tuple[Wait, ...], cut_up: set[str]
) -> tuple[list[Operation], tuple[Wait, ...]]:
    """The same, with the multiplications that hide communication which is `cut_up` with them.

    A gather runs beside the multiplications behind it, a scatter or sum beside those before it.
    """
    hidden: dict[int, tuple[int, ...]] = {}
    for index, operation in enumerate(laid):
        what = operation.what
        if isinstance(what, Collective) and operation.name in cut_up:
            step = 1 if what.kind == "all-gather" else -1
            hidden[index] = _multiplications(laid, index, step)

    def told(waits: tuple[Wait, ...]) -> tuple[Wait, ...]:
        return tuple(
            replace(wait, beside=hidden[wait.index]) if wait.index in hidden else wait for wait in waits
        )

    return [one.waiting(told(one.after)) if one.after else one for one in laid], told(awaited)


def _multiplications(laid: Sequence[Operation], index: int, step: int) -> tuple[int, ...]:
    """Those next to `index` in one direction, casts of their inputs left out."""
    found: list[int] = []
    index += step
    while 0 <= index < len(laid):
        what = laid[index].what
        is_cast = isinstance(what, Elementwise) and what.kind.startswith("cast")
        if isinstance(what, Gemm):
            found.append(index)
        elif laid[index].stream is Stream.COMPUTE and not is_cast:
            break
        index += step
    return tuple(found)


def _scaled(what: Task | None, share: Number, bytes_: dict[tuple[int, int], Number]) -> Task | None:
    """`what` done in part; None if it is certainly not done at all.

    `bytes_` keeps sizes, so that equal collectives stay equal and are priced once.
    """
    if what is None or not anywhere(share):
        return None
    if isinstance(what, Gemm | CoreAttention | Elementwise | Scan):
        return what.scaled(share)
    size = bytes_.setdefault((id(what.bytes), id(share)), what.bytes * share)
    return replace(what, bytes=size)
