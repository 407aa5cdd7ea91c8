"""Parameters that one rank works with.

Holds `RankParameters`; `layer_parameters` of one kind of layer, `dense_layer_parameters` and
`expert_layer_parameters` of those without and with experts on average; `embedding_parameters` and
`output_layer_parameters`; `largest_layer` and `largest_weight`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.layout import Shard
from syncwall.describe.parameters import (
    expert_parameters,
    final_modulation,
    head_transform_parameters,
    indexer_parameters,
    input_parameters,
    layer_modulation,
    layer_norms,
    mixing_parameters,
    mlp_parameters,
    norm_weights,
    router_parameters,
    shared_expert_parameters,
)
from syncwall.work.layer import Shape
from syncwall.work.number import Number, anywhere, most, rounded_up, where

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


def layer_parameters(shape: Shape, kind: LayerKind) -> RankParameters:
    """Parameters of a layer of `kind`."""
    if kind.counted is not None:
        return RankParameters(float(kind.counted.parameters))
    model, layout = shape.model, shape.layout
    mixing, norms = mixing_parameters(model, kind), layer_norms(model, kind)
    copied = indexer_parameters(model) if kind.mixer == "*" else 0
    mixing -= copied
    plain_norms = norms * norm_weights(model.norm, model.hidden) + layer_modulation(model, kind)
    plain_norms += copied
    matrices: list[Matrix] = []
    if kind.mixer:
        matrices += (_attention if kind.mixer == "*" else _mixer)(shape)
    if not kind.has_experts:
        dense = kind.feed_forward == "-"
        split = mixing + (mlp_parameters(model) if dense else 0)
        plain = split / layout.tp + plain_norms
        widths = [*matrices, *(_mlp(shape) if dense else ())]
        return RankParameters(plain, padding=_padding(shape, *widths))
    assert model.moe is not None
    split = mixing + shared_expert_parameters(model)
    plain = split / layout.tp + router_parameters(model) + plain_norms
    routed = model.moe.experts * expert_parameters(model) / (layout.ep * layout.etp)
    return RankParameters(plain, routed, _padding(shape, *matrices))


def dense_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of a layer without experts, on average."""
    return _average(shape, has_experts=False)


def expert_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of a layer with experts, on average."""
    return _average(shape, has_experts=True)


def _average(shape: Shape, *, has_experts: bool) -> RankParameters:
    kinds = [kind for kind in shape.model.layer_kinds if kind.has_experts == has_experts]
    each = [(kind.share, layer_parameters(shape, kind)) for kind in kinds]
    if len(each) == 1:
        return each[0][1]
    return RankParameters(
        sum(share * held.plain for share, held in each),
        sum(share * held.experts for share, held in each),
    )


def embedding_parameters(shape: Shape) -> RankParameters:
    """Parameters of the embedding, or of what makes tokens of patches."""
    vocabulary = _vocabulary(shape, shape.model.vocab)
    own = input_parameters(shape.model)
    if not shape.model.vocab:
        return RankParameters(1.0 * own)
    return RankParameters(vocabulary[0] * vocabulary[1] + own, padding=_padding(shape, vocabulary))


def output_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of the output layer and the norm before it."""
    norm = norm_weights(shape.model.norm, shape.model.hidden) * shape.model.norm.final
    if not shape.model.head_width:
        return RankParameters(1.0 * norm)
    rows, columns = _vocabulary(shape, shape.model.head_width)
    own = norm + head_transform_parameters(shape.model) + final_modulation(shape.model)
    return RankParameters(rows * columns + own, padding=_padding(shape, (rows, columns)))


def projector_parameters(shape: Shape) -> RankParameters:
    """Parameters of what brings the tokens of an encoder into the model; 0 if nothing does."""
    encoder = shape.model.encoder
    if encoder is None or encoder.projector is None:
        return RankParameters(0.0)
    return RankParameters(1.0 * encoder.projector.parameters(encoder.hidden, shape.model.hidden))


def encoder_parameters(source: Shape) -> Number:
    """Parameters of a whole encoder of this shape."""
    layers = sum(
        kind.count * layer_parameters(source, kind).plain for kind in source.model.layer_kinds
    )
    return embedding_parameters(source).plain + layers + output_layer_parameters(source).plain


def largest_layer(shape: Shape) -> Number:
    """Parameters of the layer that has the most of them."""
    kinds = shape.model.layer_kinds
    largest: Number = 0.0
    for kind in [kind for kind in kinds if kind.has_experts] or kinds:
        held = layer_parameters(shape, kind)
        largest = most(largest, held.plain + held.experts)
    return largest


def largest_weight(shape: Shape) -> Number:
    """Parameters of the largest matrix of a layer: its gradient exists before it is added up."""
    mlp = shape.model.mlp
    if shape.model.stack is not None:  # of the matrices of a layer nothing is known
        return largest_layer(shape)
    if mlp is None or not shape.model.dense_layers:
        return 0.0
    return shape.model.hidden * mlp.hidden * (2 if mlp.gated else 1) / shape.layout.tp


def _padding(shape: Shape, *matrices: Matrix) -> Number:
    """Rows padded to a multiple of the ranks that share them, over the rows that there are."""
    layout = shape.layout
    by_rows = (layout.shard == Shard.FSDP) & layout.fsdp_copies
    if not anywhere(by_rows):
        return 1.0
    if not matrices:
        return 1.0
    ranks = layout.shard_degree
    sent = sum(rounded_up(rows / ranks) * ranks * columns for rows, columns in matrices)
    return where(by_rows, sent / sum(rows * columns for rows, columns in matrices), 1.0)


def _vocabulary(shape: Shape, rows: int) -> Matrix:
    return rows / shape.layout.tp, shape.model.embedding_width


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


def _mixer(shape: Shape) -> Iterator[Matrix]:
    """Weights of the projections into and out of a mixer on a tensor-parallel rank."""
    mixer, tp, hidden = shape.model.mixer, shape.layout.tp, shape.model.hidden
    assert mixer is not None
    yield mixer.input_width / tp, hidden
    yield hidden, mixer.value_width / tp


def _mlp(shape: Shape) -> Iterator[Matrix]:
    mlp, hidden = shape.model.mlp, shape.model.hidden
    if mlp is not None:
        yield from (2 if mlp.gated else 1) * [(mlp.hidden / shape.layout.tp, hidden)]
        yield hidden, mlp.hidden / shape.layout.tp
