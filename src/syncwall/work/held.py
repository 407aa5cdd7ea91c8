"""Parameters that one rank works with.

Holds `Held`, and `dense_held`, `expert_held` and `ends_held` for the kinds of layers.
"""

from dataclasses import dataclass

from syncwall.describe import Model
from syncwall.describe.parameters import attention_parameters, norm_weights
from syncwall.work.layer import Shape
from syncwall.work.operations import Number


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters of one round of a block on a rank, before sharding over replicas."""

    plain: Number
    """Parameters that every data-parallel rank has."""
    experts: Number = 0.0
    """Parameters of routed experts, which fewer ranks share."""


def dense_held(shape: Shape) -> Held:
    """Parameters of a dense layer."""
    model, mlp = shape.model, shape.model.mlp
    assert mlp is not None
    matrices = (3 if mlp.gated else 2) * model.hidden * mlp.hidden
    return Held((attention_parameters(model) + matrices) / shape.layout.tp + _norms(model))


def expert_held(shape: Shape) -> Held:
    """Parameters of a layer with experts."""
    model, layout, moe = shape.model, shape.layout, shape.model.moe
    assert moe is not None
    matrices = 3 if (model.mlp is None or model.mlp.gated) else 2
    shared = matrices * model.hidden * moe.shared_hidden
    plain = (attention_parameters(model) + shared) / layout.tp
    routed = moe.experts * matrices * model.hidden * moe.hidden / (layout.ep * layout.etp)
    return Held(plain + model.hidden * moe.experts + _norms(model), routed)


def ends_held(shape: Shape) -> Held:
    """Parameters of the embedding, or of the head."""
    return Held(shape.model.vocab * shape.model.hidden / shape.layout.tp)


def _norms(model: Model) -> int:
    return model.norm.per_layer * norm_weights(model.norm, model.hidden)
