"""What moves to the memory of the host and back.

Holds `offloaded`, which puts the copies of a layer's activations beside its computation,
`from_host` and `to_host`, which copy a unit's weights before and its gradients behind it, and
`host_update` and `sent_after_update`: what the optimizer moves. Sources: ZeRO-Offload (Ren 2021),
ZeRO-Infinity (Rajbhandari 2021), PyTorch's `fully_shard` (August 2026).
"""

from dataclasses import replace
from typing import Any

from syncwall.cause import Cause
from syncwall.work.block import EXPOSED, Block, Operation, StepPhase, Stream, Wait
from syncwall.work.layer import Shape
from syncwall.work.memory_parts import master_bytes, stored_bytes, trained_bytes, update_bytes
from syncwall.work.number import Number, least, most, negated
from syncwall.work.operations import Elementwise, Offload
from syncwall.work.rank_parameters import RankParameters
from syncwall.work.sharing import asked, kept_after_forward, weight_bytes


def offloaded(block: Block, moved_bytes: Number, phase: StepPhase) -> Block:
    """`block` with a copy of `moved_bytes` to or from the host beside each round.

    What comes after a round waits for it: one layer's activations are on their way at a time.
    """
    copy = Operation(
        "activations",
        Offload(moved_bytes),
        EXPOSED[Stream.OFFLOAD],
        Stream.OFFLOAD,
        phase=phase,
    )
    wait = Wait(len(block.operations))
    return replace(block, operations=(*block.operations, copy), awaited=(*block.awaited, wait))


def moved_share(shape: Shape, layers: Number) -> Number:
    """Share of a stage's `layers` whose activations wait on the host."""
    return least(shape.layout.offload_layers / most(layers, 1e-9), 1.0)


def from_host(
    gathers: tuple[Operation, ...], held: RankParameters, shape: Shape, *, backward: bool
) -> tuple[Operation, ...]:
    """`gathers` behind the copy of a rank's own share of a unit's weights from the host.

    Both are asked for together and follow each other: between cards without NVLink they share a
    link. Of one rank there is the copy alone. Backward nothing is copied that stayed on the device.
    """
    layout = shape.layout
    if not layout.offload_weights or (backward and _stays(shape)):
        return gathers
    begins = len(gathers) or 1  # the last of the gathers, behind the copy
    copy = Operation(
        "weights from the host",
        Offload(stored_bytes(layout) * _own(held, layout)),
        EXPOSED[Stream.OFFLOAD],
        Stream.GATHER,
        asked(shape, begins, True, backward=backward),
    )
    here = Wait(0)
    if not gathers:
        nothing = Elementwise(0.0, 0.0, is_fused=True)
        return copy, Operation("begin", nothing, Cause.COPY, after=(here,))
    behind = (one.waiting((here, *(wait.later(1) for wait in one.after))) for one in gathers)
    return copy, *behind


def _stays(shape: Shape) -> bool:
    """True if a second partition or all of the weights stays on the device between the passes."""
    again = shape.layout.reshard_after_forward
    return kept_after_forward(shape.model, shape.layout) or again not in (None, True)


def to_host(block: Block, trained: RankParameters, shape: Shape, *, last: bool) -> Block:
    """`block` with the copy of a rank's own share of its gradients to the host behind it.

    There they are added to those of other micro batches, once less than there are of these.
    """
    layout = shape.layout
    if not layout.offload_gradients:
        return block
    kept, own = layout.kept_gradient_dtype.size_bytes, _own(trained, layout)
    copy = Operation(
        "gradients to the host",
        Offload(kept * own, 0.0 if last else 3.0 * kept * own),
        EXPOSED[Stream.OFFLOAD],
        Stream.OFFLOAD,
        (Wait(len(block.operations) - 1),),
        StepPhase.BACKWARD,
    )
    wait = Wait(len(block.operations), when=negated(layout.overlap_gradients))
    return replace(block, operations=(*block.operations, copy), awaited=(*block.awaited, wait))


def _own(held: RankParameters, layout: Any) -> Number:
    """Parameters of a unit that a rank holds of those that it shares with others."""
    own: Number = held.sent / layout.shard_degree + held.experts / layout.expert_dp
    return own


def host_update(shape: Shape, parameters: Number) -> Offload:
    """The update of `parameters` on the host: gradients go there, 16-bit weights come back.

    Not what is there already, or stays there.
    """
    layout = shape.layout
    back = weight_bytes(layout) * (not layout.offload_weights)
    sent = back + layout.gradient_dtype.size_bytes * (not layout.offload_gradients)
    return Offload(sent * parameters, update_bytes(layout) * parameters)


def sent_after_update(shape: Shape, parameters: Number) -> Offload:
    """Weights that live on the host while the device updates `parameters`.

    They go there; without a copy in more bits they are fetched before.
    """
    ways = 1.0 if master_bytes(shape.layout) else 2.0
    return Offload(ways * trained_bytes(shape.layout) * parameters)
