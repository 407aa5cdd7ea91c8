"""Parameters that one rank works with.

Holds `Held`; `dense_held`, `expert_held`, `embedding_held` and `head_held`; `largest_layer` and
`largest_weight`.
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
class Held:
    """Parameters of one round of a block on a rank, before sharding over replicas."""

    plain: Number
    """Parameters that every data-parallel rank has."""
    experts: Number = 0.0
    """Parameters of routed experts, which fewer ranks share."""


def dense_held(shape: Shape) -> Held:
    """Parameters of a dense layer."""
    model = shape.model
    split = attention_parameters(model) + mlp_parameters(model)
    return Held(split / shape.layout.tp + _norms(model))


def expert_held(shape: Shape) -> Held:
    """Parameters of a layer with experts."""
    model, layout = shape.model, shape.layout
    assert model.moe is not None
    split = attention_parameters(model) + shared_expert_parameters(model)
    plain = split / layout.tp + router_parameters(model) + _norms(model)
    routed = model.moe.experts * expert_parameters(model) / (layout.ep * layout.etp)
    return Held(plain, routed)


def embedding_held(shape: Shape) -> Held:
    """Parameters of the embedding."""
    return Held(shape.model.vocab * shape.model.hidden / shape.layout.tp)


def head_held(shape: Shape) -> Held:
    """Parameters of the output head and the norm before it."""
    norm = norm_weights(shape.model.norm, shape.model.hidden) * shape.model.norm.final
    return Held(shape.model.vocab * shape.model.hidden / shape.layout.tp + norm)


def largest_layer(shape: Shape) -> Number:
    """Parameters of the layer that has the most of them."""
    model = shape.model
    if model.moe is not None:
        held = expert_held(shape)
        return held.plain + held.experts
    return dense_held(shape).plain


def largest_weight(shape: Shape) -> Number:
    """Parameters of the largest matrix of a layer: its gradient exists before it is added up."""
    mlp = shape.model.mlp
    if mlp is None or not shape.model.dense_layers:
        return 0.0
    return shape.model.hidden * mlp.hidden * (2 if mlp.gated else 1) / shape.layout.tp


def _norms(model: Model) -> int:
    return model.norm.per_layer * norm_weights(model.norm, model.hidden)
