"""A layer that was counted elsewhere, on one rank.

Holds `stack_parts`, what it does, and `DEPTH`, the shape that its products are taken to have.
"""

from typing import Final

from syncwall.cause import Cause
from syncwall.describe.layer_kinds import StackLayer
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number, most, rounded_up
from syncwall.work.operations import Elementwise
from syncwall.work.parts import LayerPart, gemm

DEPTH: Final = 2304
"""Numbers that go into each of a product's: 3 x 3 pixels of 256 channels, in the middle of ResNet's
and Stable Diffusion's convolutions. Assumed: the FLOPs of a layer are priced as one multiplication
of this depth with a square output, whatever they are."""
_ALIGNED: Final = 8


def stack_parts(shape: Shape, layer: StackLayer) -> list[LayerPart]:
    """Its products, and its memory traffic, which nothing hides; backward twice as much of both."""
    samples, dtype = shape.layout.micro_batch, shape.layout.precision
    wide = dtype.size_bytes / ACTIVATION_BYTES  # a stack is stated in 16 bits
    parts = []
    if layer.forward_flops:
        m, n = _square(layer.forward_flops * samples)
        parts.append(gemm(layer.name, Cause.GEMM, m, n, DEPTH, dtype))
    if layer.traffic_bytes:
        parts.append(_moved(layer.name, layer.traffic_bytes * wide * samples))
    return parts


def _square(flops: Number) -> tuple[Number, Number]:
    """Rows and columns of a product of so many FLOP, as many of both but for alignment."""
    columns = _ALIGNED * most(rounded_up((flops / (2.0 * DEPTH)) ** 0.5 / _ALIGNED), 1.0)
    return flops / (2.0 * DEPTH * columns), columns


def _moved(name: str, bytes_: Number) -> LayerPart:
    """Memory traffic as it was stated: no framework's habits are added to it."""
    forward = Elementwise(bytes_, is_fused=True, kind="stack")
    backward = Elementwise(2.0 * bytes_, is_fused=True, kind="stack backward")
    return LayerPart(f"{name} traffic", Cause.ELEMENTWISE, forward, (backward,))
