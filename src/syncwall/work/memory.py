"""Bytes that the fullest rank keeps, by cause.

Holds `Memory`, `step_memory` and `fits`. The first pipeline rank keeps the most micro batches in
flight, the last one has the logits; the fuller of the two counts. `states.py` has the bytes of a
parameter, `activations.py` those of a layer. Source: ZeRO (Rajbhandari 2020).
"""

from dataclasses import dataclass, fields, replace

from syncwall.describe import Device, Layout, Model
from syncwall.describe.layout import Shard
from syncwall.describe.parameters import head_transform_parameters
from syncwall.work.activations import SavedByKind, further_saved, saved_by_kind
from syncwall.work.layer import Shape
from syncwall.work.layout_switches import in_bf16, rank_adapter_parameters, trains_own_weights
from syncwall.work.memory_parts import (
    Added,
    autocast_bytes,
    bucket_bytes,
    encoder_memory,
    frozen_bytes,
    frozen_parameters,
    kept_gradient_bytes,
    made_anew,
    optimizer_bytes,
    spared_activations,
    stored_bytes,
)
from syncwall.work.mtp import mtp_parameters
from syncwall.work.number import Number, Truth, least, most, where
from syncwall.work.operations import Collective
from syncwall.work.pipeline_ranks import PipelineRank, RankLayers, pipeline_ranks
from syncwall.work.program import Program
from syncwall.work.rank_parameters import (
    RankParameters,
    embedding_parameters,
    largest_layer,
    largest_weight,
    layer_parameters,
    output_layer_parameters,
)
from syncwall.work.sharing import (
    gathered_bytes,
    gathered_each_time,
    kept_after_forward,
    reduced_at_once,
    weight_bytes,
)

LOGITS_BYTES, FUSED_LOGITS_BYTES = 12.0, 6.0
"""One logit in Megatron: 16 bits and its fp32 copy for the loss, and the gradients of both; fused,
the gradient takes the place of the copy."""
EAGER_LOGITS_BYTES, COMPILED_LOGITS_BYTES = 16.0, 4.0
"""The same in PyTorch: the fp32 copy, its log-softmax, and the gradients of both; compiled with the
model, or by XLA, 16 bits and their gradient. jjschwartz prints 17.6 GB more for 32,768 more tokens of
a compiled GPT-2: 4 bytes a logit explain it to 2%."""
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
    """Where autograd makes them anew in every step, what they need beyond what the backward pass
    frees before they are complete."""
    optimizer: Number
    activations: Number
    logits: Number
    unsharded_weights: Number
    """Weights that FSDP has all-gathered: a unit and those ahead, or all of a stage that keeps them;
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
    saved = saved_by_kind(shape)
    first, last = (_memory(shape, rank, saved) for rank in pipeline_ranks(model, layout))
    fuller = first.total >= last.total
    whole = Memory(
        **{
            part.name: where(fuller, getattr(first, part.name), getattr(last, part.name))
            for part in fields(Memory)
        }
    )
    front = encoder_memory(shape)
    return replace(whole, **{name: getattr(whole, name) + more for name, more in front.items()})


def recorded_memory(program: Program) -> dict[str, float]:
    """Bytes on the fullest rank of a recorded program by what they are for."""
    fullest = max(program.ranks, key=lambda rank: rank.held_bytes)
    sent = (call.what.group for call in fullest if isinstance(call.what, Collective))
    groups = {(group.axis, float(group.ranks)) for group in sent}
    context_bytes = CONTEXT_BYTES + COMMUNICATOR_BYTES * len(groups)
    return {**fullest.held_by_kind, _WORDS["cuda_and_nccl"]: context_bytes}


def _held(shape: Shape, rank: PipelineRank) -> tuple[RankParameters, Number, Number]:
    """Parameters of `rank`, those of its ends among them, and those of its adapters."""
    model = shape.model
    output = output_layer_parameters(shape).plain
    if rank.is_first and model.tied_embeddings:
        output = head_transform_parameters(model)
    ends = output * rank.heads + (embedding_parameters(shape).plain if rank.is_first else 0.0)
    counts = [(rank.layers.of(kind), layer_parameters(shape, kind)) for kind in model.layer_kinds]
    if model.mtp_layers:
        counts.append((model.mtp_layers * rank.heads, mtp_parameters(shape)))
    plain = sum((count * one.plain for count, one in counts), start=ends)
    experts: Number = sum((count * one.experts for count, one in counts), start=0.0)
    adapters: Number = sum(
        (rank.layers.of(kind) * rank_adapter_parameters(shape, kind).plain for kind in model.layer_kinds),
        start=0.0,
    )
    return RankParameters(plain, experts), ends, adapters


def _memory(shape: Shape, rank: PipelineRank, saved: SavedByKind) -> Memory:
    """What `rank` keeps."""
    layout, (held, ends, adapters) = shape.layout, _held(shape, rank)
    layers = rank.layers.times(1.0 / rank.stages)
    degree, expert_dp = layout.shard_degree, layout.expert_dp
    assert degree is not None, "the layout is resolved"
    whole = held.plain + held.experts
    own = _shared_out(held, layout.shard >= Shard.FSDP, degree, expert_dp)
    frozen = frozen_parameters(shape, held, layers)
    still = _shared_out(frozen, layout.shard >= Shard.FSDP, degree, expert_dp)
    held = RankParameters(held.plain - frozen.plain, held.experts - frozen.experts)
    kept = _shared_out(held, reduced_at_once(layout), degree, expert_dp)
    states = _shared_out(held, layout.shard >= Shard.ZERO1, degree, expert_dp)
    layer, weight = largest_layer(shape), largest_weight(shape)
    together, trained = _together(layout, layer, whole), held.plain + held.experts
    unreduced = least(most(together, weight), trained - kept + weight) * (trained > 0)
    unreduced = unreduced * (1 - layout.frozen_weights)
    more = Added.of(shape, adapters / most(whole, 1.0), ends / most(whole, 1.0))
    weights = (stored_bytes(layout) + more.weights) * own
    weights = weights - (stored_bytes(layout) - frozen_bytes(layout)) * still
    gathered = gathered_bytes(layout) * _unsharded(shape, together, whole, whole - own)
    if layout.offload_weights:
        copied = gathered_bytes(layout) * _unsharded(shape, together, whole, whole)
        copied = copied + weight_bytes(layout) * ends  # FSDP's root keeps its unit in between
        weights, gathered = 0.0 * weights, least(copied, weights + gathered)
    kept, states = kept * (1 - layout.offload_gradients), states * (1 - layout.offload_optimizer)
    logits = _logits(shape) * rank.heads * (1 + shape.model.mtp_layers)
    activations, layer_again = _activations(shape, rank, layers, saved)
    gradients = (kept_gradient_bytes(layout) + more.gradients) * kept
    freed = least(activations + most(logits - layer_again, 0.0), gradients) * made_anew(layout)
    return Memory(
        weights=weights + autocast_bytes(layout) * (whole - frozen.plain - frozen.experts),
        gradients=gradients - freed + bucket_bytes(layout) * kept,
        optimizer=(optimizer_bytes(layout) + more.optimizer) * states,
        activations=activations + most(layer_again - logits, 0.0),  # which are gone by then
        logits=logits,
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
    return where(gathered_each_time(layout), gathered, others)


def _activations(
    shape: Shape, rank: PipelineRank, layers: RankLayers, saved: SavedByKind
) -> tuple[Number, Number]:
    """Of `layers` (one stage's) and micro batches in flight, and of the one layer that is in its
    backward pass: what it computes again, and gradients.
    """
    kept: Number = 0.0
    again: Number = 0.0
    for kind, one in saved.items():
        kept, again = kept + layers.of(kind) * one.until_backward, most(again, one.again + one.gradients)
    kept = kept + _kept_wider(shape, rank, layers, saved)
    kept = kept - spared_activations(shape, layers)
    moved = least(shape.layout.offload_layers / most(layers.total, 1e-9), 1.0)
    ahead: Number = 0.0
    if shape.model.mtp_layers:
        further = further_saved(shape, saved).until_backward
        ahead = further * shape.model.mtp_layers * rank.heads
    return rank.micro_batches * kept * (1.0 - moved) + ahead, again


def _kept_wider(shape: Shape, rank: PipelineRank, layers: RankLayers, saved: SavedByKind) -> Number:
    """What layers in bf16 keep more than those in 8 or 4 bits do."""
    wide = in_bf16(shape)
    if wide is None:
        return 0.0
    layout = shape.layout
    first = where(rank.is_first, layout.first_layers_bf16, 0)
    last = where(rank.is_first & (layout.pp > 1), 0, layout.last_layers_bf16)
    share = least(first + last, layers.total) / most(layers.total, 1e-9)
    more: Number = 0.0
    for kind, one in saved_by_kind(wide).items():
        less = saved[kind].until_backward
        more = more + share * layers.of(kind) * (one.until_backward - less)
    return more


def _logits(shape: Shape) -> Number:
    """Logits of a micro batch, or of the part of it that the loss takes at once."""
    layout, own = shape.layout, trains_own_weights(shape.layout)
    eager = EAGER_LOGITS_BYTES if own or not layout.fused_norms else LOGITS_BYTES
    fused = COMPILED_LOGITS_BYTES if own else FUSED_LOGITS_BYTES
    if weight_bytes(layout) == 4.0:  # fp32 all along: nothing is narrow
        fused = 2 * COMPILED_LOGITS_BYTES
    count = shape.head_tokens * shape.model.head_width / layout.tp
    return (fused if layout.fused_loss else eager) * count / layout.loss_chunks


def _cuda_and_nccl(layout: Layout) -> Number:
    """The CUDA context, and NCCL's buffers for every group in which a rank communicates."""
    dp = layout.gpus // layout.model_ranks
    groups = sum(1.0 * (ranks > 1) for ranks in (layout.tp, layout.pp, layout.cp, dp, layout.ep))
    return CONTEXT_BYTES + COMMUNICATOR_BYTES * groups


def _shared_out(held: RankParameters, condition: Number, degree: Number, expert_dp: Number) -> Number:
    """Parameters that a rank keeps where the condition shards them, else all."""
    return held.plain / (1 + condition * (degree - 1)) + held.experts / (1 + condition * (expert_dp - 1))
