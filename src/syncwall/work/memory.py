"""Bytes that the fullest rank keeps, by cause.

Holds `Memory`, `step_memory`, `in_flight` and `fits`. The first pipeline rank keeps the most micro
batches in flight, the last one has the logits; the fuller of the two counts. `states.py` has the
bytes of a parameter, `activations.py` those of a layer.

Sources: ZeRO (Rajbhandari 2020) for what is shared out; Narayanan 2021, Qi 2024 and DeepSeek-V3
(section 3.2.1) for micro batches in flight.
"""

from dataclasses import dataclass, fields, replace

from syncwall.describe import Device, Layout, Model
from syncwall.describe.layout import Schedule, Shard
from syncwall.describe.parameters import head_transform_parameters
from syncwall.work.activations import Layers
from syncwall.work.adapter_memory import Added, adapters_of
from syncwall.work.encoder_memory import encoder_memory
from syncwall.work.frozen_memory import frozen_parameters, spared_activations
from syncwall.work.layer import Shape
from syncwall.work.mtp import mtp_parameters
from syncwall.work.number import Number, Truth, least, most, rounded_up, where
from syncwall.work.rank_parameters import (
    RankParameters,
    dense_layer_parameters,
    embedding_parameters,
    expert_layer_parameters,
    largest_layer,
    largest_weight,
    output_layer_parameters,
)
from syncwall.work.sharing import (
    gathered_bytes,
    kept_after_forward,
    reduced_at_once,
    weight_bytes,
)
from syncwall.work.states import (
    frozen_bytes,
    kept_gradient_bytes,
    optimizer_bytes,
    stored_bytes,
)
from syncwall.work.step import LayerCounts
from syncwall.work.wide_layers import in_bf16

LOGITS_BYTES, FUSED_LOGITS_BYTES = 12.0, 6.0
"""One logit: 16 bits and its fp32 copy for the loss, and the gradients of both; fused, the gradient
takes the place of the copy."""
CONTEXT_BYTES = 1e9
"""CUDA context, libraries and their workspaces, outside of PyTorch's allocator; assumed, 0.5 to 1.3
GB are usual."""
COMMUNICATOR_BYTES = 0.3e9
"""Buffers of NCCL for one group of ranks: some 24 channels with 10 MB each and their copies;
assumed."""

HEADROOM = 0.05
"""Share of a device's memory that a prediction must leave free; the allocator loses some to
fragments. All 7 calibration runs of the ultra-scale playbook without a pipeline that are predicted
to leave less took 1.9 to 5.7 times as long as predicted; the next smaller one leaves 13%."""


def usable_bytes(device: Device) -> float:
    """Bytes of a device that a run may fill."""
    return float(device.memory.size_bytes) * (1.0 - HEADROOM)


def fits(memory_bytes: Number, device: Device) -> Truth:
    """True where so many bytes on the fullest GPU fit: the one rule of predictions and plans."""
    return memory_bytes <= usable_bytes(device)


_WORDS = {"cuda_and_nccl": "CUDA and NCCL"}


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the fullest rank."""

    weights: Number
    gradients: Number
    optimizer: Number
    activations: Number
    logits: Number
    unsharded_weights: Number
    """Weights that FSDP has all-gathered: a unit and those ahead, in a pipeline a whole stage;
    and the matrix that is dequantised, of frozen ones."""
    unreduced_gradients: Number
    """Gradients of one weight (with FSDP, of one layer) before they are added up or reduced."""
    cuda_and_nccl: Number
    """Outside PyTorch's allocator: the CUDA context and the buffers of NCCL's communicators."""

    @property
    def total(self) -> Number:
        """All of it."""
        whole: Number = sum(getattr(self, part.name) for part in fields(self))
        return whole

    def as_floats(self) -> "Memory":
        """The same with plain numbers (one layout)."""
        return Memory(**{part.name: float(getattr(self, part.name)) for part in fields(self)})

    def by_cause(self) -> dict[str, float]:
        """Bytes by cause, in words (one layout)."""
        return {
            _WORDS.get(part.name, part.name.replace("_", " ")): float(getattr(self, part.name))
            for part in fields(self)
        }


def step_memory(model: Model, layout: Layout, seq: Number) -> Memory:
    """Memory of a step; `layout` is resolved and may be arrays."""
    shape = Shape(model, layout, seq)
    counts = LayerCounts(model, layout)
    layers = Layers.of(shape)
    first = _memory(shape, _first(shape, counts), layers)
    last = _memory(shape, _last(shape, counts), layers)
    fuller = first.total >= last.total
    whole = Memory(
        **{
            part.name: where(fuller, getattr(first, part.name), getattr(last, part.name))
            for part in fields(Memory)
        }
    )
    front = encoder_memory(shape)
    return replace(whole, **{name: getattr(whole, name) + more for name, more in front.items()})


@dataclass(frozen=True, slots=True)
class _Rank:
    """What one pipeline rank holds."""

    dense: Number
    """Layers of each kind whose activations it keeps."""
    sparse: Number
    held: RankParameters
    ends: Number
    """Of these, parameters of embedding and output layer."""
    adapters: Number
    micro: Number
    """Micro batches in flight."""
    heads: Number
    """Times that it computes logits for a micro batch."""
    is_first: bool
    """True for the first pipeline rank."""


def _first(shape: Shape, counts: LayerCounts) -> _Rank:
    """The first pipeline rank, which has the embedding and the most micro batches in flight.

    With DualPipe it is the last one too: it holds the layers of both, and half of the micro batches
    in flight are those of each.
    """
    model, layout = shape.model, shape.layout
    alone = layout.pp == 1
    both_ends = _both_ends(layout)
    body = counts.body_dense + counts.body_sparse
    rounded = rounded_up(body - 1e-6) / most(body, 1e-9)  # a rank has whole layers
    whole = where(both_ends > 0, 1.0, rounded)  # of two stages, one has fewer
    dense = where(alone, counts.last_dense, counts.body_dense * whole)
    sparse = where(alone, counts.last_sparse, counts.body_sparse * whole)
    lead = where(alone, 0, model.moe.dense_first if model.moe else 0)
    leading = least(lead, dense + sparse)
    every = sparse / most(dense + sparse, 1e-9)  # what the leading dense layers replace
    dense, sparse = dense + leading * every, sparse - leading * every
    has_head = 1.0 * alone + both_ends
    tied = head_transform_parameters(model)
    output = tied if model.tied_embeddings else output_layer_parameters(shape).plain
    ends = embedding_parameters(shape).plain + output * has_head
    other_dense, other_sparse = both_ends * counts.last_dense, both_ends * counts.last_sparse
    held = _with_layers(shape, ends, dense + other_dense, sparse + other_sparse, has_head)
    adapters = adapters_of(shape, dense + other_dense, sparse + other_sparse)
    stages = 1.0 + both_ends
    dense, sparse = (dense + other_dense) / stages, (sparse + other_sparse) / stages
    micro = in_flight(layout)
    return _Rank(dense, sparse, held, ends, adapters, micro, has_head, is_first=True)


def _last(shape: Shape, counts: LayerCounts) -> _Rank:
    """The last pipeline rank, which has the output layer and its logits.

    With DualPipe that is the first one; instead one in the middle, with two stages of the body.
    """
    layout, both_ends = shape.layout, _both_ends(shape.layout)
    has_head, middle = 1.0 - both_ends, both_ends > 0
    dense = where(middle, counts.body_dense, counts.last_dense)
    sparse = where(middle, counts.body_sparse, counts.last_sparse)
    stages, ends = 1.0 + both_ends, output_layer_parameters(shape).plain * has_head
    held = _with_layers(shape, ends, stages * dense, stages * sparse, has_head)
    virtual = layout.virtual_stages
    micro = least(1.0 / virtual + layout.pp * (1.0 - 1.0 / virtual), layout.microbatches)
    micro = where(middle, in_flight(layout), micro)
    adapters = adapters_of(shape, stages * dense, stages * sparse)
    return _Rank(dense, sparse, held, ends, adapters, micro, has_head, is_first=False)


def _with_layers(
    shape: Shape, ends: Number, dense: Number, sparse: Number, has_head: Number
) -> RankParameters:
    """Parameters of a rank with these layers, and those of its ends."""
    model = shape.model
    plain: Number = ends
    experts: Number = 0.0
    if model.dense_layers:
        plain = plain + dense * dense_layer_parameters(shape).plain
    if model.moe is not None:
        held = expert_layer_parameters(shape)
        plain, experts = plain + sparse * held.plain, sparse * held.experts
    if model.mtp_layers:
        further, count = mtp_parameters(shape), model.mtp_layers * has_head
        plain, experts = plain + count * further.plain, experts + count * further.experts
    return RankParameters(plain, experts)


def _memory(shape: Shape, rank: _Rank, layers: Layers) -> Memory:
    """What `rank` keeps."""
    layout, held = shape.layout, rank.held
    degree, expert_dp = layout.shard_degree, layout.expert_dp
    assert degree is not None, "the layout is resolved"
    whole = held.plain + held.experts
    own = _shared_out(held, layout.shard >= Shard.FSDP, degree, expert_dp)
    frozen = frozen_parameters(shape, held, rank.dense, rank.sparse)
    still = _shared_out(frozen, layout.shard >= Shard.FSDP, degree, expert_dp)
    held = RankParameters(held.plain - frozen.plain, held.experts - frozen.experts)
    kept = _shared_out(held, reduced_at_once(layout), degree, expert_dp)
    states = _shared_out(held, layout.shard >= Shard.ZERO1, degree, expert_dp)
    layer, weight = largest_layer(shape), largest_weight(shape)
    together, trained = _together(layout, layer, whole), held.plain + held.experts
    unreduced = least(most(together, weight), trained - kept + weight) * (trained > 0)
    unreduced = unreduced * (1 - layout.frozen_weights)
    more = Added.of(shape, rank.adapters / most(whole, 1.0), rank.ends / most(whole, 1.0))
    weights = (stored_bytes(layout) + more.weights) * own
    weights = weights - (stored_bytes(layout) - frozen_bytes(layout)) * still
    gathered = gathered_bytes(layout) * _unsharded(shape, together, whole, whole - own)
    if layout.offload_weights:
        copied = gathered_bytes(layout) * _unsharded(shape, together, whole, whole)
        copied = copied + weight_bytes(layout) * rank.ends  # FSDP's root keeps its unit in between
        weights, gathered = 0.0 * weights, least(copied, weights + gathered)
    kept, states = kept * (1 - layout.offload_gradients), states * (1 - layout.offload_optimizer)
    return Memory(
        weights=weights,
        gradients=(kept_gradient_bytes(layout) + more.gradients) * kept,
        optimizer=(optimizer_bytes(layout) + more.optimizer) * states,
        activations=_activations(shape, rank, layers),
        logits=_logits(shape) * rank.heads * (1 + shape.model.mtp_layers),
        unsharded_weights=gathered + more.dequantised,
        unreduced_gradients=layout.gradient_dtype.size_bytes * unreduced,
        cuda_and_nccl=_cuda_and_nccl(layout) + 0.0 * whole,
    )


def _together(layout: Layout, layer: Number, whole: Number) -> Number:
    """Weights that FSDP gathers together: of a layer, or of a unit of several."""
    if layout.unit_layers == 1:
        return layer
    several = (layout.shard == Shard.FSDP) & (layout.pp == 1)
    return where(several, least(layer * layout.unit_layers, whole), layer)


def _unsharded(shape: Shape, unit: Number, whole: Number, others: Number) -> Number:
    """Weights that were gathered: of a `unit` and of those ahead, or of `others` all.

    Between the passes all stay where they are not given back, or the share of a few ranks.
    """
    layout = shape.layout
    units = 1.0 + max(layout.forward_prefetch, layout.backward_prefetch)
    gathered = least(units * unit, others)
    few = layout.reshard_after_forward
    if kept_after_forward(shape.model, layout):
        gathered = others
    elif few is not None and not isinstance(few, bool):
        second = whole / few * (layout.shard_degree > few)
        gathered = least(gathered + second, others)
    return where(layout.pp > 1, others, gathered)


def _activations(shape: Shape, rank: _Rank, layers: Layers) -> Number:
    """Of all layers and micro batches in flight, and one layer that is computed again."""
    kept: Number = 0.0
    again: Number = 0.0
    for count, layer in ((rank.dense, layers.dense), (rank.sparse, layers.sparse)):
        if layer is not None:
            kept, again = kept + count * layer.until_backward, most(again, layer.again)
    moved = least(shape.layout.offload_layers / most(rank.dense + rank.sparse, 1e-9), 1.0)
    further = layers.further
    ahead = further.until_backward * shape.model.mtp_layers * rank.heads if further else 0.0
    kept = kept + _kept_wider(shape, rank, layers)
    kept = kept - spared_activations(shape, rank.dense, rank.sparse)
    return rank.micro * kept * (1.0 - moved) + ahead + again


def _kept_wider(shape: Shape, rank: _Rank, layers: Layers) -> Number:
    """What layers in bf16 keep more than those in 8 or 4 bits do."""
    wide = in_bf16(shape)
    if wide is None:
        return 0.0
    more: Number = 0.0
    wider, layout = Layers.of(wide), shape.layout
    first = where(rank.is_first, layout.first_layers_bf16, 0)
    last = where(rank.is_first & (layout.pp > 1), 0, layout.last_layers_bf16)
    count, every = least(first + last, rank.dense + rank.sparse), rank.dense + rank.sparse
    pairs = ((rank.dense, layers.dense, wider.dense), (rank.sparse, layers.sparse, wider.sparse))
    for each, layer, other in pairs:
        if layer is not None and other is not None:
            share = count * each / most(every, 1e-9)
            more = more + share * (other.until_backward - layer.until_backward)
    return more


def _logits(shape: Shape) -> Number:
    """Logits of a micro batch, or of the part of it that the loss takes at once."""
    each = FUSED_LOGITS_BYTES if shape.layout.fused_loss else LOGITS_BYTES
    count = shape.head_tokens * shape.model.head_width / shape.layout.tp
    return each * count / shape.layout.loss_chunks


def _cuda_and_nccl(layout: Layout) -> Number:
    """The CUDA context, and NCCL's buffers for every group in which a rank communicates."""
    dp = layout.gpus // layout.model_ranks
    groups = sum(1.0 * (ranks > 1) for ranks in (layout.tp, layout.pp, layout.cp, dp, layout.ep))
    return CONTEXT_BYTES + COMMUNICATOR_BYTES * groups


def _both_ends(layout: Layout) -> Number:
    """1 where a rank holds the layers of two stages, as many from the end as from the start."""
    return 1.0 * (layout.schedule == Schedule.DUALPIPE) * (layout.pp > 1)


def in_flight(layout: Layout) -> Number:
    """Micro batches whose activations the first pipeline rank keeps at once.

    GPipe keeps all; 1F1B as many as there are stages, ZB-2p twice as many, DualPipe one more;
    interleaving a little more than 1F1B (Narayanan 2021). Without a pipeline it is one, whatever
    the schedule.
    """
    pp, micro = layout.pp, layout.microbatches
    interleaved = pp * (1.0 + (pp - 1.0) / (pp * layout.virtual_stages))
    twice = (layout.schedule == Schedule.ZERO_BUBBLE_2P) & (pp > 1)
    plain = pp * (1.0 + twice) + _both_ends(layout)
    at_once = least(where(layout.schedule == Schedule.INTERLEAVED, interleaved, plain), micro)
    return where((layout.schedule == Schedule.GPIPE) & (pp > 1), micro, at_once)


def _shared_out(
    held: RankParameters, condition: Number, degree: Number, expert_dp: Number
) -> Number:
    """Parameters that a rank keeps where the condition shards them, else all."""
    return held.plain / (1 + condition * (degree - 1)) + held.experts / (
        1 + condition * (expert_dp - 1)
    )
