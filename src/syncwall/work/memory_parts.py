"""Bytes of weights, gradients and optimizer states, of adapters, encoders and frozen parts.

Formats are those that the layout names, or that its framework usually has.

Sources: ZeRO (Rajbhandari 2020); Dettmers 2022 for 8-bit moments; Shazeer 2018 for Adafactor.
"""

from dataclasses import dataclass

from syncwall.describe import Layout
from syncwall.describe.layout import Shard
from syncwall.describe.switches import MasterWeights, Optimizer
from syncwall.work.activations import SavedBytes, layer_tensors
from syncwall.work.encoder import encoder_shape
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.layout_switches import Frozen, autocasts, passed_shape, trains_own_weights
from syncwall.work.number import Number, Truth
from syncwall.work.pipeline_ranks import RankLayers
from syncwall.work.rank_parameters import (
    RankParameters,
    embedding_parameters,
    encoder_parameters,
    layer_parameters,
    projector_parameters,
)
from syncwall.work.sharing import reduced_at_once, weight_bytes

_MASTER_BYTES = {
    MasterWeights.NONE: 0.0,
    MasterWeights.COPY: 4.0,
    MasterWeights.REMAINDER: 2.0,
    MasterWeights.STORED: 0.0,
}
_MOMENTS = {Optimizer.ADAM: 2.0, Optimizer.MUON: 1.0, Optimizer.SGD: 1.0}
EIGHT_BIT_MOMENTS = 2 * (1.0 + 4.0 / 256)
"""Two moments in 8 bits and an fp32 scale for every 256 of each (Dettmers 2022, torchao)."""
ROWS_AND_COLUMNS = 0.0
"""Second moments of a matrix's rows and columns: next to nothing of it (Shazeer 2018)."""


def stored_bytes(layout: Layout) -> float:
    """Bytes of a weight where it is kept; with adapters, of a frozen matrix of a layer."""
    if layout.lora is not None and layout.lora.weight_bytes is not None:
        return layout.lora.weight_bytes
    if layout.frozen_weights or layout.narrow_weights:
        return layout.precision.size_bytes
    return trained_bytes(layout)


def frozen_bytes(layout: Layout) -> float:
    """Bytes of a weight that is not trained where others are: those it is computed with."""
    return min(stored_bytes(layout), weight_bytes(layout))


def trained_bytes(layout: Layout) -> float:
    """Bytes of a weight that is trained, or of one of an adapter, where it is kept."""
    return 4.0 if layout.master_weights == MasterWeights.STORED else weight_bytes(layout)


def master_bytes(layout: Layout) -> float:
    """Bytes of a weight beside those it is computed with; fp32 training needs none."""
    wide = weight_bytes(layout) == 4.0
    return 0.0 if wide else _MASTER_BYTES[MasterWeights(layout.master_weights)]


def moment_bytes(layout: Layout) -> float:
    """Bytes of the optimizer's moments."""
    if layout.optimizer == Optimizer.ADAM_8BIT:
        return EIGHT_BIT_MOMENTS
    if layout.optimizer == Optimizer.ADAFACTOR:
        return ROWS_AND_COLUMNS
    return _MOMENTS[Optimizer(layout.optimizer)] * layout.moment_dtype.size_bytes


def optimizer_bytes(layout: Layout) -> float:
    """Bytes of master weight and moments; weights without gradients have none."""
    return 0.0 if layout.frozen_weights else trained_state_bytes(layout)


def trained_state_bytes(layout: Layout) -> float:
    """Bytes of master weight and moments of a parameter that is trained."""
    return master_bytes(layout) + moment_bytes(layout)


def kept_gradient_bytes(layout: Layout) -> Number:
    """Bytes of the gradients that are kept until the optimizer runs.

    16-bit ones of their own are complete when a micro batch's activations are gone: they count in
    pipelines, where those of others are not.
    """
    if layout.frozen_weights:
        return 0.0
    own = weight_bytes(layout) * layout.separate_gradients * (layout.pp > 1)
    return layout.kept_gradient_dtype.size_bytes + own


def made_anew(layout: Layout) -> Truth:
    """True where gradients exist from their layer's backward pass to the update only.

    Buffers of Megatron, DeepSpeed and DDP stay, and so do sums of several micro batches. Peaks of
    luke396's models tell: their growth with the sequence is that of activations alone.
    """
    alone = layout.dp * layout.cp == 1
    sharded = (layout.shard >= Shard.ZERO2) | alone
    once = (layout.microbatches == 1) & (layout.pp == 1)
    anew: Truth = sharded & once & trains_own_weights(layout)
    return anew


def bucket_bytes(layout: Layout) -> Number:
    """Bytes of DDP's buckets for a gradient, which are beside the gradients by default.

    Source: PyTorch's `gradient_as_bucket_view` (pull request 41954), which is off.
    """
    several = (layout.shard < Shard.ZERO2) & (layout.dp * layout.cp > 1) & (not layout.frozen_weights)
    return layout.kept_gradient_dtype.size_bytes * several * trains_own_weights(layout)


def autocast_bytes(layout: Layout) -> Number:
    """Bytes of the 16-bit copy of an fp32 weight, which autocast keeps until its backward pass."""
    return weight_bytes(layout) * autocasts(layout)


def update_bytes(layout: Layout) -> float:
    """Memory traffic of the optimizer for a parameter.

    States are read and written, the weight is written, the gradient is read for its norm and again;
    34 bytes for Adam with fp32 gradients and a copy of the weight.
    """
    wide = weight_bytes(layout) == 4.0
    stored = 4.0 if wide or layout.master_weights == MasterWeights.STORED else 0.0
    narrow = 0.0 if wide else weight_bytes(layout)
    gradient = layout.kept_gradient_dtype.size_bytes
    return 2.0 * (trained_state_bytes(layout) + stored + gradient) + narrow


@dataclass(frozen=True, slots=True)
class Added:
    """Bytes more for each parameter of the model, which are sharded as those are."""

    weights: Number = 0.0
    gradients: Number = 0.0
    optimizer: Number = 0.0
    dequantised: Number = 0.0
    """Bytes of the largest matrix of a layer in 16 bits while it is multiplied by."""

    @classmethod
    def of(cls, shape: Shape, adapters: Number, ends: Number) -> "Added":
        """With so many parameters of `adapters`, and of `ends`, for each parameter of the model.

        Embedding and output layer are not quantised.
        """
        layout, lora = shape.layout, shape.layout.lora
        if lora is None:
            return cls()
        quantised = lora.weight_bytes is not None
        wide = (weight_bytes(layout) - stored_bytes(layout)) * quantised
        narrow = stored_bytes(layout) < ACTIVATION_BYTES and quantised
        mlp, moe = shape.model.mlp, shape.model.moe
        width = max(mlp.hidden if mlp else 0, moe.hidden if moe else 0)
        return cls(
            weights=trained_bytes(layout) * adapters + wide * ends,
            gradients=layout.kept_gradient_dtype.size_bytes * adapters,
            optimizer=trained_state_bytes(layout) * adapters,
            dequantised=narrow * ACTIVATION_BYTES * shape.model.hidden * width / layout.tp,
        )


def encoder_memory(shape: Shape) -> dict[str, Number]:
    """Bytes by field of `Memory`; of a frozen one weights and output only."""
    source, encoder, layout = encoder_shape(shape), shape.model.encoder, shape.layout
    if source is None or encoder is None:
        return {}
    back = Frozen.of(shape)
    front, between = encoder_parameters(source), projector_parameters(shape).plain
    idle = encoder.idle_layers * sum(
        kind.count / encoder.layers * layer_parameters(source, kind).plain for kind in encoder.layer_kinds
    )
    trained = (front - idle) * back.encoder.trains + between * back.projector.trains
    frozen = front + between - trained
    output = ACTIVATION_BYTES * source.tokens * encoder.hidden
    if back.encoder.passes:
        for kind in encoder.layer_kinds:
            kept = SavedBytes.of(layer_tensors(source, kind), source)
            moving = kind.count * (1.0 - encoder.idle_layers / encoder.layers)
            output = output + moving * kept.until_backward

    def own(parameters: Number, condition: Number) -> Number:
        assert layout.shard_degree is not None, "the layout is resolved"
        return parameters / (1 + condition * (layout.shard_degree - 1))

    weights = stored_bytes(layout) * own(trained, layout.shard >= Shard.FSDP)
    weights = weights + frozen_bytes(layout) * own(frozen, layout.shard >= Shard.FSDP)
    gradients = kept_gradient_bytes(layout) * own(trained, reduced_at_once(layout))
    states = own(trained, layout.shard >= Shard.ZERO1) * (1 - layout.offload_optimizer)
    return {
        "weights": weights * (1 - layout.offload_weights),
        "gradients": gradients * (1 - layout.offload_gradients),
        "optimizer": optimizer_bytes(layout) * states,
        "activations": output,
    }


def frozen_parameters(shape: Shape, held: RankParameters, layers: RankLayers) -> RankParameters:
    """Of what a rank holds, `layers` among it, parameters without gradients.

    Layers at the start stand with the embedding in the one rank that there is.
    """
    frozen = Frozen.of(shape)
    if frozen.whole_decoder:
        return RankParameters(0.0)
    if not frozen.first_layers:
        return held
    plain, experts = embedding_parameters(shape).plain, 0.0 * held.experts
    for kind in shape.model.layer_kinds:
        share = frozen.leading(shape.model, kind) / max(kind.count, 1)
        count, own = share * layers.of(kind), layer_parameters(shape, kind)
        plain, experts = plain + count * own.plain, experts + count * own.experts
    return RankParameters(plain, experts)


def spared_activations(shape: Shape, layers: RankLayers) -> Number:
    """Bytes that `layers` do not keep: below the first trained part all that a layer keeps, above
    it what only weight gradients need.
    """
    frozen = Frozen.of(shape)
    spared: Number = 0.0
    if frozen.whole_decoder:
        return spared
    passed = passed_shape(shape)
    for kind in shape.model.layer_kinds:
        whole = SavedBytes.of(layer_tensors(shape, kind), shape).until_backward
        less = SavedBytes.of(layer_tensors(passed, kind), passed).until_backward
        alike = layers.of(kind) / max(kind.count, 1)
        for count, back in frozen.of_kind(shape.model, kind):
            kept = whole if back.trains else less if back.passes else 0.0
            spared = spared + count * alike * (whole - kept)
    return spared
