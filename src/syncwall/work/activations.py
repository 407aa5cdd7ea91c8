"""Activations that a layer keeps for its backward pass, tensor by tensor.

Holds `Tensor`, `dense_tensors`, `expert_tensors`, `Kept`, the bytes of a layer by what is
recomputed, and `Layers`, those of both kinds. Counted are the tensors that autograd saves with
fused norms, activations and rotary positions: inputs of norms, multiplications and activation
functions, and what attention saves.

Sources: Korthikanti 2022, table 2; Transformer Engine, which keeps the narrow copy of a
multiplication's input for the weight gradient; torchtitan's selective checkpointing per operation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from syncwall.describe.keeping import NarrowActivations, RecomputeModule
from syncwall.describe.layout import Recompute
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number, anywhere

MASK_BYTES = 1.0
"""One element of a dropout mask."""
TENSOR_RANKS_OF_A_NODE = 8


@dataclass(frozen=True, slots=True)
class Tensor:
    """Something that a layer saves for its backward pass."""

    bytes: Number
    dropped_by: tuple[RecomputeModule, ...] = ()
    """Modules whose recomputation makes it unnecessary."""
    saved_singly: bool = False
    """Kept where every second multiplication is recomputed (`Recompute.OPERATIONS`)."""
    is_input: bool = False
    """The input of the layer, which is always kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes of one layer and micro batch."""

    everything: Number
    """What its backward pass needs."""
    until_backward: Number
    """What of that is kept from the forward pass on."""
    again: Number
    """What is computed again of a layer to which recomputation applies."""

    @classmethod
    def of(cls, tensors: list[Tensor], shape: Shape) -> "Kept":
        """Of a layer with these `tensors`, averaged over layers with and without recomputation."""
        layout, wide = shape.layout, 1.0 + (shape.layout.precision.size_bytes == 4)
        chosen = set(layout.recompute_modules)
        everything = wide * _sum(tensors)
        stay: dict[Recompute, Callable[[Tensor], bool]] = {
            Recompute.FULL: lambda t: t.is_input,
            Recompute.OPERATIONS: lambda t: t.is_input or t.saved_singly,
            Recompute.SELECTIVE: lambda t: not chosen & set(t.dropped_by),
        }
        spared: Number = 0.0
        for policy, stays in stay.items():
            applies = layout.recompute == policy
            if anywhere(applies):
                gone = wide * _sum([tensor for tensor in tensors if not stays(tensor)])
                spared = spared + gone * applies
        return cls(everything, everything - shape.recomputed_layers * spared, spared)


@dataclass(frozen=True, slots=True)
class Layers:
    """What a layer of each kind keeps; None if the model has none of it."""

    dense: Kept | None
    sparse: Kept | None

    @classmethod
    def of(cls, shape: Shape) -> "Layers":
        """The layers of the model of `shape`."""
        model = shape.model
        has_dense = model.mlp is not None and model.dense_layers
        return cls(
            Kept.of(dense_tensors(shape), shape) if has_dense else None,
            Kept.of(expert_tensors(shape), shape) if model.moe is not None else None,
        )


def dense_tensors(shape: Shape) -> list[Tensor]:
    """What a dense layer saves."""
    mlp = shape.model.mlp
    assert mlp is not None
    width = shape.tokens * mlp.hidden / shape.layout.tp
    return [
        *_attention(shape),
        *_normed(shape),
        *_feed_forward(shape, width, mlp.gated, ("mlp",), ("mlp",)),
    ]


def expert_tensors(shape: Shape) -> list[Tensor]:
    """What a layer with experts saves, on the rank with the most tokens.

    Weights of experts are applied in the activation function, so that their outputs are not kept
    (Megatron-Core since 0.12).
    """
    model, layout = shape.model, shape.layout
    moe = model.moe
    assert moe is not None
    gated = model.mlp.gated if model.mlp else True
    rows = shape.tokens / layout.tp * moe.top_k * layout.expert_imbalance
    tensors = [
        *_attention(shape),
        *_normed(shape),
        Tensor(_input_bytes(shape) * rows * model.hidden * (1 - layout.frozen_weights), ("moe",)),
        *_feed_forward(shape, rows * moe.hidden, gated, ("moe",), ("moe", "moe_act")),
    ]
    if moe.shared_hidden:
        width = shape.tokens * moe.shared_hidden / layout.tp
        dropping: tuple[RecomputeModule, ...] = ("shared_experts", "moe")
        tensors += _feed_forward(shape, width, gated, dropping, dropping)
    return tensors


def _attention(shape: Shape) -> Iterator[Tensor]:
    """Norm, queries, keys, values, and the output, which its projection keeps as well."""
    model, layout, tokens = shape.model, shape.layout, shape.tokens
    heads = model.attention.heads / layout.tp
    hidden = shape.plain_tokens * model.hidden
    yield Tensor(ACTIVATION_BYTES * hidden, is_input=True)
    yield Tensor(_normed_bytes(shape) * hidden, ("layernorm",))
    latent = model.attention.latent
    keys = heads if latent else shape.kv_heads
    query, key, value = (
        ACTIVATION_BYTES * tokens * n * width
        for n, width in ((heads, model.head_dim), (keys, model.head_dim), (keys, model.v_head_dim))
    )
    if latent is not None:
        low_rank = latent.kv_rank + latent.rope_dim + (latent.q_rank or 0)
        yield Tensor(2 * ACTIVATION_BYTES * tokens * low_rank, saved_singly=True)  # and normed
    if model.attention.qk_norm != "none":
        yield Tensor(query + key)
    yield Tensor(query, ("mla_up_proj",) if latent else (), saved_singly=True)
    yield Tensor(key, ("mla_up_proj",) if latent else ())
    yield Tensor(value, ("mla_up_proj",) if latent else (), saved_singly=True)
    output = tokens * heads * model.v_head_dim
    yield Tensor(ACTIVATION_BYTES * output, saved_singly=True)
    if layout.narrow_activations == NarrowActivations.INPUTS and not layout.frozen_weights:
        yield Tensor((_input_bytes(shape) % ACTIVATION_BYTES) * output)  # beside that of attention
    if layout.kept_attention_scores:
        score_bytes = ACTIVATION_BYTES + (ACTIVATION_BYTES + MASK_BYTES) * layout.dropout
        scores = layout.micro_batch * heads * shape.seq * shape.seq / layout.cp
        yield Tensor(score_bytes * scores, ("core_attn",))
    if layout.dropout:
        yield Tensor(2 * MASK_BYTES * hidden)
    if layout.kept_gathered_inputs:
        gathered = layout.kept_gathered_inputs * model.hidden * _keeps_gathered(shape)
        yield Tensor(ACTIVATION_BYTES * tokens * gathered)


def _keeps_gathered(shape: Shape) -> Number:
    """1 where inputs that tensor-parallel ranks gathered are kept, if the layout keeps any.

    In pipelines with ranks of several nodes they are gathered again: what nanotron's measured
    memory says, at tp 2 to 8 against tp 16 and 32.
    """
    tp, pp = shape.layout.tp, shape.layout.pp
    return 1.0 * (tp > 1) * ((pp == 1) | (tp <= TENSOR_RANKS_OF_A_NODE))


def _normed(shape: Shape) -> Iterator[Tensor]:
    """Input and output of the norm before the feed-forward part or the experts."""
    hidden = shape.plain_tokens * shape.model.hidden
    yield Tensor(ACTIVATION_BYTES * hidden, saved_singly=True)
    yield Tensor(_normed_bytes(shape) * hidden, ("layernorm",))


def _normed_bytes(shape: Shape) -> float:
    """The output of a norm for the weight gradient; unfused also its input in fp32 and the product
    with the weight, as Hugging Face's models write it.
    """
    between = 0.0 if shape.layout.fused_norms else 4.0
    return _input_bytes(shape) * (1 - shape.layout.frozen_weights) + between


def _feed_forward(
    shape: Shape,
    width: Number,
    gated: bool,
    entering: tuple[RecomputeModule, ...],
    leaving: tuple[RecomputeModule, ...],
) -> list[Tensor]:
    """Input and output of the activation function, with the modules that drop them."""
    narrow = shape.layout.narrow_activations == NarrowActivations.ACTIVATIONS
    each = _input_bytes(shape) if narrow else ACTIVATION_BYTES
    activated = 1.0 if shape.layout.fused_gate else 2.0  # the gate before and after its function
    gate = [Tensor(activated * each * width, entering)] if gated else []
    return [
        Tensor(each * width, entering, saved_singly=True),
        *gate,
        Tensor(_input_bytes(shape) * width * (1 - shape.layout.frozen_weights), leaving),
    ]


def _input_bytes(shape: Shape) -> float:
    """Bytes of one element of a multiplication's input, kept for the weight gradient."""
    size = float(shape.layout.precision.size_bytes)
    narrow = shape.layout.narrow_activations != NarrowActivations.NOTHING
    return min(size, ACTIVATION_BYTES) if narrow else ACTIVATION_BYTES


def _sum(tensors: list[Tensor]) -> Number:
    return sum((tensor.bytes for tensor in tensors), start=0.0)
