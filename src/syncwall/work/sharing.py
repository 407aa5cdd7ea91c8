"""What data-parallel ranks exchange: weights on their way in, gradients on their way out.

Holds `weights_of`, the gather of a block's sharded weights, `behind`, which puts a block behind it,
and `reduced`, which puts the reduction of its gradients behind a block; `is_whole_model`, `asked`,
`kept_after_forward` and `asked_alike` of FSDP's units; bytes of a weight: `weight_bytes`,
`sent_bytes` and `gathered_bytes`. In arrays, what a layout does not do has zero bytes, so that one
block serves DDP, ZeRO and FSDP alike; what none of them does is left out.

Sources: PyTorch DDP (Li 2020), ZeRO (Rajbhandari 2020), PyTorch FSDP (Zhao 2023), ZeRO++ (Wang
2023).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from syncwall.cause import Cause
from syncwall.describe import Model
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Shard
from syncwall.work.block import EXPOSED, Block, Operation, StepPhase, Stream, Wait
from syncwall.work.layer import Shape
from syncwall.work.number import Number, Truth, anywhere, least, most, negated, where
from syncwall.work.operations import Collective, CollectiveKind, Elementwise, Group, GroupAxis
from syncwall.work.rank_parameters import RankParameters

COPY = "copy"
"""The kind of kernel that FSDP copies with."""
QUANTIZED_BYTES = 0.5
"""A gradient in 4 bits (ZeRO++ qgZ), without the scales of its blocks. It is priced as a
reduce-scatter of so few: its two all-to-alls, in a node and between nodes, carry as much."""
QUANTIZING_BYTES = 3.0
"""Memory traffic for such a gradient: 2 bytes read and half a byte written before it is sent, half
a byte read behind that; what then goes between nodes is little. Assumed: no kernel was measured."""


def weight_bytes(layout: Any) -> float:
    """Bytes of a weight as it is computed with and sent: 4 in plain fp32 training, else 2."""
    return 4.0 if layout.precision is Dtype.FP32 else 2.0


def sent_bytes(layout: Any) -> float:
    """Bytes of a weight that is gathered, on its way; frozen ones as they are kept."""
    if _is_quantised(layout):
        return float(layout.lora.weight_bytes)
    return weight_bytes(layout) if layout.gather_dtype is None else layout.gather_dtype.size_bytes


def _is_quantised(layout: Any) -> bool:
    return layout.lora is not None and layout.lora.weight_bytes is not None


def gathered_bytes(layout: Any) -> float:
    """Bytes of a weight that was gathered: 8 bits stay only if they are computed with."""
    return weight_bytes(layout) if _is_widened(layout) else sent_bytes(layout)


def _is_widened(layout: Any) -> bool:
    """True if weights that were sent in few bits are written once more in those of the products."""
    if _is_quantised(layout):  # dequantised only when it is multiplied by
        return False
    narrow = sent_bytes(layout) < weight_bytes(layout)
    return narrow and sent_bytes(layout) != layout.precision.size_bytes


def is_whole_model(model: Model, layout: Any) -> bool:
    """True if one unit of FSDP is the whole model."""
    return bool(layout.unit_layers > 1 and layout.unit_layers >= model.layers)


def kept_after_forward(model: Model, layout: Any) -> bool:
    """True if FSDP does not give weights back between the passes."""
    if layout.reshard_after_forward is None:
        return is_whole_model(model, layout)
    return layout.reshard_after_forward is False


def gathered_each_time(layout: Any) -> Truth:
    """True where FSDP gathers weights for every micro batch: but in a pipeline that keeps them.

    A framework that gives them back there states so (`describe.software.with_switches`).
    """
    each_time: Truth = (layout.pp == 1) | (layout.reshard_after_forward not in (None, False))
    return each_time


def asked_alike(model: Model, layout: Any) -> bool:
    """True if both passes gather the same weights from the same ranks, equally far ahead."""
    again = layout.reshard_after_forward in (None, True) and not kept_after_forward(model, layout)
    return again and bool(layout.forward_prefetch == layout.backward_prefetch)


def weights_of(
    held: RankParameters, shape: Shape, *, each_time: Number, backward: bool = False
) -> tuple[Operation, ...]:
    """The gather of a block's weights, rounds ahead where overlap is on, and its begin.

    Nothing of the block starts without its weights, and the next ones are asked for as it begins.

    `each_time` is 1 where weights are gathered for every micro batch, 0 where once is enough.
    Backward they are asked for once more, among fewer ranks where those hold them together.
    """
    layout = shape.layout
    if backward and kept_after_forward(shape.model, layout):
        return ()
    sharded = (layout.shard == Shard.FSDP) * each_time
    groups = _second(shape) if backward else shape.groups
    sizes: list[tuple[Number, GroupAxis]] = [(held.sent * sharded * (layout.shard_degree > 1), "shard")]
    if anywhere(held.experts):  # tensor-parallel ranks may hold copies of them
        sizes.append((held.experts * sharded * (layout.expert_dp > 1), "expert-shard"))
    sizes = [(size, axis) for size, axis in sizes if anywhere(size)]
    if not sizes:
        return ()
    elements = sum(size for size, _ in sizes)
    begins = len(sizes)  # the operation after the gathers
    waits = asked(shape, begins, elements > 0, backward=backward)
    gathers = [
        Operation(
            "weights",
            Collective("all-gather", sent_bytes(layout) * size, groups[axis]),
            EXPOSED[Stream.GATHER],
            Stream.GATHER,
            waits,
        )
        for size, axis in sizes
    ]
    weights_are_here = tuple(Wait(index) for index in range(begins))
    copied = elements * layout.fsdp_copies
    moved = 2.0 * sent_bytes(layout) * copied
    if _is_widened(layout):
        moved, copied = moved + (sent_bytes(layout) + weight_bytes(layout)) * elements, elements
    copy = Elementwise(moved, 1.0 * (copied > 0), True, COPY)
    begin = Operation("begin", copy, Cause.COPY, after=weights_are_here)
    return (*gathers, begin)


def asked(shape: Shape, begins: int, moving: Truth, *, backward: bool) -> tuple[Wait, ...]:
    """When weights are asked for: as the unit begins that is so many before, or this one itself.

    Of several layers none are in the first round of a pass before it has begun; of the whole model
    there is nothing before.
    """
    layout = shape.layout
    ahead = layout.overlap_parameters & (not is_whole_model(shape.model, layout))
    rounds = layout.backward_prefetch if backward else layout.forward_prefetch
    waits = (
        Wait(begins, when=ahead & moving, of="previous start", rounds=rounds),
        Wait(begins, when=negated(ahead) & moving, of="computed"),
    )
    if layout.unit_layers == 1:
        return waits
    return (*waits, Wait(begins, when=ahead & moving, of="last begin"))


def _second(shape: Shape) -> dict[GroupAxis, Group]:
    """Who gathers weights backward: all ranks of a shard, or the few that hold them meanwhile."""
    few = shape.layout.reshard_after_forward
    if few is None or isinstance(few, bool):
        return shape.groups
    plain, experts = shape.groups["shard"], shape.groups["expert-shard"]
    return {
        "shard": replace(plain, ranks=least(few, plain.ranks)),
        "expert-shard": replace(experts, ranks=least(few, experts.ranks)),
    }


def behind(block: Block, before: tuple[Operation, ...]) -> Block:
    """`block` with `before` at its start."""
    if not before:
        return block
    moved = [
        one.waiting(tuple(wait.later(len(before)) for wait in one.after)) if one.after else one
        for one in block.operations
    ]
    awaited = tuple(wait.later(len(before)) for wait in block.awaited)
    return replace(block, operations=(*before, *moved), awaited=awaited)


def reduced(block: Block, held: RankParameters, shape: Shape, *, last: bool) -> Block:
    """`block` with the reduction of its gradients behind it.

    Of the `last` micro batch everything is reduced; of the others only what is sharded at once.
    """
    layout, groups = shape.layout, shape.groups
    share = 1 if layout.outer_every is None else 1.0 / layout.outer_every  # where copies meet
    block = _copied(block, held, layout, last=last)
    after = (Wait(len(block.operations) - 1),)
    operations = [
        Operation(
            "gradients",
            Collective(kind, bytes_, groups[axis], count, 1 if axis.endswith("shard") else share),
            EXPOSED[Stream.REDUCE],
            Stream.REDUCE,
            after,
            StepPhase.BACKWARD,
        )
        for kind, bytes_, axis, count in _sums(held, layout, last)
        if anywhere(bytes_)
    ]
    if not operations:
        return block
    overlap: Truth = layout.overlap_gradients
    if is_whole_model(shape.model, layout):  # no computation is left to run beside
        overlap = overlap & negated((layout.shard == Shard.FSDP) & (layout.pp == 1))
    blocked = negated(overlap)
    waits = tuple(Wait(len(block.operations) + i, when=blocked) for i in range(len(operations)))
    every = (*block.operations, *operations)
    return replace(block, operations=every, awaited=(*block.awaited, *waits))


def _copied(block: Block, held: RankParameters, layout: Any, *, last: bool) -> Block:
    """`block` with the copy of its gradients into the buffer that is reduced behind it."""
    reduced_now = (layout.shard == Shard.FSDP) & (last or reduced_at_once(layout))
    copied = (held.sent + held.experts) * reduced_now
    copied = copied * (layout.fsdp_copies | layout.quantized_gradients)
    if not anywhere(copied):
        return block
    each = (weight_bytes(layout) + layout.gradient_dtype.size_bytes) * layout.fsdp_copies
    moved = (each + QUANTIZING_BYTES * layout.quantized_gradients) * copied
    copy = Elementwise(moved, 1.0 * (copied > 0), True, COPY)
    operation = Operation("copy of gradients", copy, Cause.COPY, phase=StepPhase.BACKWARD)
    return replace(block, operations=(*block.operations, operation))


def _sums(
    held: RankParameters, layout: Any, last: bool
) -> Iterator[tuple[CollectiveKind, Number, GroupAxis, Number]]:
    """Kind, bytes, axis and calls of each reduction of the gradients of `held`."""
    size = layout.gradient_dtype.size_bytes
    plain, sent, experts = size * held.plain, size * held.sent, size * held.experts
    if layout.quantized_gradients:
        narrow = where(layout.shard == Shard.FSDP, QUANTIZED_BYTES / size, 1.0)
        sent, experts = narrow * sent, narrow * experts
    plainly = layout.shard == Shard.DDP
    sharded = (layout.shard >= Shard.ZERO1) if last else reduced_at_once(layout)
    if last:
        calls = most(plain / layout.bucket_bytes, 1.0)
        yield "all-reduce", plain * plainly * (layout.dp * layout.cp > 1), "dp", calls
    yield "reduce-scatter", sent * sharded * (layout.shard_degree > 1), "shard", 1
    if last:
        replicas = (layout.replicas_of_shards > 1) * sharded
        yield "all-reduce", sent * replicas / layout.shard_degree, "replica", 1
    if anywhere(experts):
        several = layout.expert_dp > 1  # copies of an expert, also among tensor-parallel ranks
        if last:
            yield "all-reduce", experts * plainly * several, "expert-replica", 1
        yield "reduce-scatter", experts * sharded * several, "expert-shard", 1


def reduced_at_once(layout: Any) -> Truth:
    """True where gradients are reduced and sharded after every micro batch.

    In a pipeline they are kept whole until the last one, as PyTorch's stages do.
    """
    at_once: Truth = (layout.shard >= Shard.ZERO2) & (layout.pp == 1)
    return at_once
