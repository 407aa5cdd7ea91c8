"""Bytes that the fullest rank keeps, by cause.

Holds `Memory`, `step_memory` and `fits`. The first pipeline rank keeps the most micro batches in
flight, the last one has the logits; the fuller of the two counts.

Sources: ZeRO (Rajbhandari 2020) for weights, gradients and optimizer; Korthikanti 2022 for
activations, here tensor by tensor for fused attention.
"""

from dataclasses import dataclass, fields

from syncwall.describe import Device, Layout, Model
from syncwall.describe.layout import Recompute, Schedule, Shard
from syncwall.work.held import Held, dense_held, embedding_held, expert_held, head_held
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number, Truth, least, most, where
from syncwall.work.sharing import reduced_at_once, weight_bytes
from syncwall.work.step import LayerCounts

ADAM_BYTES = 12.0
"""Weight and two moments of one parameter in fp32."""
LOGITS_BYTES, FUSED_LOGITS_BYTES = 12.0, 6.0
"""One logit: 16 bits and its fp32 copy for the loss, and the gradients of both; fused, the gradient
takes the place of the copy."""
RESERVE_BYTES = 3e9
"""CUDA context, communicators and fragmentation; measured values go from 1.5 to 4 GB."""

HEADROOM = 0.05
"""Share of a device's memory that a prediction must leave free; the allocator loses some to
fragments. All 7 calibration runs of the ultra-scale playbook without a pipeline that are predicted
to leave less took 1.9 to 5.7 times as long as predicted; the next smaller one leaves 13 %."""


def usable_bytes(device: Device) -> float:
    """Bytes of a device that a run may fill."""
    return float(device.memory.size_bytes) * (1.0 - HEADROOM)


def fits(memory_bytes: Number, device: Device) -> Truth:
    """True where so many bytes on the fullest GPU fit: the one rule of predictions and plans."""
    return memory_bytes <= usable_bytes(device)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the fullest rank."""

    weights: Number
    gradients: Number
    optimizer: Number
    activations: Number
    logits: Number
    gathered: Number
    """Weights that FSDP has gathered: two layers at a time, in a pipeline all of a stage."""
    new_gradients: Number
    """Gradients of one weight, with FSDP of one layer, before they are added up or reduced."""
    reserve: Number

    @property
    def total(self) -> Number:
        """All of it."""
        whole: Number = sum(getattr(self, part.name) for part in fields(self))
        return whole

    def by_cause(self) -> dict[str, float]:
        """Every cause with its bytes (one layout)."""
        return {part.name: float(getattr(self, part.name)) for part in fields(self)}


def step_memory(model: Model, layout: Layout, seq: Number) -> Memory:
    """Memory of a step; `layout` is resolved and may be arrays."""
    shape = Shape(model, layout, seq)
    counts = LayerCounts(model, layout)
    first, last = _first(shape, counts), _last(shape, counts)
    fuller = first.total >= last.total
    return Memory(
        **{
            part.name: where(fuller, getattr(first, part.name), getattr(last, part.name))
            for part in fields(Memory)
        }
    )


def _first(shape: Shape, counts: LayerCounts) -> Memory:
    """The first pipeline rank, which has the embedding and the most micro batches in flight."""
    model, layout = shape.model, shape.layout
    alone = layout.pp == 1
    dense = where(alone, counts.last_dense, counts.body_dense)
    sparse = where(alone, counts.last_sparse, counts.body_sparse)
    lead = where(alone, 0, model.moe.dense_first if model.moe else 0)
    leading = least(lead, dense + sparse)
    every = sparse / most(dense + sparse, 1e-9)  # what the leading dense layers replace
    dense, sparse = dense + leading * every, sparse - leading * every
    ends = embedding_held(shape).plain
    ends = ends + head_held(shape).plain * alone * (not model.tied_embeddings)
    held = _with_layers(shape, ends, dense, sparse)
    return _rank(shape, held, dense + sparse, in_flight(layout), 1.0 * alone)


def _last(shape: Shape, counts: LayerCounts) -> Memory:
    """The last pipeline rank, which has the head and its logits."""
    layout = shape.layout
    held = _with_layers(shape, head_held(shape).plain, counts.last_dense, counts.last_sparse)
    chunks = layout.virtual_stages
    micro = least(1.0 / chunks + layout.pp * (1.0 - 1.0 / chunks), layout.microbatches)
    return _rank(shape, held, counts.last_dense + counts.last_sparse, micro, 1.0)


def _with_layers(shape: Shape, ends: Number, dense: Number, sparse: Number) -> Held:
    """Parameters of a rank with these layers, and those of its ends."""
    model = shape.model
    plain: Number = ends
    experts: Number = 0.0
    if model.mlp is not None and model.dense_layers:
        plain = plain + dense * dense_held(shape).plain
    if model.moe is not None:
        held = expert_held(shape)
        plain, experts = plain + sparse * held.plain, sparse * held.experts
    return Held(plain, experts)


def _rank(shape: Shape, held: Held, layers: Number, micro: Number, head: Number) -> Memory:
    """What a rank keeps that holds `held` and has `micro` micro batches in flight."""
    layout = shape.layout
    whole, expert_dp = layout.shard, layout.expert_dp
    degree = layout.shard_degree
    assert degree is not None, "the layout is resolved"
    each_bytes = layout.precision.size_bytes if layout.frozen else weight_bytes(layout)
    weights = each_bytes * _shared_out(held, whole >= Shard.FSDP, degree, expert_dp)
    elsewhere = each_bytes * (held.plain + held.experts) - weights
    trained = 1 - layout.frozen
    at_once = reduced_at_once(layout)
    kept = _shared_out(held, at_once, degree, expert_dp)
    weight, elsewhere_kept = _largest_weight(shape), held.plain + held.experts - kept
    new_gradients = least(most(_largest_layer(shape), weight), elsewhere_kept + weight)
    working = _working_set(shape) * (layout.recompute == Recompute.FULL)
    wide = weight_bytes(layout) / ACTIVATION_BYTES
    logit_bytes = FUSED_LOGITS_BYTES if layout.fused_loss else LOGITS_BYTES
    return Memory(
        weights=weights,
        gradients=layout.gradient_dtype.size_bytes * trained * kept,
        optimizer=_adam_bytes(layout)
        * trained
        * _shared_out(held, whole >= Shard.ZERO1, degree, expert_dp),
        activations=(micro * layers * _kept_per_layer(shape) + working) * wide,
        logits=logit_bytes * shape.tokens * shape.model.vocab / layout.tp * head,
        gathered=where(
            layout.pp > 1,
            elsewhere,
            least(2.0 * weight_bytes(layout) * _largest_layer(shape), elsewhere),
        ),
        new_gradients=layout.gradient_dtype.size_bytes * trained * new_gradients,
        reserve=RESERVE_BYTES + 0.0 * layers,
    )


def _adam_bytes(layout: Layout) -> float:
    """Optimizer states of one parameter; weights that are fp32 already need no second copy."""
    return ADAM_BYTES - 4.0 * (weight_bytes(layout) == 4.0)


def in_flight(layout: Layout) -> Number:
    """Micro batches whose activations the first pipeline rank keeps at once.

    GPipe keeps all; 1F1B as many as there are stages, ZB-2p twice as many; interleaving a little
    more than 1F1B (Narayanan 2021). Without a pipeline it is one, whatever the schedule.
    """
    pp, micro = layout.pp, layout.microbatches
    chunks = layout.virtual_stages
    interleaved = pp * (1.0 + (pp - 1.0) / (pp * chunks))
    woven = layout.schedule == Schedule.INTERLEAVED
    twice = (layout.schedule == Schedule.ZERO_BUBBLE_2P) & (pp > 1)
    plain = pp * (1.0 + twice)
    at_once = least(where(woven, interleaved, plain), micro)
    return where((layout.schedule == Schedule.GPIPE) & (pp > 1), micro, at_once)


def _shared_out(held: Held, condition: Number, degree: Number, expert_dp: Number) -> Number:
    """Parameters that a rank keeps where the condition shards them, else all."""
    return held.plain / (1 + condition * (degree - 1)) + held.experts / (
        1 + condition * (expert_dp - 1)
    )


def _largest_layer(shape: Shape) -> Number:
    model = shape.model
    if model.moe is not None:
        held = expert_held(shape)
        return held.plain + held.experts
    return dense_held(shape).plain


def _largest_weight(shape: Shape) -> Number:
    """Parameters of the largest matrix of a layer: its gradient exists before it is added up."""
    mlp = shape.model.mlp
    if mlp is None or not shape.model.dense_layers:
        return 0.0
    return shape.model.hidden * mlp.hidden * (2 if mlp.gated else 1) / shape.layout.tp


def _kept_per_layer(shape: Shape) -> Number:
    """Activations of one layer and micro batch that the backward pass needs."""
    inputs = ACTIVATION_BYTES * shape.plain_tokens * shape.model.hidden
    layers = shape.recomputed_layers
    full = layers * (shape.layout.recompute == Recompute.FULL)
    some = layers * 0.5 * (shape.layout.recompute == Recompute.OPERATIONS)
    return inputs + (_working_set(shape) - inputs) * (1 - full - some)


def _working_set(shape: Shape) -> Number:
    """All activations of one layer that a backward pass without recomputation needs.

    Between tensor-parallel regions: inputs of both norms and both residual branches. Inside:
    queries, keys, values and output of attention; inputs and outputs of the activation function.
    """
    model, tokens, tp = shape.model, shape.tokens, shape.layout.tp
    frozen = shape.layout.frozen  # inputs of frozen weights are not needed again
    between = (2.0 if frozen else 4.0) * shape.plain_tokens * model.hidden
    heads = model.attention.heads / tp
    inside = heads * (model.head_dim + model.v_head_dim) + shape.kv_heads * (
        model.head_dim + model.v_head_dim
    )
    into = (3.0 if (model.mlp is None or model.mlp.gated) else 2.0) - 1.0 * frozen
    widths: Number = 0.0
    if model.mlp is not None and model.dense_layers:
        widths = into * model.mlp.hidden / tp
    if model.moe is not None:
        moe = model.moe
        routed = moe.top_k * (into * moe.hidden / shape.layout.etp + 2.0 * model.hidden) / tp
        widths = most(widths, routed + into * moe.shared_hidden / tp)
    whole = shape.layout.whole_inputs * model.hidden * (shape.layout.pp == 1)
    return ACTIVATION_BYTES * (between + tokens * (inside + widths + whole))
