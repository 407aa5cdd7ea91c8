"""Multi-token prediction: layers that predict tokens further ahead, in training only.

Holds `mtp_parts` and `mtp_parameters`. Source: DeepSeek-V3 report, section 2.2: a
projection of two hidden states into one, a layer of the last kind, and the output layer once more.
"""

from collections.abc import Sequence

from syncwall.cause import Cause
from syncwall.work.layer import Shape
from syncwall.work.parts import LayerPart, gemm
from syncwall.work.rank_parameters import RankParameters, layer_parameters


def mtp_parts(shape: Shape, layer: Sequence[LayerPart], output_layer: Sequence[LayerPart]) -> list[LayerPart]:
    """One such layer on a rank, from a `layer` of the last kind and the `output_layer`.

    The projection is shared out among tensor-parallel ranks.
    """
    model, tokens = shape.model, shape.tokens / shape.layout.tp
    join = gemm("join", Cause.GEMM, tokens, model.hidden, 2 * model.hidden, shape.layout.precision)
    return [join, *layer, *output_layer]


def mtp_parameters(shape: Shape) -> RankParameters:
    """Its parameters on a rank; embedding and output layer are those of the model."""
    model = shape.model
    held = layer_parameters(shape, model.mtp_kind)
    return RankParameters(held.plain + 2 * model.hidden**2, held.experts)
