"""What switches of a layout do to a step: adapters, frozen weights, wide layers, recomputation.

An adapter is two products, into its rank and out of it, with gradients of inputs and weights;
frozen matrices that are kept narrow are dequantised each time that they are used, forward, again
and backward.

A part that is not trained is passed through where something before it is; below the first trained
part nothing goes backward: nothing is kept for it, and nothing is gathered again.

Source: Megatron-Core's `recompute_modules`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.describe.choice import Dtype
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.layout import Shard
from syncwall.describe.matrices import Matrix
from syncwall.describe.model import Model
from syncwall.describe.switches import MasterWeights, RecomputeModule, adapted
from syncwall.work.block import Scope
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number, Truth, least, where
from syncwall.work.operations import Eager, Elementwise
from syncwall.work.parts import LayerPart, gemm
from syncwall.work.rank_parameters import RankParameters, layer_parameters

ENTERING = ("q_proj", "k_proj", "v_proj", "q_a_proj", "kv_a_proj_with_mqa")
"""Matrices of attention whose input is that of the layer, normed."""


def trains_own_weights(layout: Layout) -> bool:
    """True if the optimizer updates the weights that are computed with, as PyTorch's and XLA's loops do,
    not a copy of its own beside flat buffers of gradients, as Megatron and DeepSpeed do.
    """
    return layout.master_weights in (MasterWeights.STORED, MasterWeights.NONE)


def autocasts(layout: Layout) -> Truth:
    """True where fp32 weights are cast when they are used: the residual stream stays in fp32.

    FSDP casts whole units beforehand, so that all of it is in 16 bits; so are frozen weights.
    """
    stored = layout.master_weights == MasterWeights.STORED and not layout.frozen_weights
    return (stored and layout.precision.size_bytes < 4) & (layout.shard < Shard.FSDP)


def with_adapters(parts: Sequence[LayerPart], shape: Shape, kind: LayerKind) -> list[LayerPart]:
    """The parts of a layer with those of its adapters behind their multiplications."""
    lora = shape.layout.lora
    if lora is None:
        return list(parts)
    adapters = adapted(shape.model, kind, lora)
    found = _dequantised(shape, kind)
    for part in parts:
        found.append(part)
        for one in adapters:
            if one in part.matrices:
                found += _products(shape, one, lora.rank, part.scope)
    return found


def rank_adapter_parameters(shape: Shape, kind: LayerKind) -> RankParameters:
    """Trained parameters of a layer on a rank: the side that tensor parallelism splits, in part."""
    lora = shape.layout.lora
    if lora is None:
        return RankParameters(0.0)
    return RankParameters(
        sum((lora.rank * sum(_widths(shape, one)) for one in adapted(shape.model, kind, lora)), 0.0)
    )


def keeps_input(shape: Shape, *names: str) -> Number:
    """1 if the input of these matrices is kept for a weight gradient, theirs or an adapter's."""
    lora = shape.layout.lora
    if lora is None:
        return 1 - shape.layout.frozen_weights
    kinds = shape.model.layer_kinds
    return 1.0 * any(one.name in names for kind in kinds for one in adapted(shape.model, kind, lora))


def _widths(shape: Shape, one: Matrix) -> tuple[Number, Number]:
    """What enters and leaves a matrix on a rank, of which adapters share one side."""
    tp = shape.layout.tp
    if one.split == "columns":
        return one.columns / tp, one.rows
    return one.columns, one.rows / tp


def _products(shape: Shape, one: Matrix, rank: int, scope: Scope) -> list[LayerPart]:
    """Both products of an adapter and its sum with the output, backward with the input's gradient.

    Fused, the second product reads what it adds to. Without fusion the adapter's output is scaled
    first, and its gradient again (PEFT, torchtune).
    """
    dtype, tokens = shape.layout.precision, shape.tokens
    entering, leaving = _widths(shape, one)
    pair = (
        gemm(f"{one.name} adapter down", Cause.GEMM, tokens, rank, entering, dtype),
        gemm(f"{one.name} adapter up", Cause.GEMM, tokens, leaving, rank, dtype),
    )
    wide = ACTIVATION_BYTES * tokens
    added = LayerPart(
        f"{one.name} adapter sum",
        Cause.ELEMENTWISE,
        Elementwise(wide * leaving, kind="adapter", eager=Eager(5, 2)),
        (
            Elementwise(
                wide * entering, kind="adapter backward", eager=Eager(3 + 2 * one.rows / one.columns, 2)
            ),
        ),
    )
    return [part.within(scope).trained() for part in (*pair, added)]


def _dequantised(shape: Shape, kind: LayerKind) -> list[LayerPart]:
    """Frozen matrices of a layer read and written in 16 bits, if they are kept narrower."""
    lora = shape.layout.lora
    kept = lora.weight_bytes if lora else None
    if kept is None or kept >= ACTIVATION_BYTES:
        return []
    held = layer_parameters(shape, kind)
    moved = Elementwise((kept + ACTIVATION_BYTES) * (held.plain + held.experts), kind="cast")
    return [LayerPart("dequantised weights", Cause.ELEMENTWISE, moved, (moved,))]


@dataclass(frozen=True, slots=True)
class Backward:
    """What the backward pass does in a part of a model."""

    passes: bool
    """Gradients of its input are computed."""
    trains: bool
    """Gradients of its weights are computed."""


TRAINED, PASSED, STILL = Backward(True, True), Backward(True, False), Backward(False, False)


@dataclass(frozen=True, slots=True)
class Frozen:
    """The backward pass of a step, part by part."""

    encoder: Backward
    projector: Backward
    embedding: Backward
    first: Backward
    """Of the `first_layers`."""
    layers: Backward
    """Of the other layers of the decoder."""
    output_layer: Backward
    first_layers: int = 0
    """Layers at the start that are not trained where those behind them are."""

    @classmethod
    def of(cls, shape: Shape) -> "Frozen":
        """Of the model and layout of `shape`; with adapters, all but the decoder is frozen."""
        layout, encoder = shape.layout, shape.model.encoder
        parts = layout.frozen
        in_front = not layout.frozen_weights and encoder is not None
        sees = in_front and "encoder" not in parts and not (encoder and encoder.frozen)
        joins = in_front and "projector" not in parts and bool(encoder and encoder.projector)
        front = TRAINED if sees else STILL
        between = TRAINED if joins else PASSED if sees else STILL
        decoder = "decoder" in parts
        below = PASSED if sees or joins else STILL
        if decoder:
            return cls(front, between, STILL, below, below, below)
        if not layout.frozen_layers:
            return cls(front, between, TRAINED, below, TRAINED, TRAINED)
        head = PASSED if shape.model.tied_embeddings else TRAINED
        return cls(front, between, STILL, below, TRAINED, head, layout.frozen_layers)

    @property
    def whole_decoder(self) -> bool:
        """True if every part of the decoder is trained, or has adapters that are."""
        return self.embedding is TRAINED

    def leading(self, model: Model, kind: LayerKind) -> int:
        """Layers of `kind` among the `first_layers`."""
        return sum(_is_of(model, layer, kind) for layer in range(self.first_layers))

    def of_kind(self, model: Model, kind: LayerKind) -> list[tuple[int, Backward]]:
        """Layers of `kind`, those at the start first, and what the backward pass does in them."""
        leading = self.leading(model, kind)
        parts = [(leading, self.first), (kind.count - leading, self.layers)]
        return [(count, back) for count, back in parts if count] or parts[1:]


def passed_shape(shape: Shape) -> Shape:
    """`shape` as layers have it whose weights have no gradients."""
    return replace(shape, layout=shape.layout.model_copy(update={"frozen_weights": True}))


def _is_of(model: Model, layer: int, kind: LayerKind) -> bool:
    """True if layer number `layer` (from 0) is of `kind`."""
    if model.pattern is None:
        return model.has_experts(layer) == kind.has_experts
    words = model.pattern.split()
    return words[layer % len(words)] == kind.letters


def in_bf16(shape: Shape) -> Shape | None:
    """`shape` as its layers in bf16 have it; None if there are none."""
    layout = shape.layout
    narrow = layout.precision.size_bytes < ACTIVATION_BYTES
    if not narrow or not (layout.first_layers_bf16 or layout.last_layers_bf16):
        return None
    return replace(shape, layout=layout.model_copy(update={"precision": Dtype.BF16}))


@dataclass(frozen=True, slots=True)
class WideCounts:
    """Layers of one kind in bf16."""

    first: int
    last: int

    @classmethod
    def of(cls, model: Model, layout: Layout, kind: LayerKind) -> "WideCounts":
        """Of `kind`: leading dense layers come first; else kinds are taken to be mixed evenly."""
        first = min(layout.first_layers_bf16, model.layers)
        last = min(layout.last_layers_bf16, model.layers - first)
        leading = model.moe.dense_first if model.moe and model.pattern is None else 0
        if not leading:
            share = kind.count / model.layers
            return cls(round(first * share), round(last * share))
        dense = min(first, leading)
        return cls(first - dense, min(last, kind.count)) if kind.has_experts else cls(dense, 0)

    def within(self, layout: Layout, in_body: Number, in_last: Number) -> tuple[Number, Number]:
        """Of so many layers, those in bf16 in the fullest rank before the last, and in the last."""
        body = least(self.first, in_body)
        last = least(where(layout.pp > 1, self.last, self.first + self.last), in_last)
        return body, last


_EXACTLY: dict[RecomputeModule, frozenset[str]] = {
    "layernorm": frozenset({"attention norm", "mixer norm", "MLP norm", "expert norm"}),
    "mla_up_proj": frozenset({"query up", "key value up"}),
    "moe_act": frozenset({"experts activation", "experts down cast"}),
}
_BEGINNING: dict[RecomputeModule, tuple[str, ...]] = {
    "mlp": ("MLP ",),
    "shared_experts": ("shared experts ",),
    "moe": (
        "router",
        "latent",
        "permute",
        "dispatch",
        "experts ",
        "combine",
        "unpermute",
        "shared experts ",
    ),
}
"""Names of the parts of each module."""
LAST = frozenset({"MLP down", "shared experts down"})
"""Multiplications whose result only goes on to the next layer: no gradient of this one needs it."""


def in_modules(part: LayerPart, modules: Sequence[RecomputeModule]) -> bool:
    """True if one of `modules` repeats `part`."""
    return any(
        (module == "core_attn" and part.cause is Cause.ATTENTION)
        or part.name in _EXACTLY.get(module, ())
        or part.name.startswith(_BEGINNING.get(module, ("\0",)))
        for module in modules
    )
