"""Parameters that one rank works with.

Holds `RankParameters`; `layer_parameters` of one kind of layer, `embedding_parameters` and
`output_layer_parameters`; `largest_layer` and `largest_weight`.
"""

from dataclasses import dataclass

from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.layout import Shard
from syncwall.describe.matrices import Matrix, layer_weights
from syncwall.describe.parameters import (
    final_modulation,
    head_transform_parameters,
    input_parameters,
)
from syncwall.work.layer import Shape, on_a_rank
from syncwall.work.number import Number, anywhere, most, rounded_up, where


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
    """Parameters of a layer of `kind`; rows of attention, mixer and MLP are padded."""
    if kind in shape.known_parameters:
        known: RankParameters = shape.known_parameters[kind]
        return known
    layout, matrices = shape.layout, list[Matrix]()
    counts = {"tp": 0, "experts": 0, "none": 0}
    for part in layer_weights(shape.model, kind):
        counts[part.shared_by] += part.parameters
        if part.shared_by == "tp" and part.group in ("attention", "mlp"):
            matrices += part.matrices.values()
    plain = counts["tp"] / layout.tp + counts["none"]
    routed = counts["experts"] / (layout.ep * layout.etp) if counts["experts"] else 0.0
    found = RankParameters(plain, routed, _padding(shape, *matrices))
    shape.known_parameters[kind] = found
    return found


def embedding_parameters(shape: Shape) -> RankParameters:
    """Parameters of the embedding, or of what makes tokens of patches."""
    model, own = shape.model, 1.0 * input_parameters(shape.model)
    if not model.vocab:
        return RankParameters(own)
    rows = Matrix("embedding", model.vocab, model.embedding_width)
    return RankParameters(rows.parameters / shape.layout.tp + own, padding=_padding(shape, rows))


def output_layer_parameters(shape: Shape) -> RankParameters:
    """Parameters of the output layer and the norm before it."""
    model = shape.model
    norm = model.norm.weights(model.hidden) * model.norm.final
    if not model.head_width:
        return RankParameters(1.0 * norm)
    rows = Matrix("output layer", model.head_width, model.embedding_width)
    own = norm + head_transform_parameters(model) + final_modulation(model)
    return RankParameters(rows.parameters / shape.layout.tp + own, padding=_padding(shape, rows))


def projector_parameters(shape: Shape) -> RankParameters:
    """Parameters of what brings the tokens of an encoder into the model; 0 if nothing does."""
    encoder = shape.model.encoder
    if encoder is None or encoder.projector is None:
        return RankParameters(0.0)
    return RankParameters(1.0 * encoder.projector.parameters(encoder.hidden, shape.model.hidden))


def encoder_parameters(source: Shape) -> Number:
    """Parameters of a whole encoder of this shape."""
    layers = sum(kind.count * layer_parameters(source, kind).plain for kind in source.model.layer_kinds)
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
    if not matrices or not anywhere(by_rows):
        return 1.0
    ranks = layout.shard_degree
    sent: Number = 0.0
    whole: Number = 0.0
    for rows, columns in (on_a_rank(one, layout.tp) for one in matrices):
        sent, whole = sent + rounded_up(rows / ranks) * ranks * columns, whole + rows * columns
    return where(by_rows, sent / whole, 1.0)
