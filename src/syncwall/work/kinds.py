"""Every kind of layer of a model on one rank, as parts.

Holds `Kinds`.
"""

from dataclasses import dataclass

from syncwall.describe.layer_kinds import LayerKind
from syncwall.work.embedding_and_head import embedding_parts, output_layer_parts
from syncwall.work.encoder import cross_parts
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
            stack = tuple(
                (kind, stack_parts(shape, kind.counted))
                for kind in model.layer_kinds
                if kind.counted
            )
            return cls([], [], stack, [], [], [])
        attends = model.attention_layers or model.mtp_layers
        by_letter: dict[str, list[LayerPart]] = {
            "*": [*attention_parts(shape), *cross_parts(shape)] if attends else [],
            "M": mixer_parts(shape) if model.mixer is not None else [],
            "-": mlp_parts(shape) if model.mlp is not None else [],
            "E": expert_parts(shape) if model.moe is not None else [],
        }

        def parts(kind: LayerKind) -> list[LayerPart]:
            every = [part for letter in kind.letters for part in by_letter[letter]]
            if kind.mixer != "M*":
                return every
            return [part for part in every if part.name != "attention norm"]  # that of the mixer

        output_layer = output_layer_parts(shape)
        mtp = mtp_parts(shape, parts(model.mtp_kind), output_layer) if model.mtp_layers else []
        layers = tuple((kind, parts(kind)) for kind in model.layer_kinds)
        embedding = embedding_parts(shape)
        return cls(by_letter["*"], by_letter["M"], layers, embedding, output_layer, mtp)
