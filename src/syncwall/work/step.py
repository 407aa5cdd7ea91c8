"""A transformer's training step as `Work`.

Holds `transformer_step`: the layers of each class of pipeline ranks, embedding and head, the
exchange of weights and gradients, and the optimizer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from syncwall.cause import Cause
from syncwall.describe import Layout, Model
from syncwall.describe.layout import Recompute, Shard
from syncwall.work.block import Block, Pipeline, Stage, Work
from syncwall.work.ends import embedding_parts, finish_block, head_parts
from syncwall.work.experts import expert_parts
from syncwall.work.flops import ELEMENTWISE_SHARE, GEMM_SHARE, step_flops
from syncwall.work.further import prediction_held, prediction_parts
from syncwall.work.held import Held, dense_held, embedding_held, expert_held, head_held
from syncwall.work.layer import ACTIVATION_BYTES, Shape, attention_parts, mlp_parts
from syncwall.work.number import Number, least, most, where
from syncwall.work.operations import Collective, Transfer
from syncwall.work.parts import Part, backward_block, forward_block
from syncwall.work.sharing import gathered, reduced


def transformer_step(model: Model, layout: Layout, seq: Number) -> Work:
    """The work of one optimizer step; `layout` is resolved and may be arrays."""
    shape = Shape(model, layout, seq)
    layers = LayerCounts(model, layout)
    late = _late(shape, layers)
    embedding = _Kind.of(
        "embedding", embedding_parts(shape), embedding_held(shape), shape,
        late=-late * layers.last_dense,
    )  # fmt: skip
    head = _Kind.of("head", head_parts(shape), head_held(shape), shape)
    attention = attention_parts(shape)
    body: list[tuple[_Kind, Number]] = [(embedding, 1.0)]
    last: list[tuple[_Kind, Number]] = [(embedding, 1.0 * (layout.pp == 1))]
    if model.mlp is not None and model.dense_layers:
        parts = attention + mlp_parts(shape)
        dense = _Kind.of("dense layer", parts, dense_held(shape), shape, late=late)
        body.append((dense, layers.body_dense))
        last.append((dense, layers.last_dense))
    if model.moe is not None:
        parts = attention + expert_parts(shape)
        held, dropless = expert_held(shape), 1.0 * layout.dropless
        sparse = _Kind.of("expert layer", parts, held, shape, host_waits=dropless)
        body.append((sparse, layers.body_sparse))
        last.append((sparse, layers.last_sparse))
    last.append((head, 1.0))
    if model.mtp_layers:
        parts = prediction_parts(shape)
        further = _Kind.of("prediction layer", parts, prediction_held(shape), shape)
        last.append((further, 1.0 * model.mtp_layers))
    hidden = ACTIVATION_BYTES * shape.tokens / layout.tp * model.hidden  # tp ranks share it out
    return Work(
        stages=(
            _stage("body", body, shape, layers.body_ranks),
            _stage("last", last, shape, 1.0),
        ),
        microbatches=layout.microbatches,
        transfer=Transfer(hidden * (layout.pp > 1), shape.groups["pp"]),
        gpus=layout.gpus,
        pipeline=Pipeline(
            layout.pp, layout.virtual_stages, layout.schedule, layout.overlap_pp,
            layout.overlap_gradients,
        ),
        tensor_ranks=layout.tp,
        **step_flops(shape),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of layer (or end) as blocks; the number of rounds is set by the stage."""

    trained: Held
    """Parameters with gradients."""
    forward: Block
    backward: Block
    last_backward: Block

    @classmethod
    def of(
        cls,
        name: str,
        parts: Sequence[Part],
        held: Held,
        shape: Shape,
        *,
        host_waits: Number = 0.0,
        late: Number = 0.0,
    ) -> "_Kind":
        """`late` of its gradients wait for those of the next block, in the bucket of both."""
        layout = shape.layout
        each_time = layout.pp == 1  # in a pipeline, FSDP keeps weights until the step ends
        forward = gathered(forward_block(name, parts, 1), held, shape, each_time=each_time)
        repeating = recomputed(parts, layout, shape.recomputed_layers)
        again = backward_block(name, repeating, 1, frozen=layout.frozen, async_tp=layout.async_tp)
        backward = gathered(again, held, shape, each_time=each_time)
        trained = Held(0.0) if layout.frozen else held
        leaving = Held(0.0) if layout.frozen else replace(held, plain=held.plain - late)
        return cls(
            trained,
            replace(forward, host_waits=host_waits),
            reduced(replace(backward, host_waits=host_waits), trained, shape, last=False),
            reduced(replace(backward, host_waits=host_waits), leaving, shape, last=True),
        )


def _stage(name: str, kinds: Sequence[tuple[_Kind, Number]], shape: Shape, ranks: Number) -> Stage:
    plain = sum(kind.trained.plain * rounds for kind, rounds in kinds)
    experts = sum(kind.trained.experts * rounds for kind, rounds in kinds)
    return Stage(
        name,
        tuple(replace(kind.forward, rounds=rounds) for kind, rounds in kinds),
        tuple(replace(kind.backward, rounds=rounds) for kind, rounds in reversed(kinds)),
        tuple(replace(kind.last_backward, rounds=rounds) for kind, rounds in reversed(kinds)),
        (finish_block(shape, Held(plain, experts)),),
        ranks,
        plain + experts,
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
    each = dense_held(shape).plain
    room = most(bucket - embedding_held(shape).plain, 0.0) * (each < bucket)
    count = layers.last_dense + (layers.last_dense == 0)
    ddp = (layout.shard == Shard.DDP) & (layout.pp == 1)
    return least(room / count, each) * ddp


def recomputed(parts: Sequence[Part], layout: Layout, layers: Number) -> list[Part]:
    """The parts with the share of each that the backward pass repeats, in a share of layers."""
    whole = layers * (layout.recompute == Recompute.FULL)
    single = layers * (layout.recompute == Recompute.OPERATIONS)
    core = whole + layers * (layout.recompute == Recompute.SELECTIVE)
    shares = {
        Cause.ATTENTION: core,
        Cause.ELEMENTWISE: whole + ELEMENTWISE_SHARE * single,
        Cause.GEMM: whole + GEMM_SHARE * single,
    }
    gathers = whole + single  # torchtitan keeps what was scattered, not what was gathered

    def share(part: Part) -> Number:
        gathered = isinstance(part.forward, Collective) and part.forward.kind == "all-gather"
        return gathers if gathered else shares.get(part.cause, whole)

    return [replace(part, recomputed=share(part)) for part in parts]


class LayerCounts:
    """Layers of each kind in each class of pipeline ranks.

    The last rank has the head too, so a remainder goes to the ranks before it. `body_*` is the
    fullest of these; `body_ranks` is how many such ranks hold all layers but those of the last.
    Leading dense layers stand in the first rank, which is then not the fullest.
    """

    def __init__(self, model: Model, layout: Layout) -> None:
        last = self._last(model, layout)
        even = (model.layers - last) / most(layout.pp - 1, 1)  # of each rank before the last
        fullest = where(layout.balanced_stages, even, np.ceil(even))
        after_dense = max(model.layers - (model.moe.dense_first if model.moe else 0), 1)
        share = model.moe_layers / after_dense
        self.last_sparse = where(layout.pp > 1, last * share, model.moe_layers)
        self.last_dense = last - self.last_sparse
        self.body_sparse = fullest * share
        self.body_dense = fullest - self.body_sparse
        self.body_ranks = (model.layers - last) / where(fullest > 0, fullest, 1.0)

    @staticmethod
    def _last(model: Model, layout: Layout) -> Number:
        """Layers of the last rank: all if it is the only one, else a whole share, or less by what
        its head costs.
        """
        share = model.layers // layout.pp
        head = model.vocab * model.hidden
        each = (model.active_parameters - head * (2 - model.tied_embeddings)) / model.layers
        ends = head / each
        equal = most((model.layers + ends) / layout.pp - ends, 0.0)
        return where(layout.balanced_stages & (layout.pp > 1), equal, share)
