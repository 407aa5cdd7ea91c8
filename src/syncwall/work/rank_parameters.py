"""Parameters that one rank works with.

Holds `RankParameters`; `dense_layer_parameters`, `expert_layer_parameters`, `embedding_parameters`
and `output_layer_parameters`; `largest_layer` and `largest_weight`.
"""

from dataclasses import dataclass

from syncwall.describe import Model
from syncwall.describe.parameters import (
    attention_parameters,
    expert_parameters,
    mlp_parameters,
    norm_weights,
    router_parameters,
    shared_expert_parameters,
)
from syncwall.work.layer import Shape
from syncwall.work.number import Number


@dataclass(frozen=True, slots=True)
class RankParameters:
    """Parameters of one round of a block on a rank, before sharding over replicas."""

    plain: Number
    """Parameters that every data-parallel rank has."""
    experts: Number = 0.0
    """Parameters of routed experts, which fewer ranks share."""


def dense_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of a dense layer."""
    model = shape.model
    split = attention_parameters(model) + mlp_parameters(model)
    return RankParameters(split / shape.layout.tp + _norms(model))


def expert_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of a layer with experts."""
    model, layout = shape.model, shape.layout
    assert model.moe is not None
    split = attention_parameters(model) + shared_expert_parameters(model)
    plain = split / layout.tp + router_parameters(model) + _norms(model)
    routed = model.moe.experts * expert_parameters(model) / (layout.ep * layout.etp)
    return RankParameters(plain, routed)


def embedding_parameters(shape: Shape) -> RankParameters:
    """Parameters of the embedding."""
    return RankParameters(shape.model.vocab * shape.model.hidden / shape.layout.tp)


def output_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of the output layer and the norm before it."""
    norm = norm_weights(shape.model.norm, shape.model.hidden) * shape.model.norm.final
    return RankParameters(shape.model.vocab * shape.model.hidden / shape.layout.tp + norm)


def largest_layer(shape: Shape) -> Number:
    """Parameters of the layer that has the most of them."""
    model = shape.model
    if model.moe is not None:
        held = expert_layer_parameters(shape)
        return held.plain + held.experts
    return dense_layer_parameters(shape).plain


def largest_weight(shape: Shape) -> Number:
    """Parameters of the largest matrix of a layer: its gradient exists before it is added up."""
    mlp = shape.model.mlp
    if mlp is None or not shape.model.dense_layers:
        return 0.0
    return shape.model.hidden * mlp.hidden * (2 if mlp.gated else 1) / shape.layout.tp


def _norms(model: Model) -> int:
    return model.norm.per_layer * norm_weights(model.norm, model.hidden)
