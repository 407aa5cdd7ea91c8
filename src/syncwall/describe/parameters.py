"""Exact parameter counts of a model.

Holds `ParameterCount` and `count_parameters`; `matrices.py` lists what layers have. The sum equals
what the reference implementation of an architecture instantiates, to the parameter;
buffers (rotary tables, routing corrections) do not count.
"""

from collections import Counter
from dataclasses import dataclass

from syncwall.describe.matrices import WeightGroup, layer_weights, modulation_matrix
from syncwall.describe.transformer import SHIFT_SCALE, Transformer


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters by where they sit; `total` is the published model."""

    embedding: int
    """Embeddings of tokens or patches, positions, token types and conditioning, with their
    projections."""
    attention: int
    """Attention, and the mixers in its place."""
    mlp: int
    """Feed-forward parts of dense layers."""
    experts: int
    """Routed experts."""
    shared_experts: int
    router: int
    """Routers, with the projections to and from the width of routed experts where it is another."""
    norm: int
    """Norms, with the projections of the conditioning that modulates them."""
    head: int
    """Output head; 0 if tied to the embedding."""
    inactive: int
    """Routed experts that one token does not visit."""
    mtp: int
    """Multi-token prediction layers, not in `total`."""
    encoder: int = 0
    """All of the encoder in front, with its projector."""
    stack: int = 0
    """All layers of a model that is no transformer."""

    @property
    def total(self) -> int:
        """All parameters of the published model."""
        return (
            self.embedding
            + self.attention
            + self.mlp
            + self.experts
            + self.shared_experts
            + self.router
            + self.norm
            + self.head
            + self.encoder
            + self.stack
        )

    @property
    def active(self) -> int:
        """Parameters that one token passes through."""
        return self.total - self.inactive


def count_parameters(model: Transformer) -> ParameterCount:
    """Count the parameters of `model`."""
    layers: Counter[WeightGroup] = Counter()
    for kind in model.layer_kinds:
        for part in layer_weights(model, kind):
            layers[part.group] += kind.count * part.parameters
    hidden, width, norm = model.hidden, model.embedding_width, model.norm
    positions = (model.learned_positions + model.token_types) * hidden
    positions += model.relative_positions * model.attention.heads
    projections = 2 * width * hidden if width != hidden else 0
    output = 0 if model.tied_embeddings else model.head_width * width
    ends = (norm.final + norm.embedding) * norm.weights(hidden) + final_modulation(model)
    moe = model.moe
    inactive = layers["experts"] // moe.experts * (moe.experts - moe.top_k) if moe else 0
    return ParameterCount(
        embedding=model.vocab * width + positions + projections + input_parameters(model),
        attention=layers["attention"],
        mlp=layers["mlp"],
        experts=layers["experts"],
        shared_experts=layers["shared_experts"],
        router=layers["router"],
        norm=layers["norm"] + ends,
        head=output + model.head_bias * model.head_width + head_transform_parameters(model),
        inactive=inactive,
        mtp=model.mtp_layers * _mtp_layer(model),
        stack=layers["stack"],
    )


def input_parameters(model: Transformer) -> int:
    """Parameters of what makes tokens of patches or frames, and of the conditioning."""
    given = (model.patches, model.frames, model.conditioning)
    return sum(one.parameters(model.hidden) for one in given if one is not None)


def final_modulation(model: Transformer) -> int:
    """Parameters of the modulation of the final norm; 0 without conditioning."""
    return sum(one.parameters for one in modulation_matrix(model, SHIFT_SCALE).values())


def head_transform_parameters(model: Transformer) -> int:
    """Parameters of projection and norm before the logits; 0 if there are none."""
    if not model.head_transform:
        return 0
    bias = model.mlp is not None and model.mlp.bias
    return model.hidden * (model.hidden + bias) + model.norm.weights(model.hidden)


def _mtp_layer(model: Transformer) -> int:
    """One multi-token prediction layer: a layer of the last kind, three norms and a projection.

    Embedding and output layer are those of the model. Source: DeepSeek-V3 report, section 2.2.
    """
    layer = sum(part.parameters for part in layer_weights(model, model.mtp_kind))
    return layer + 2 * model.hidden**2 + 3 * model.norm.weights(model.hidden)
