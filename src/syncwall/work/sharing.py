"""What data-parallel ranks exchange: weights on their way in, gradients on their way out.

Holds `weights_of`, the gather of a block's sharded weights, `behind`, which puts a block behind it,
and `reduced`, which puts the reduction of its gradients behind a block. In arrays, what a layout
does not do has zero bytes, so that one block serves DDP, ZeRO and FSDP alike; what none of them
does is left out.

Sources: PyTorch DDP (Li 2020), ZeRO (Rajbhandari 2020), PyTorch FSDP (Zhao 2023).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from syncwall.cause import Cause
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Shard
from syncwall.work.block import EXPOSED, Block, Operation, Phase, Stream, Wait
from syncwall.work.layer import Shape
from syncwall.work.number import Number, Truth, anywhere, most
from syncwall.work.operations import Collective, CollectiveKind, Elementwise, GroupAxis
from syncwall.work.rank_parameters import RankParameters

COPY = "copy"
"""The kind of kernel that FSDP copies with."""


def weight_bytes(layout: Any) -> float:
    """Bytes of a weight as it is computed with and sent: 4 in plain fp32 training, else 2."""
    return 4.0 if layout.precision is Dtype.FP32 else 2.0


def weights_of(held: RankParameters, shape: Shape, *, each_time: Number) -> tuple[Operation, ...]:
    """The gather of a block's weights, one round ahead where overlap is on, and its begin.

    Nothing of the block starts without its weights, and the next ones are asked for as it begins.

    `each_time` is 1 where weights are gathered for every micro batch, 0 where once is enough.
    """
    layout, groups = shape.layout, shape.groups
    sharded = (layout.shard == Shard.FSDP) * each_time
    sizes: list[tuple[Number, GroupAxis]] = [
        (held.sent * sharded * (layout.shard_degree > 1), "shard")
    ]
    if anywhere(held.experts):  # tensor-parallel ranks may hold copies of them
        sizes.append((held.experts * sharded * (layout.expert_dp > 1), "expert-shard"))
    sizes = [(size, axis) for size, axis in sizes if anywhere(size)]
    if not sizes:
        return ()
    ahead, moving = layout.overlap_parameters, sum(size for size, _ in sizes) > 0
    begins = len(sizes)  # the operation after the gathers
    waits = (
        Wait(begins, when=ahead & moving, of="previous start"),
        Wait(begins, when=_not(ahead) & moving, of="computed"),
    )
    gathers = [
        Operation(
            "weights",
            Collective("all-gather", weight_bytes(layout) * size, groups[axis]),
            EXPOSED[Stream.GATHER],
            Stream.GATHER,
            waits,
        )
        for size, axis in sizes
    ]
    weights_are_here = tuple(Wait(index) for index in range(begins))
    copied = sum(size for size, _ in sizes) * layout.fsdp_copies
    copy = Elementwise(2.0 * weight_bytes(layout) * copied, 1.0 * (copied > 0), True, COPY)
    begin = Operation("begin", copy, Cause.COPY, after=weights_are_here)
    return (*gathers, begin)


def behind(block: Block, before: tuple[Operation, ...]) -> Block:
    """`block` with `before` at its start."""
    if not before:
        return block
    moved = [_shifted(operation, len(before)) for operation in block.operations]
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
            Phase.BACKWARD,
        )
        for kind, bytes_, axis, count in _sums(held, layout, last)
        if anywhere(bytes_)
    ]
    if not operations:
        return block
    blocked = _not(layout.overlap_gradients)
    waits = tuple(Wait(len(block.operations) + i, when=blocked) for i in range(len(operations)))
    every = (*block.operations, *operations)
    return replace(block, operations=every, awaited=(*block.awaited, *waits))


def _copied(block: Block, held: RankParameters, layout: Any, *, last: bool) -> Block:
    """`block` with the copy of its gradients into the buffer that is reduced behind it."""
    reduced_now = (layout.shard == Shard.FSDP) & (last or reduced_at_once(layout))
    copied = (held.sent + held.experts) * reduced_now * layout.fsdp_copies
    if not anywhere(copied):
        return block
    moved = (weight_bytes(layout) + layout.gradient_dtype.size_bytes) * copied
    copy = Elementwise(moved, 1.0 * (copied > 0), True, COPY)
    operation = Operation("copy of gradients", copy, Cause.COPY, phase=Phase.BACKWARD)
    return replace(block, operations=(*block.operations, operation))


def _sums(
    held: RankParameters, layout: Any, last: bool
) -> Iterator[tuple[CollectiveKind, Number, GroupAxis, Number]]:
    """Kind, bytes, axis and calls of each reduction of the gradients of `held`."""
    size = layout.gradient_dtype.size_bytes
    plain, sent, experts = size * held.plain, size * held.sent, size * held.experts
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


def _shifted(operation: Operation, by: int) -> Operation:
    if not operation.after:
        return operation
    return operation.waiting(tuple(wait.later(by) for wait in operation.after))


def _not(truth: Truth) -> Truth:
    return ~truth if isinstance(truth, np.ndarray) else not truth
