"""Bytes that the fullest rank keeps, by cause.

Holds `Memory` and `step_memory`. The first pipeline rank counts: it keeps the most micro batches in
flight. (The last one has the logits, but only one micro batch.)

Sources: ZeRO (Rajbhandari 2020) for weights, gradients and optimizer; Korthikanti 2022 for
activations, here tensor by tensor for fused attention.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from syncwall.describe import Layout, Model
from syncwall.describe.layout import Recompute, Schedule, Shard
from syncwall.work.held import Held, dense_held, embedding_held, expert_held, head_held
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.operations import Number
from syncwall.work.sharing import WEIGHT_BYTES, reduced_at_once
from syncwall.work.step import LayerCounts

ADAM_BYTES = 12.0
"""Weight and two moments of one parameter in fp32."""
LOGITS_BYTES = 12.0
"""One logit: 16 bits and its fp32 copy for the loss, and the gradients of both."""
RESERVE_BYTES = 3e9
"""CUDA context, communicators and fragmentation; measured values go from 1.5 to 4 GB."""


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
    reserve: Number

    @property
    def total(self) -> Number:
        """All of it."""
        return sum(getattr(self, part.name) for part in fields(self))

    def by_cause(self) -> dict[str, float]:
        """Every cause with its bytes (one layout)."""
        return {part.name: float(getattr(self, part.name)) for part in fields(self)}


def step_memory(model: Model, layout: Layout, seq: Number) -> Memory:
    """Memory of a step; `layout` is resolved and may be arrays."""
    shape = Shape(model, layout, seq)
    counts = LayerCounts(model, layout)
    held, layers = _fullest(shape, counts)
    whole, degree, expert_dp = layout.shard, layout.shard_degree, layout.expert_dp
    each_layer = _largest_layer(shape)
    micro = in_flight(layout)
    kept = _kept_per_layer(shape)
    working = _working_set(shape) * (layout.recompute == Recompute.FULL)
    each_bytes = layout.precision.size_bytes if layout.frozen else WEIGHT_BYTES
    weights = each_bytes * _shared_out(held, whole >= Shard.FSDP, degree, expert_dp)
    elsewhere = each_bytes * (held.plain + held.experts) - weights
    return Memory(
        weights=weights,
        gradients=layout.gradient_dtype.size_bytes
        * (1 - layout.frozen)
        * _shared_out(held, reduced_at_once(layout), degree, expert_dp),
        optimizer=ADAM_BYTES
        * (1 - layout.frozen)
        * _shared_out(held, whole >= Shard.ZERO1, degree, expert_dp),
        activations=micro * layers * kept + working,
        logits=LOGITS_BYTES * shape.tokens * model.vocab / layout.tp * (layout.pp == 1),
        gathered=np.where(
            layout.pp > 1, elsewhere, np.minimum(2.0 * WEIGHT_BYTES * each_layer, elsewhere)
        ),
        reserve=RESERVE_BYTES + 0.0 * layers,
    )


def in_flight(layout: Layout) -> Any:
    """Micro batches whose activations the first pipeline rank keeps at once.

    GPipe keeps all; 1F1B as many as there are stages; interleaving a little more (Narayanan 2021).
    """
    pp, micro = layout.pp, layout.microbatches
    chunks = layout.virtual_stages
    interleaved = pp * (1.0 + (pp - 1.0) / (pp * chunks))
    gpipe = layout.schedule == Schedule.GPIPE
    woven = layout.schedule == Schedule.INTERLEAVED
    most = np.where(woven, interleaved, pp)
    return np.where(gpipe, micro, np.minimum(most, micro))


def _fullest(shape: Shape, counts: LayerCounts) -> tuple[Held, Any]:
    """Parameters and layers of the first rank, which has the embedding."""
    model, layout = shape.model, shape.layout
    alone = 1 * (layout.pp == 1)
    dense = counts.last_dense * alone + counts.body_dense * (1 - alone)
    sparse = counts.last_sparse * alone + counts.body_sparse * (1 - alone)
    head = head_held(shape).plain * alone * (not model.tied_embeddings)
    ends = embedding_held(shape).plain + head
    plain, experts = ends, 0.0
    if model.mlp is not None and model.dense_layers:
        plain = plain + dense * dense_held(shape).plain
    if model.moe is not None:
        held = expert_held(shape)
        plain, experts = plain + sparse * held.plain, sparse * held.experts
    return Held(plain, experts), dense + sparse


def _shared_out(held: Held, condition: Any, degree: Any, expert_dp: Any) -> Any:
    """Parameters that a rank keeps where the condition shards them, else all."""
    return held.plain / (1 + condition * (degree - 1)) + held.experts / (
        1 + condition * (expert_dp - 1)
    )


def _largest_layer(shape: Shape) -> Any:
    model = shape.model
    if model.moe is not None:
        held = expert_held(shape)
        return held.plain + held.experts
    return dense_held(shape).plain


def _kept_per_layer(shape: Shape) -> Any:
    """Activations of one layer and micro batch that the backward pass needs."""
    inputs = ACTIVATION_BYTES * shape.plain_tokens * shape.model.hidden
    layers = shape.recomputed_layers
    full = layers * (shape.layout.recompute == Recompute.FULL)
    some = layers * 0.5 * (shape.layout.recompute == Recompute.OPERATIONS)
    return inputs + (_working_set(shape) - inputs) * (1 - full - some)


def _working_set(shape: Shape) -> Any:
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
    widths: Any = 0.0
    if model.mlp is not None and model.dense_layers:
        widths = into * model.mlp.hidden / tp
    if model.moe is not None:
        moe = model.moe
        routed = moe.top_k * (into * moe.hidden / shape.layout.etp + 2.0 * model.hidden) / tp
        widths = np.maximum(widths, routed + into * moe.shared_hidden / tp)
    return ACTIVATION_BYTES * (between + tokens * (inside + widths))
