"""What moves to the memory of the host and back.

Holds `offloaded`, which puts the copies of a layer's activations beside its computation, and
`host_update`: the optimizer on the host's processor. Source: ZeRO-Offload (Ren 2021).
"""

from dataclasses import replace

from syncwall.work.block import EXPOSED, Block, Operation, Phase, Stream, Wait
from syncwall.work.layer import Shape
from syncwall.work.number import Number, least, most
from syncwall.work.operations import Offload
from syncwall.work.sharing import weight_bytes
from syncwall.work.states import update_bytes


def offloaded(block: Block, moved_bytes: Number, phase: Phase) -> Block:
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


def host_update(shape: Shape, parameters: Number) -> Offload:
    """The update of `parameters` on the host: gradients go there, 16-bit weights come back."""
    layout = shape.layout
    sent = weight_bytes(layout) + layout.gradient_dtype.size_bytes
    return Offload(sent * parameters, update_bytes(layout) * parameters)
