"""Every kind of layer of a model on one rank, as parts.

Holds `Kinds`.
"""

from dataclasses import dataclass

from syncwall.describe.layer_kinds import LayerKind
from syncwall.work.encoder import cross_parts
from syncwall.work.ends import embedding_parts, output_layer_parts
from syncwall.work.experts import expert_parts
from syncwall.work.layer import Shape, attention_parts, mlp_parts
from syncwall.work.mixer import mixer_parts
from syncwall.work.mtp import mtp_parts
from syncwall.work.parts import LayerPart
from syncwall.work.stack import stack_parts


@dataclass(frozen=True, slots=True)
class Kinds:
    """Parts of both ends and of each kind of layer; none of a kind the model lacks."""

    attention: list[LayerPart]
    mixer: list[LayerPart]
    """What some layers have in the place of attention."""
    layers: tuple[tuple[LayerKind, list[LayerPart]], ...]
    """Whole layers, those without experts first."""
    embedding: list[LayerPart]
    output_layer: list[LayerPart]
    mtp: list[LayerPart]
    """A layer that predicts a token further ahead."""

    @classmethod
    def of(cls, shape: Shape) -> "Kinds":
        """Of a rank with this `shape`."""
        model = shape.model
        if model.stack is not None:
            stack = tuple((kind, _counted(shape, kind)) for kind in model.layer_kinds)
            return cls([], [], stack, [], [], [])
        mixers: dict[str, list[LayerPart]] = {
            "*": [*attention_parts(shape), *cross_parts(shape)]
            if model.attention_layers or model.mtp_layers
            else [],
            "M": mixer_parts(shape) if model.mixer is not None else [],
            "": [],
        }
        dense = mlp_parts(shape) if model.mlp is not None else []
        sparse = expert_parts(shape) if model.moe is not None else []
        tokenwise = {"-": dense, "E": sparse, "": []}

        def parts(kind: LayerKind) -> list[LayerPart]:
            return mixers[kind.mixer] + tokenwise[kind.feed_forward]

        output_layer = output_layer_parts(shape)
        mtp = mtp_parts(shape, parts(model.mtp_kind), output_layer) if model.mtp_layers else []
        layers = tuple((kind, parts(kind)) for kind in model.layer_kinds)
        embedding = embedding_parts(shape)
        return cls(mixers["*"], mixers["M"], layers, embedding, output_layer, mtp)


def _counted(shape: Shape, kind: LayerKind) -> list[LayerPart]:
    """Parts of a layer that was counted elsewhere."""
    assert kind.counted is not None, "it is of a stack"
    return stack_parts(shape, kind.counted)
