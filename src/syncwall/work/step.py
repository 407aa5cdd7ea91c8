"""A transformer's training step as `Work`.

Holds `transformer_step`: the layers of each class of pipeline ranks, embedding and output
layer, the exchange of weights and gradients, and the optimizer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syncwall.cause import Cause
from syncwall.describe import Layout, Model
from syncwall.describe.layout import Recompute, Shard
from syncwall.work.activations import Kept, dense_tensors, expert_tensors
from syncwall.work.block import Block, Phase, Pipeline, Stage, Stream, Work
from syncwall.work.ends import embedding_parts, finish_block
from syncwall.work.flops import ELEMENTWISE_SHARE, GEMM_SHARE, step_flops
from syncwall.work.kinds import Kinds
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.mtp import mtp_parameters
from syncwall.work.number import Number, anywhere, least, most, rounded_up, where
from syncwall.work.offload import moved_share, offloaded
from syncwall.work.operations import Collective, Transfer
from syncwall.work.parts import LayerPart, backward_block, forward_block
from syncwall.work.rank_parameters import (
    RankParameters,
    dense_layer_parameters,
    embedding_parameters,
    expert_layer_parameters,
    output_layer_parameters,
)
from syncwall.work.recompute import LAST, in_modules
from syncwall.work.sharing import behind, reduced, weights_of


def transformer_step(model: Model, layout: Layout, seq: Number) -> Work:
    """The work of one optimizer step; `layout` is resolved and may be arrays."""
    shape = Shape(model, layout, seq)
    layers = LayerCounts(model, layout)
    late = _late(shape, layers)
    embedding = _Kind.of(
        "embedding", embedding_parts(shape), embedding_parameters(shape), shape,
        late=-late * layers.last_dense, repeats=False,
    )  # fmt: skip
    kinds = Kinds.of(shape)
    head = _Kind.of(
        "output layer", kinds.output_layer, output_layer_parameters(shape), shape, repeats=False
    )
    body: list[tuple[_Kind, Number]] = [(embedding, 1.0)]
    last: list[tuple[_Kind, Number]] = [(embedding, 1.0 * (layout.pp == 1))]
    if kinds.dense:
        dense = _Kind.of(
            "dense layer", kinds.dense, dense_layer_parameters(shape), shape, late=late
        )
        if layout.offload_layers:
            dense = dense.offloaded(Kept.of(dense_tensors(shape), shape), shape, layers)
        body.append((dense, layers.body_dense))
        last.append((dense, layers.last_dense))
    if kinds.sparse:
        held, dropless = expert_layer_parameters(shape), 1.0 * layout.dropless
        sparse = _Kind.of("expert layer", kinds.sparse, held, shape, host_waits=dropless)
        if layout.offload_layers:
            sparse = sparse.offloaded(Kept.of(expert_tensors(shape), shape), shape, layers)
        body.append((sparse, layers.body_sparse))
        last.append((sparse, layers.last_sparse))
    last.append((head, 1.0))
    if kinds.mtp:
        further = _Kind.of("prediction layer", kinds.mtp, mtp_parameters(shape), shape)
        last.append((further, 1.0 * model.mtp_layers))
    hidden = ACTIVATION_BYTES * shape.tokens / layout.tp * model.hidden  # tp ranks share it out
    return Work(
        stages=(
            _stage("body", body, shape, layers.body_ranks, 2.0 * layout.stages_per_rank),
            _stage("last", last, shape, 1.0, 2.0 * layout.stages_per_rank - 1.0),
        ),
        microbatches=layout.microbatches,
        transfer=Transfer(hidden * (layout.pp > 1), shape.groups["pp"]),
        gpus=layout.gpus,
        pipeline=Pipeline(
            layout.pp, layout.stages_per_rank, layout.schedule, layout.overlap_pp,
            layout.overlap_gradients,
        ),
        tensor_ranks=layout.tp,
        **step_flops(shape),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of layer (or end) as blocks; the number of rounds is set by the stage."""

    trained: RankParameters
    """Parameters with gradients."""
    forward: Block
    backward: Block
    last_backward: Block

    @classmethod
    def of(  # noqa: PLR0913 - what differs between kinds
        cls,
        name: str,
        parts: Sequence[LayerPart],
        held: RankParameters,
        shape: Shape,
        *,
        host_waits: Number = 0.0,
        late: Number = 0.0,
        repeats: bool = True,
    ) -> "_Kind":
        """`late` of its gradients wait for those of the next block, in the bucket of both.

        What `repeats` may be recomputed: layers, not the ends.
        """
        layout = shape.layout
        each_time = layout.pp == 1  # in a pipeline, FSDP keeps weights until the step ends
        weights = weights_of(held, shape, each_time=each_time)
        forward = behind(forward_block(name, parts, 1, host_waits), weights)
        repeating = recomputed(parts, layout, shape.recomputed_layers) if repeats else parts
        again = backward_block(
            name, repeating, 1, host_waits, frozen=layout.frozen_weights, async_tp=layout.async_tp
        )
        backward = behind(again, weights)
        trained = RankParameters(0.0) if layout.frozen_weights else held
        leaving = (
            RankParameters(0.0) if layout.frozen_weights else replace(held, plain=held.plain - late)
        )
        return cls(
            trained,
            forward,
            reduced(backward, trained, shape, last=False),
            reduced(backward, leaving, shape, last=True),
        )

    def offloaded(self, kept: Kept, shape: Shape, layers: "LayerCounts") -> "_Kind":
        """The same with copies of what it keeps to the host and back, in a share of the layers."""
        body, last = layers.body_dense + layers.body_sparse, layers.last_dense + layers.last_sparse
        fullest = where(shape.layout.pp > 1, body, last)
        moved = kept.until_backward * moved_share(shape, fullest)
        return replace(
            self,
            forward=offloaded(self.forward, moved, Phase.FORWARD),
            backward=offloaded(self.backward, moved, Phase.BACKWARD),
            last_backward=offloaded(self.last_backward, moved, Phase.BACKWARD),
        )


def _stage(
    name: str,
    kinds: Sequence[tuple[_Kind, Number]],
    shape: Shape,
    ranks: Number,
    crossings: Number,
) -> Stage:
    """A class of `ranks` equal ranks; the last has no neighbour behind it (`crossings`)."""
    plain = sum(kind.trained.plain * rounds for kind, rounds in kinds)
    experts = sum(kind.trained.experts * rounds for kind, rounds in kinds)
    return Stage(
        name,
        tuple(kind.forward.times(rounds) for kind, rounds in kinds),
        tuple(kind.backward.times(rounds) for kind, rounds in reversed(kinds)),
        tuple(kind.last_backward.times(rounds) for kind, rounds in reversed(kinds)),
        (finish_block(shape, RankParameters(plain, experts)),),
        ranks,
        plain + experts,
        crossings,
    )


def _late(shape: Shape, layers: "LayerCounts") -> Number:
    """Gradients of each dense layer that DDP sends only with those of the embedding.

    A bucket leaves when it is full: the last one, of at most `bucket_bytes`, holds the embedding
    and the layers before it. Layers as large as a bucket have none.
    """
    layout, model = shape.layout, shape.model
    if model.mlp is None or model.moe is not None:
        return 0.0
    bucket = layout.bucket_bytes / layout.gradient_dtype.size_bytes
    each = dense_layer_parameters(shape).plain
    room = most(bucket - embedding_parameters(shape).plain, 0.0) * (each < bucket)
    count = layers.last_dense + (layers.last_dense == 0)
    ddp = (layout.shard == Shard.DDP) & (layout.pp == 1)
    return least(room / count, each) * ddp


def recomputed(parts: Sequence[LayerPart], layout: Layout, layers: Number) -> list[LayerPart]:
    """The parts with the share of each that the backward pass repeats, in a share of layers."""
    whole = layers * (layout.recompute == Recompute.FULL)
    single = layers * (layout.recompute == Recompute.OPERATIONS)
    some = layers * (layout.recompute == Recompute.SELECTIVE)
    shares = {
        Cause.ELEMENTWISE: whole + ELEMENTWISE_SHARE * single,
        Cause.GEMM: whole + GEMM_SHARE * single,
    }
    gathers = whole + single  # torchtitan keeps what was scattered, not what was gathered

    def share(part: LayerPart) -> Number:
        gathered = isinstance(part.forward, Collective) and part.forward.kind == "all-gather"
        gathered = gathered and part.stream is not Stream.CONTEXT  # attention is kept, so its keys
        by_policy = gathers if gathered else shares.get(part.cause, whole)
        if part.name in LAST:
            by_policy = by_policy - whole * layout.recompute_stops_early
        return by_policy + some if in_modules(part, layout.recompute_modules) else by_policy

    if not anywhere(layout.recompute != Recompute.NONE):
        return list(parts)
    return [replace(part, recomputed=share(part)) for part in parts]


class LayerCounts:
    """Layers of each kind in each class of pipeline ranks.

    The last rank has the output layer and what predicts further tokens too, so a remainder goes to
    the ranks before it. `body_*` is the fullest of these; `body_ranks` is how many such ranks hold
    all layers but those of the last. Leading dense layers stand in the first rank, which is then
    not the fullest.
    """

    def __init__(self, model: Model, layout: Layout) -> None:
        last = self._last(model, layout)
        fullest = self._fullest(model, layout, last)
        after_dense = max(model.layers - (model.moe.dense_first if model.moe else 0), 1)
        share = model.moe_layers / after_dense
        self.last_sparse = where(layout.pp > 1, last * share, model.moe_layers)
        self.last_dense = last - self.last_sparse
        self.body_sparse = fullest * share
        self.body_dense = fullest - self.body_sparse
        self.body_ranks = (model.layers - last) / where(fullest > 0, fullest, 1.0)

    @staticmethod
    def _fullest(model: Model, layout: Layout, last: Number) -> Number:
        """Layers of the fullest rank before the last."""
        first = layout.first_stage_layers
        if first is None:
            even = (model.layers - last) / most(layout.pp - 1, 1)
            return where(layout.balanced_stages, even, rounded_up(even))
        even = (model.layers - last - first) / most(layout.pp - 2, 1)
        return most(where(layout.balanced_stages, even, rounded_up(even)), first)

    @staticmethod
    def _last(model: Model, layout: Layout) -> Number:
        """Layers of the last rank: all if it is the only one, else what is stated, or a whole
        share, or less by what its ends cost.
        """
        if layout.last_stage_layers is not None:
            return where(layout.pp > 1, layout.last_stage_layers, model.layers)
        share: Number = model.layers // layout.pp
        if layout.first_stage_layers is not None:
            left = model.layers - layout.first_stage_layers
            share = where(layout.pp > 1, left // most(layout.pp - 1, 1), share)
        ends = _ends_as_layers(model)
        equal = most((model.layers + ends) / layout.pp - ends, 0.0)
        return where(layout.balanced_stages & (layout.pp > 1), equal, share)


def _ends_as_layers(model: Model) -> float:
    """Layers that cost as much as what the last rank does behind its own.

    The output layer, and for every token predicted further a layer, a projection of two hidden
    states into one (DeepSeek-V3 report, section 2.2) and the output layer again; by parameters at
    work.
    """
    head = model.vocab * model.hidden
    each = (model.active_parameters - head * (2 - model.tied_embeddings)) / model.layers
    further = each + 2 * model.hidden**2 + head
    return (head + model.mtp_layers * further) / each
