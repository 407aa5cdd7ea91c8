"""Operations in order, on streams, with what they wait for, and which ranks communicate.

Nothing here knows what a transformer is: a captured program is one block that runs once.

Ranks are numbered along the layout's `order`, the axis of neighbouring ranks first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.describe.layout import Schedule
from syncwall.work.number import Number, Truth, most
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Group,
    GroupAxis,
    Kernel,
    Message,
    Offload,
    Scan,
    Transfer,
)

Task = Gemm | CoreAttention | Elementwise | Scan | Collective | Transfer | Offload
"""What the steps of descriptions are made of."""
AnyTask = Task | Convolution | Kernel | Message
"""What recorded programs are made of, too."""


class Stream(StrEnum):
    """Queues of one device; operations of a stream run in order."""

    COMPUTE = "compute"
    TENSOR = "tensor"
    """Tensor- and sequence-parallel communication."""
    CONTEXT = "context"
    EXPERT = "expert"
    GATHER = "gather"
    """Sharded weights on their way in, from other ranks and from the host."""
    REDUCE = "reduce"
    """Gradients on their way out."""
    PIPELINE = "pipeline"
    OFFLOAD = "offload"
    """Activations on their way to the host's memory and back, and gradients on theirs to it."""


EXPOSED: Final = {
    Stream.TENSOR: Cause.EXPOSED_TP,
    Stream.CONTEXT: Cause.EXPOSED_CP,
    Stream.EXPERT: Cause.EXPOSED_EP,
    Stream.GATHER: Cause.EXPOSED_GATHER,
    Stream.REDUCE: Cause.EXPOSED_DP,
    Stream.PIPELINE: Cause.EXPOSED_PP,
    Stream.OFFLOAD: Cause.EXPOSED_OFFLOAD,
}
"""The line of the ledger for waits on each stream of communication."""


class StepPhase(StrEnum):
    """What part of the step an operation belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"
    FINISH = "finish"
    """After the last micro batch: the optimizer, and what must come before and after it."""


class Scope(StrEnum):
    """Parts of a layer whose shapes never change, which CUDA graphs can capture one by one."""

    ATTENTION = "attention"
    """Attention, or the mixer in its place, with norm and projections (Megatron's `attn` and
    `mamba`)."""
    ROUTER = "router"
    """The router and what it prepares (Megatron's `moe_router` and `moe_preprocess`)."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Wait:
    """Waiting for another operation of the block."""

    index: int
    when: Truth = True
    """True (or an array of booleans) where the wait applies."""
    share: Number = 1.0
    """Share of it that must be done; less than 1 where it is cut up and computed on meanwhile."""
    of: Literal["end", "previous start", "last begin", "computed"] = "end"
    """What it waits for; the start `rounds` earlier means prefetch by so many, "last begin" that in
    the first round the block before is at its last one, "computed" that all computation before it
    has ended, with what that waits for."""
    beside: tuple[int, ...] | None = None
    """Operations that the rest runs beside: what they are too short for is waited for too. None if
    something outside of the block hides it, or nothing does."""
    rounds: int = 1
    """Rounds between a previous start and what waits for it: so many are prefetched."""

    def on(self, index: int) -> "Wait":
        """The same wait for another operation."""
        return Wait(index, self.when, self.share, self.of, rounds=self.rounds)

    def later(self, by: int) -> "Wait":
        """The same wait in a block with `by` more operations before."""
        beside = self.beside if self.beside is None else tuple(i + by for i in self.beside)
        return Wait(self.index + by, self.when, self.share, self.of, beside, self.rounds)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing on one stream."""

    name: str
    what: Task
    cause: Cause
    """The line of the ledger that its seconds go to."""
    stream: Stream = Stream.COMPUTE
    after: tuple[Wait, ...] = ()
    """What must have ended before it starts, besides the operation before it on its stream."""
    phase: StepPhase = StepPhase.FORWARD
    scope: Scope = Scope.OTHER

    def waiting(self, after: tuple[Wait, ...]) -> "Operation":
        """The same operation with other waits."""
        return Operation(self.name, self.what, self.cause, self.stream, after, self.phase, self.scope)


@dataclass(frozen=True, slots=True)
class Block:
    """Operations that are done `rounds` times one after the other."""

    name: str
    operations: tuple[Operation, ...]
    rounds: Number = 1
    awaited: tuple[Wait, ...] = ()
    """What must have ended before anything after a round starts to compute."""
    host_waits: Number = 0
    """Times in a round that the host must read a number from the device before it can go on."""

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def times(self, rounds: Number) -> "Block":
        """The same block, `rounds` times."""
        return Block(self.name, self.operations, rounds, self.awaited, self.host_waits)


@dataclass(frozen=True, slots=True)
class Stage:
    """What one class of equal pipeline ranks does with one micro batch."""

    name: str
    forward: tuple[Block, ...]
    backward: tuple[Block, ...]
    """With recomputation."""
    last_backward: tuple[Block, ...]
    """Of the last micro batch: with the gradient reduction that overlaps it."""
    finish: tuple[Block, ...]
    ranks: Number = 1
    """Pipeline ranks of this class."""
    parameters: Number = 0.0
    """Parameters whose gradients one of these ranks adds up."""
    crossings: Number = 0.0
    """Messages of one micro batch to and from neighbours that one of these ranks waits for where
    nothing hides them; what goes both ways at once counts once."""

    def in_a_step(self, microbatches: Number) -> Iterator[tuple[Block, Number]]:
        """Its blocks, and how often a step of so many micro batches does a round of each."""
        passes: tuple[tuple[tuple[Block, ...], Number], ...] = (
            (self.forward, microbatches),
            (self.backward, microbatches - 1),
            (self.last_backward, 1),
            (self.finish, 1),
        )
        for blocks, times in passes:
            for block in blocks:
                yield block, times * block.rounds

    def collectives(self, microbatches: Number) -> Iterator[tuple[Operation, Collective, Number]]:
        """Communication of one of these ranks, and how often a step does each."""
        for block, times in self.in_a_step(microbatches):
            for operation in block.operations:
                if isinstance(operation.what, Collective):
                    yield operation, operation.what, times


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How micro batches go through the stages of a replica."""

    stages: Number = 1
    stages_per_rank: Number = 1
    """Virtual stages of each rank."""
    schedule: Number = Schedule.ONE_F_ONE_B
    """A `Schedule`, or an array of them."""
    hides_messages: Number = True
    """Messages between stages run beside computation."""
    hides_gradients: Number = True
    """Gradients are reduced beside the backward pass."""


@dataclass(frozen=True, slots=True)
class Work:
    """One optimizer step, wherever it comes from: a description, a captured program, a trace."""

    stages: tuple[Stage, ...]
    """Classes of pipeline ranks; each is evaluated once, however many ranks it has."""
    microbatches: Number
    transfer: Transfer
    """What one stage hands to the next for one micro batch."""
    model_flops: Number
    """FLOP of the mathematics for the whole step and all GPUs; what MFU counts."""
    recompute_flops: Number
    """FLOP done a second time to save memory; HFU counts them too."""
    tokens: Number
    """Tokens of the step."""
    gpus: Number = 1
    """Ranks of all replicas together."""
    pipeline: Pipeline = Pipeline()
    tensor_ranks: Number = 1
    """Ranks that meet in every layer; the host of each has to keep step with the others."""


def sizes_and_strides(layout: Layout) -> tuple[dict[str, Number], dict[str, Number]]:
    """Ranks of tp, cp, pp and dp, and how far apart neighbours on each of them are."""
    sizes: dict[str, Number] = {"tp": layout.tp, "cp": layout.cp, "pp": layout.pp, "dp": layout.dp}
    strides: dict[str, Number] = {}
    stride: Number = 1
    for axis in layout.order:
        if axis != "ep":  # taken from tp, cp and dp
            strides[axis] = stride
            stride = stride * sizes[axis]
    return sizes, strides


def groups(layout: Layout) -> dict[GroupAxis, Group]:
    """The group of every axis of a resolved layout, or of arrays of them."""
    sizes, strides = sizes_and_strides(layout)
    inner = _apart(strides, sizes)
    degree, experts, copies = layout.shard_degree, layout.ep * layout.etp, layout.expert_dp
    spans: dict[GroupAxis, tuple[Number, Number]] = {
        "tp": (layout.tp, strides["tp"]),
        "cp": (layout.cp, strides["cp"]),
        "dp": (sizes["dp"] * layout.cp, inner),
        "shard": (degree, inner),
        "replica": (layout.replicas_of_shards, inner * degree),
        "ep": (layout.ep, layout.etp),
        "expert-shard": (copies, experts),
        "expert-replica": (copies, experts),
        "pp": (layout.pp, strides["pp"]),
    }
    return {axis: Group(axis, ranks, apart) for axis, (ranks, apart) in spans.items()}


def _apart(strides: dict[str, Number], sizes: dict[str, Number]) -> Number:
    """From each rank of dp and cp together to the next, on average if others stand between."""
    spread = [strides[axis] * sizes[axis] * (sizes[axis] > 1) for axis in ("dp", "cp")]
    return most(most(*spread) // (sizes["dp"] * sizes["cp"]), 1)
