"""What is gathered, computed and reduced together: a layer, several of them, or the whole model.

Holds `Layer`, which computes, `Unit`, which also exchanges weights and gradients, and `units`: a
rank's layers in the units of FSDP. Layers of one kind share units; a last one may be smaller.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from syncwall.describe.layout import Shard
from syncwall.work.block import Block, Operation, StepPhase, Stream, Wait
from syncwall.work.layer import Shape
from syncwall.work.number import Number, anywhere
from syncwall.work.offload import from_host, offloaded, to_host
from syncwall.work.rank_parameters import RankParameters
from syncwall.work.sharing import (
    asked_alike,
    behind,
    gathered_each_time,
    is_whole_model,
    reduced,
    weights_of,
)


@dataclass(frozen=True, slots=True)
class UnitLayer:
    """One layer (or end): how it computes, and what it needs for that."""

    forward: Block
    backward: Block
    held: RankParameters
    trained: RankParameters
    """What of that has gradients, or its adapters."""
    late: Number = 0.0
    """Gradients that wait for those of the next block, in the bucket of both (DDP)."""
    offloaded_bytes: Number | None = None
    """Activations that move to the host and back; None if none ever do."""
    is_still: bool = False
    """True if it has no backward pass: neither it nor anything below it is trained."""


@dataclass(frozen=True, slots=True)
class LayerCopies:
    """A layer, and how many of it ranks have."""

    layer: UnitLayer
    in_body: Number | None
    """In a rank before the last; None if it never has any."""
    in_last: Number
    alone: int
    """In a rank that is the only one."""


@dataclass(frozen=True, slots=True)
class FsdpUnit:
    """Layers with the exchange of their weights and gradients; the stage sets the rounds."""

    trained: RankParameters
    """Parameters with gradients."""
    forward: Block
    backward: Block
    last_backward: Block
    is_still: bool = False
    """True if it has no backward pass at all."""

    @classmethod
    def of(cls, shape: Shape, layers: Sequence[UnitLayer]) -> "FsdpUnit":
        """These layers, one after the other."""
        layout = shape.layout
        held = _together([layer.held for layer in layers])
        each_time = gathered_each_time(layout)
        weights = weights_of(held, shape, each_time=each_time)
        again = weights
        if not asked_alike(shape.model, layout):
            again = weights_of(held, shape, each_time=each_time, backward=True)
        weights = from_host(weights, held, shape, backward=False)
        again = from_host(again, held, shape, backward=True)
        forward = behind(sequential_block([layer.forward for layer in layers]), weights)
        moving = [layer for layer in layers if not layer.is_still] or layers
        backward = behind(sequential_block([layer.backward for layer in reversed(moving)]), again)
        trained = _together([layer.trained for layer in layers])
        late = sum(layer.late for layer in layers)
        leaving = replace(trained, plain=trained.plain - late)
        every = to_host(reduced(backward, trained, shape, last=False), trained, shape, last=False)
        last = to_host(reduced(backward, leaving, shape, last=True), trained, shape, last=True)
        moved = [one.offloaded_bytes for one in layers if one.offloaded_bytes is not None]
        if moved:
            bytes_: Number = sum(moved)
            forward = offloaded(forward, bytes_, StepPhase.FORWARD)
            every = offloaded(every, bytes_, StepPhase.BACKWARD)
            last = offloaded(last, bytes_, StepPhase.BACKWARD)
        return cls(trained, forward, every, last, all(layer.is_still for layer in layers))


def units(shape: Shape, placed: Sequence[LayerCopies]) -> Iterator[tuple[FsdpUnit, Number | None, Number]]:
    """Units in the order of the forward pass, and the rounds of each before and in the last rank.

    In arrays, layouts without units of several layers have no rounds of those, and the others only
    such.
    """
    layout = shape.layout
    several = 0.0
    if layout.unit_layers > 1:
        several = 1.0 * ((layout.shard == Shard.FSDP) & (layout.pp == 1))
    whole = is_whole_model(shape.model, layout)
    for one in placed:
        single = 1.0 if one.alone == 1 and not whole else 1.0 - several
        if anywhere(single):
            body = None if one.in_body is None else one.in_body * single
            yield FsdpUnit.of(shape, [one.layer]), body, one.in_last * single
        if one.alone > 1 and anywhere(several) and not whole:
            full, rest = divmod(one.alone, layout.unit_layers)
            for size, rounds in ((layout.unit_layers, full), (rest, 1)):
                if size and rounds:
                    yield FsdpUnit.of(shape, size * [one.layer]), None, rounds * several
    if whole and anywhere(several):
        every = [one.layer for one in placed for _ in range(one.alone)]
        yield FsdpUnit.of(shape, every), None, several


def sequential_block(blocks: Sequence[Block]) -> Block:
    """One block that does what these do one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    operations: list[Operation] = []
    pending: tuple[Wait, ...] = ()
    for block in blocks:
        computed = [i for i, one in enumerate(operations) if one.stream is Stream.COMPUTE][-1:]
        before = tuple(Wait(index) for index in computed)
        moved = _after(block, len(operations), before, pending)
        pending = tuple(wait.later(len(operations)) for wait in block.awaited)
        operations += moved
    names = list(dict.fromkeys(block.name for block in blocks))
    name = "whole model" if len(names) > 1 else f"unit of {len(blocks)} {names[0]}s"
    host_waits = sum(block.host_waits for block in blocks)
    return Block(name, tuple(operations), 1, pending, host_waits)


def _after(
    block: Block, by: int, computed: tuple[Wait, ...], pending: tuple[Wait, ...]
) -> Iterator[Operation]:
    """Operations of `block` behind `by` others: what comes first waits for these too."""
    begun = False
    for operation in block.operations:
        waits = tuple(wait.later(by) for wait in operation.after)
        if not begun and operation.stream is Stream.COMPUTE:
            waits, begun = (*pending, *waits), True
        elif not begun:
            waits = (*computed, *pending, *waits)
        yield operation.waiting(waits)


def _together(held: Sequence[RankParameters]) -> RankParameters:
    """Parameters of several layers."""
    if len(held) == 1:
        return held[0]
    plain, sent = sum(one.plain for one in held), sum(one.sent for one in held)
    padding = sent / plain if anywhere(plain) else 1.0
    return RankParameters(plain, sum(one.experts for one in held), padding)
