"""Parameters that one rank works with.

Holds `RankParameters`; `dense_layer_parameters`, `expert_layer_parameters`, `embedding_parameters`
and `output_layer_parameters`; `largest_layer` and `largest_weight`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from syncwall.describe import Model
from syncwall.describe.layout import Shard
from syncwall.describe.parameters import (
    attention_parameters,
    expert_parameters,
    mlp_parameters,
    norm_weights,
    router_parameters,
    shared_expert_parameters,
)
from syncwall.work.layer import Shape
from syncwall.work.number import Number, anywhere, rounded_up, where

Matrix = tuple[Number, Number]
"""Rows, of which every rank of a shard gets as many, and columns."""


@dataclass(frozen=True, slots=True)
class RankParameters:
    """Parameters of one round of a block on a rank, before sharding over replicas."""

    plain: Number
    """Parameters that every data-parallel rank has."""
    experts: Number = 0.0
    """Parameters of routed experts, which fewer ranks share."""
    padding: Number = 1.0
    """Times `plain` that is sent where each parameter is shared by its rows (PyTorch's FSDP2): rows
    are padded to a multiple of the ranks, so that 4,096 of them are 16,384 on as many ranks."""

    @property
    def sent(self) -> Number:
        """Of `plain`, what gathers and reductions of shards carry."""
        return self.plain * self.padding


def dense_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of a dense layer."""
    model = shape.model
    split = attention_parameters(model) + mlp_parameters(model)
    plain = split / shape.layout.tp + _norms(model)
    return RankParameters(plain, padding=_padding(shape, *_attention(shape), *_mlp(shape)))


def expert_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of a layer with experts."""
    model, layout = shape.model, shape.layout
    assert model.moe is not None
    split = attention_parameters(model) + shared_expert_parameters(model)
    plain = split / layout.tp + router_parameters(model) + _norms(model)
    routed = model.moe.experts * expert_parameters(model) / (layout.ep * layout.etp)
    return RankParameters(plain, routed, _padding(shape, *_attention(shape)))


def embedding_parameters(shape: Shape) -> RankParameters:
    """Parameters of the embedding."""
    rows, columns = _vocabulary(shape)
    return RankParameters(rows * columns, padding=_padding(shape, (rows, columns)))


def output_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of the output layer and the norm before it."""
    norm = norm_weights(shape.model.norm, shape.model.hidden) * shape.model.norm.final
    rows, columns = _vocabulary(shape)
    return RankParameters(rows * columns + norm, padding=_padding(shape, (rows, columns)))


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


def _padding(shape: Shape, *matrices: Matrix) -> Number:
    """Rows padded to a multiple of the ranks that share them, over the rows that there are."""
    layout = shape.layout
    by_rows = (layout.shard == Shard.FSDP) & layout.fsdp_copies
    if not anywhere(by_rows):
        return 1.0
    ranks = layout.shard_degree
    sent = sum(rounded_up(rows / ranks) * ranks * columns for rows, columns in matrices)
    return where(by_rows, sent / sum(rows * columns for rows, columns in matrices), 1.0)


def _vocabulary(shape: Shape) -> Matrix:
    return shape.model.vocab / shape.layout.tp, shape.model.hidden


def _attention(shape: Shape) -> Iterator[Matrix]:
    """Weights of attention on a tensor-parallel rank; their biases are too few to count."""
    model, tp, hidden = shape.model, shape.layout.tp, shape.model.hidden
    latent, heads = model.attention.latent, model.attention.heads / tp
    if latent is None:
        yield heads * model.head_dim, hidden
        yield from 2 * [(model.kv_heads * model.head_dim / tp, hidden)]
        yield hidden, heads * model.head_dim
        return
    if latent.q_rank is not None:
        yield latent.q_rank, hidden
    yield heads * model.head_dim, latent.q_rank or hidden
    yield latent.kv_rank + latent.rope_dim, hidden
    yield heads * (latent.nope_dim + latent.v_dim), latent.kv_rank
    yield hidden, heads * latent.v_dim


def _mlp(shape: Shape) -> Iterator[Matrix]:
    mlp, hidden = shape.model.mlp, shape.model.hidden
    if mlp is not None:
        yield from (2 if mlp.gated else 1) * [(mlp.hidden / shape.layout.tp, hidden)]
        yield hidden, mlp.hidden / shape.layout.tp
