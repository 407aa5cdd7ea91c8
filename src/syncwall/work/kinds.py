"""Every kind of layer of a model on one rank, as parts.

Holds `Kinds`.
"""

from dataclasses import dataclass

from syncwall.work.ends import output_layer_parts
from syncwall.work.experts import expert_parts
from syncwall.work.layer import Shape, attention_parts, mlp_parts
from syncwall.work.mtp import mtp_parts
from syncwall.work.parts import LayerPart


@dataclass(frozen=True, slots=True)
class Kinds:
    """Parts of the output layer and of each kind of layer; none of a kind the model lacks."""

    attention: list[LayerPart]
    """Those that all layers have."""
    dense: list[LayerPart]
    """A whole dense layer."""
    sparse: list[LayerPart]
    """A whole layer with experts."""
    output_layer: list[LayerPart]
    mtp: list[LayerPart]
    """A layer that predicts a token further ahead."""

    @classmethod
    def of(cls, shape: Shape) -> "Kinds":
        """Of a rank with this `shape`."""
        model, attention = shape.model, attention_parts(shape)
        output_layer = output_layer_parts(shape)
        has_dense = model.mlp is not None and model.dense_layers
        dense = attention + mlp_parts(shape) if has_dense else []
        sparse = attention + expert_parts(shape) if model.moe is not None else []
        last = sparse if model.has_experts(model.layers - 1) else dense
        mtp = mtp_parts(shape, last, output_layer) if model.mtp_layers else []
        return cls(attention, dense, sparse, output_layer, mtp)
