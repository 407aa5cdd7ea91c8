"""A transformer's training step as `Work`, whole or its forward part alone.

Nothing is kept for a backward pass, no gradient is reduced, nothing is updated; sharded weights are
still gathered and stages still wait for each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncwall.cause import Cause
from syncwall.describe import Layout, Model
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.layout import Recompute, Schedule, Shard
from syncwall.work.activations import SavedBytes, layer_tensors
from syncwall.work.block import Pipeline, Stage, Stream, Work
from syncwall.work.embedding_and_head import finish_block
from syncwall.work.encoder import encoder_shape, projector_parts
from syncwall.work.flops import ELEMENTWISE_SHARE, GEMM_SHARE, step_flops
from syncwall.work.fsdp_units import FsdpUnit, LayerCopies, UnitLayer, units
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.layout_switches import (
    LAST,
    STILL,
    TRAINED,
    Backward,
    Frozen,
    WideCounts,
    in_bf16,
    in_modules,
    passed_shape,
    rank_adapter_parameters,
    with_adapters,
)
from syncwall.work.mtp import mtp_parameters
from syncwall.work.number import Number, anywhere, least, most, where
from syncwall.work.offload import moved_share
from syncwall.work.operations import Collective, Transfer
from syncwall.work.parts import LayerPart, backward_block, forward_block
from syncwall.work.pipeline_ranks import LayerCounts
from syncwall.work.rank_layers import Kinds
from syncwall.work.rank_parameters import (
    RankParameters,
    embedding_parameters,
    layer_parameters,
    output_layer_parameters,
    projector_parameters,
)


def transformer_step(model: Model, layout: Layout, seq: Number) -> Work:
    """The work of one optimizer step; `layout` is resolved and may be arrays."""
    shape = Shape(model, layout, seq)
    layers = LayerCounts(model, layout)
    found = list(units(shape, list(_placed(shape, layers))))
    body = [(unit, rounds) for unit, rounds, _ in found if rounds is not None]
    last = [*_encoder(shape), *((unit, rounds) for unit, _, rounds in found)]
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
            layout.pp,
            layout.stages_per_rank,
            layout.schedule,
            layout.overlap_pp,
            layout.overlap_gradients,
        ),
        tensor_ranks=layout.tp,
        **step_flops(shape),
    )


def _placed(shape: Shape, layers: LayerCounts) -> Iterator[LayerCopies]:
    """Embedding, layers of each kind, output layer and prediction layers, and where they are."""
    model, layout, kinds = shape.model, shape.layout, Kinds.of(shape)
    if model.stack is not None:
        for kind, parts in kinds.layers:
            layer = _of_kind(kind, parts, shape, layers, 0.0)
            yield LayerCopies(layer, None, 1.0 * kind.count, kind.count)
        return
    frozen = Frozen.of(shape)
    late = _late(shape, layers) if frozen.whole_decoder else 0.0
    embedding = _layer(
        "embedding",
        kinds.embedding,
        embedding_parameters(shape),
        shape,
        late=-late * layers.last.dense,
        repeats=False,
        backward=frozen.embedding,
    )
    yield LayerCopies(embedding, 1.0, 1.0 * (layout.pp == 1), 1)
    wide = in_bf16(shape)
    wide_kinds = dict(Kinds.of(wide).layers) if wide is not None else {}
    for kind, parts in kinds.layers:
        own_late = 0.0 if kind.has_experts else late
        body, last = layers.body.of(kind), layers.last.of(kind)
        if wide is None:
            for count, back in frozen.of_kind(model, kind):
                layer = _of_kind(kind, parts, shape, layers, own_late, back)
                share = count / max(kind.count, 1)
                yield LayerCopies(layer, body * share, last * share, count)
            continue
        counts = WideCounts.of(model, layout, kind)
        in_body, in_last = counts.within(layout, body, last)
        count = counts.first + counts.last
        if count < kind.count:
            layer = _of_kind(kind, parts, shape, layers, own_late)
            yield LayerCopies(layer, body - in_body, last - in_last, kind.count - count)
        if count:
            layer = _of_kind(kind, wide_kinds[kind], wide, layers, own_late)
            yield LayerCopies(layer, in_body, in_last, count)
    head = _layer(
        "output layer",
        kinds.output_layer,
        output_layer_parameters(shape),
        shape,
        repeats=False,
        backward=frozen.output_layer,
    )
    yield LayerCopies(head, None, 1.0, 1)
    if kinds.mtp:
        held, back = mtp_parameters(shape), frozen.layers
        further = _layer("prediction layer", kinds.mtp, held, shape, backward=back)
        yield LayerCopies(further, None, 1.0 * model.mtp_layers, model.mtp_layers)


def _of_kind(
    kind: LayerKind,
    parts: Sequence[LayerPart],
    shape: Shape,
    layers: LayerCounts,
    late: Number,
    backward: Backward = TRAINED,
) -> UnitLayer:
    """A layer of `kind`."""
    waits = 1.0 * shape.layout.dropless if kind.has_experts else 0.0
    held = layer_parameters(shape, kind)
    every = with_adapters(parts, shape, kind)
    layer = _layer(kind.words, every, held, shape, host_waits=waits, late=late, backward=backward)
    if shape.layout.lora is not None:
        layer = replace(layer, trained=rank_adapter_parameters(shape, kind))
    if not shape.layout.offload_layers or not backward.passes:
        return layer
    own = shape if backward.trains else passed_shape(shape)
    kept = SavedBytes.of(layer_tensors(own, kind), own)
    fullest = where(shape.layout.pp > 1, layers.body.total, layers.last.total)
    moved = kept.until_backward * moved_share(shape, fullest)
    return replace(layer, offloaded_bytes=moved)


def _encoder(shape: Shape) -> Iterator[tuple[FsdpUnit, Number]]:
    """Units of what stands in front of the model, if anything does, and of what joins both."""
    source, encoder = encoder_shape(shape), shape.model.encoder
    if source is None or encoder is None:
        return
    frozen = Frozen.of(shape)

    def unit(
        name: str, parts: Sequence[LayerPart], held: RankParameters, back: Backward, repeats: bool
    ) -> FsdpUnit:
        name = f"encoder {name}"
        return FsdpUnit.of(shape, [_layer(name, parts, held, source, repeats=repeats, backward=back)])

    kinds, back = Kinds.of(source), frozen.encoder
    yield unit("embedding", kinds.embedding, embedding_parameters(source), back, False), 1.0
    for kind, parts in kinds.layers:
        held, idle = layer_parameters(source, kind), min(encoder.idle_layers, kind.count)
        yield unit(kind.words, parts, held, back, True), 1.0 * (kind.count - idle)
        if idle:
            yield unit(kind.words, parts, held, STILL, True), 1.0 * idle
    back = STILL if encoder.idle_layers else back
    yield unit("norm", kinds.output_layer, output_layer_parameters(source), back, False), 1.0
    parts, held, back = projector_parts(shape), projector_parameters(shape), frozen.projector
    if parts:
        layer = _layer("projector", parts, held, shape, repeats=False, backward=back)
        yield FsdpUnit.of(shape, [layer]), 1.0


def _layer(  # noqa: PLR0913 - what differs between kinds
    name: str,
    parts: Sequence[LayerPart],
    held: RankParameters,
    shape: Shape,
    *,
    host_waits: Number = 0.0,
    late: Number = 0.0,
    repeats: bool = True,
    backward: Backward = TRAINED,
) -> UnitLayer:
    """What `repeats` may be recomputed: layers, not the ends."""
    layout = shape.layout
    trains = backward.trains and not layout.frozen_weights
    forward = forward_block(name, parts, 1, host_waits)
    repeating = recomputed(parts, layout, shape.recomputed_layers) if repeats else parts
    back = backward_block(name, repeating, 1, host_waits, frozen=not trains, async_tp=layout.async_tp)
    trained = held if trains else RankParameters(0.0)
    return UnitLayer(forward, back, held, trained, late * trains, is_still=not backward.passes)


def _stage(
    name: str,
    kinds: Sequence[tuple[FsdpUnit, Number]],
    shape: Shape,
    ranks: Number,
    crossings: Number,
) -> Stage:
    """A class of `ranks` equal ranks; the last has no neighbour behind it (`crossings`)."""
    plain = sum(kind.trained.plain * rounds for kind, rounds in kinds)
    experts = sum(kind.trained.experts * rounds for kind, rounds in kinds)
    back = [(kind, rounds) for kind, rounds in reversed(kinds) if not kind.is_still]
    return Stage(
        name,
        tuple(kind.forward.times(rounds) for kind, rounds in kinds),
        tuple(kind.backward.times(rounds) for kind, rounds in back),
        tuple(kind.last_backward.times(rounds) for kind, rounds in back),
        (finish_block(shape, RankParameters(plain, experts)),),
        ranks,
        plain + experts,
        crossings,
    )


def _late(shape: Shape, layers: LayerCounts) -> Number:
    """Gradients of each dense layer that DDP sends only with those of the embedding.

    A bucket leaves when it is full: the last one, of at most `bucket_bytes`, holds the embedding
    and the layers before it. Layers as large as a bucket have none.
    """
    layout, model = shape.layout, shape.model
    if model.moe is not None or model.stack is not None:
        return 0.0
    bucket = layout.bucket_bytes / layout.gradient_dtype.size_bytes
    each = sum(kind.share * layer_parameters(shape, kind).plain for kind in model.layer_kinds)
    room = most(bucket - embedding_parameters(shape).plain, 0.0) * (each < bucket)
    count = layers.last.dense + (layers.last.dense == 0)
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


FORWARD_SHARE = 1.0 / 3.0
"""FLOP of a forward pass over those of both: each product has two gradients."""


def forward_only(work: Work) -> Work:
    """`work` without its backward passes and without its end."""
    return replace(
        work,
        stages=tuple(
            replace(
                stage,
                backward=(),
                last_backward=(),
                finish=(),
                parameters=0.0,
                crossings=0.5 * stage.crossings,
            )
            for stage in work.stages
        ),
        model_flops=work.model_flops * FORWARD_SHARE,
        recompute_flops=0.0 * work.recompute_flops,
        pipeline=replace(work.pipeline, schedule=Schedule.ONE_F_ONE_B),
    )
