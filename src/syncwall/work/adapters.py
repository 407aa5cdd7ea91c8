"""What low-rank adapters add to a layer: products, parameters, and dequantised frozen weights.

Holds `with_adapters`, `adapter_parameters` and `keeps_input`. An adapter is two products, into its
rank and out of it, with gradients of inputs and weights; frozen matrices that are kept narrow are
dequantised each time that they are used, forward, again and backward.
"""

from collections.abc import Sequence

from syncwall.cause import Cause
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.matrices import Matrix
from syncwall.describe.switches import adapted
from syncwall.work.block import Scope
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number
from syncwall.work.operations import Elementwise
from syncwall.work.parts import LayerPart, gemm
from syncwall.work.rank_parameters import RankParameters, layer_parameters

ENTERING = ("q_proj", "k_proj", "v_proj", "q_a_proj", "kv_a_proj_with_mqa")
"""Matrices of attention whose input is that of the layer, normed."""


def with_adapters(parts: Sequence[LayerPart], shape: Shape, kind: LayerKind) -> list[LayerPart]:
    """The parts of a layer with those of its adapters behind their multiplications."""
    lora = shape.layout.lora
    if lora is None:
        return list(parts)
    adapters = adapted(shape.model, kind, lora)
    found = _dequantised(shape, kind)
    for part in parts:
        found.append(part)
        for one in adapters:
            if one in part.matrices:
                found += _products(shape, one, lora.rank, part.scope)
    return found


def adapter_parameters(shape: Shape, kind: LayerKind) -> RankParameters:
    """Trained parameters of a layer on a rank: the side that tensor parallelism splits, in part."""
    lora = shape.layout.lora
    if lora is None:
        return RankParameters(0.0)
    return RankParameters(
        sum((lora.rank * sum(_widths(shape, one)) for one in adapted(shape.model, kind, lora)), 0.0)
    )


def keeps_input(shape: Shape, *names: str) -> Number:
    """1 if the input of these matrices is kept for a weight gradient, theirs or an adapter's."""
    lora = shape.layout.lora
    if lora is None:
        return 1 - shape.layout.frozen_weights
    kinds = shape.model.layer_kinds
    return 1.0 * any(
        one.name in names for kind in kinds for one in adapted(shape.model, kind, lora)
    )


def _widths(shape: Shape, one: Matrix) -> tuple[Number, Number]:
    """What enters and leaves a matrix on a rank, of which adapters share one side."""
    tp = shape.layout.tp
    if one.split == "columns":
        return one.columns / tp, one.rows
    return one.columns, one.rows / tp


def _products(shape: Shape, one: Matrix, rank: int, scope: Scope) -> list[LayerPart]:
    dtype, tokens = shape.layout.precision, shape.tokens
    entering, leaving = _widths(shape, one)
    pair = (
        gemm(f"{one.name} adapter down", Cause.GEMM, tokens, rank, entering, dtype),
        gemm(f"{one.name} adapter up", Cause.GEMM, tokens, leaving, rank, dtype),
    )
    return [part.within(scope).trained() for part in pair]


def _dequantised(shape: Shape, kind: LayerKind) -> list[LayerPart]:
    """Frozen matrices of a layer read and written in 16 bits, if they are kept narrower."""
    lora = shape.layout.lora
    kept = lora.weight_bytes if lora else None
    if kept is None or kept >= ACTIVATION_BYTES:
        return []
    held = layer_parameters(shape, kind)
    moved = Elementwise((kept + ACTIVATION_BYTES) * (held.plain + held.experts), kind="cast")
    return [LayerPart("dequantised weights", Cause.ELEMENTWISE, moved, (moved,))]
