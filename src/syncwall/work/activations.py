"""Activations that a layer keeps for its backward pass, tensor by tensor.

Holds `Tensor`, `layer_tensors`, `SavedBytes`, those of a layer by what is recomputed, and
`saved_by_kind`. Counted are the tensors that autograd saves with fused norms, activations and
rotary positions: inputs of norms, multiplications and activation
functions, and what attention saves.

Sources: Korthikanti 2022, table 2; Transformer Engine, which keeps the narrow copy of a
multiplication's input for the weight gradient; torchtitan's selective checkpointing per operation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from syncwall.describe.layer_kinds import BLOCKS, LayerKind, StackLayer
from syncwall.describe.layout import Recompute
from syncwall.describe.matrices import gated_experts
from syncwall.describe.switches import NarrowActivations, RecomputeModule, adapted
from syncwall.work.encoder import cross_bytes
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.layout_switches import ENTERING, autocasts, keeps_input
from syncwall.work.number import Number, anywhere, most

MASK_BYTES = 1.0
"""One element of a dropout mask."""
WIDE_BYTES = 4.0
"""One element in fp32."""
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
    gradient_bytes: Number = 0.0
    """Of its gradient, where it is one of the widest: those of a feed-forward part exist at once."""


@dataclass(frozen=True, slots=True)
class SavedBytes:
    """Bytes of one layer and micro batch."""

    everything: Number
    """What its backward pass needs."""
    until_backward: Number
    """What of that is kept from the forward pass on."""
    again: Number
    """What is computed again of a layer to which recomputation applies."""
    gradients: Number = 0.0
    """Gradients of its widest tensors, which exist at once in its backward pass."""

    @classmethod
    def of(cls, tensors: list[Tensor], shape: Shape) -> "SavedBytes":
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
        gradients = wide * sum((tensor.gradient_bytes for tensor in tensors), start=0.0)
        return cls(everything, everything - shape.recomputed_layers * spared, spared, gradients)


SavedByKind = dict[LayerKind, SavedBytes]


def saved_by_kind(shape: Shape) -> SavedByKind:
    """Of every kind of layer of the model of `shape`."""
    kinds = shape.model.layer_kinds
    return {kind: SavedBytes.of(layer_tensors(shape, kind), shape) for kind in kinds}


def further_saved(shape: Shape, saved: SavedByKind) -> SavedBytes:
    """Of a layer that predicts a further token: one like the last kind, in hybrids its own."""
    if shape.model.pattern is None:
        return list(saved.values())[-1]
    return SavedBytes.of(layer_tensors(shape, shape.model.mtp_kind), shape)


def layer_tensors(shape: Shape, kind: LayerKind) -> list[Tensor]:
    """What a layer of `kind` saves."""
    if kind.counted is not None:
        return _counted(shape, kind.counted)
    tensors: list[Tensor] = []
    for number, letter in enumerate(kind.mixer):
        own = list((_attention if letter == "*" else mixer_tensors)(shape))
        tensors += own[2:] if number else own  # side by side, both have one norm before them
    if kind.feed_forward and not (kind.mixer and shape.model.norm.per_layer == 1):
        tensors += _normed(shape, is_input=not kind.mixer)  # of a parallel layer there is only one
    tensors += _normed_again(shape, kind)
    if shape.layout.lora is not None:  # what adapters have between their products
        between = shape.layout.lora.rank * len(adapted(shape.model, kind, shape.layout.lora))
        tensors.append(Tensor(ACTIVATION_BYTES * shape.tokens * between))
    if kind.feed_forward == "-":
        mlp = shape.model.mlp
        assert mlp is not None
        width = shape.tokens * mlp.hidden / shape.layout.tp
        tensors += _feed_forward(shape, width, mlp.gated, ("mlp",), ("mlp",))
    elif kind.has_experts:
        tensors += _experts(shape)
    if shape.model.attention.cross:
        queries, keys = cross_bytes(shape)
        tensors += [*_normed(shape), *(Tensor(one, saved_singly=True) for one in 2 * [queries])]
        tensors.append(Tensor(keys))
    if shape.model.conditioning is not None:  # of each part, what is scaled and what is gated
        hidden = shape.plain_tokens * shape.model.hidden
        tensors.append(Tensor(2 * kind.blocks * ACTIVATION_BYTES * hidden))
    return tensors


def _experts(shape: Shape) -> list[Tensor]:
    """What experts save, on the rank with the most tokens.

    Where the activation function is one kernel, it applies the weights of experts too, so that
    their outputs are not kept (Megatron-Core since 0.12).
    """
    model, layout = shape.model, shape.layout
    moe = model.moe
    assert moe is not None
    gated, hidden = gated_experts(model), moe.latent or model.hidden
    rows = shape.tokens / layout.tp * moe.top_k * layout.expert_imbalance
    tensors = [
        Tensor(_input_bytes(shape) * rows * hidden * keeps_input(shape), ("moe",)),
        *_feed_forward(shape, rows * moe.hidden, gated, ("moe",), ("moe", "moe_act"), ""),
    ]
    if moe.shared_hidden:
        width = shape.tokens * moe.shared_hidden / layout.tp
        dropping: tuple[RecomputeModule, ...] = ("shared_experts", "moe")
        tensors += _feed_forward(shape, width, gated, dropping, dropping)
    if not layout.fused_gate:  # weights of experts are applied to their outputs, which stay
        tensors.append(Tensor(ACTIVATION_BYTES * rows * hidden, ("moe",)))
    if moe.latent:  # the input of the projection back; that of the first is the norm's output
        combined = shape.tokens / layout.tp * moe.latent
        tensors.append(Tensor(_input_bytes(shape) * combined * keeps_input(shape), ("moe",)))
    return tensors


def _attention(shape: Shape) -> Iterator[Tensor]:
    """Norm, queries, keys, values, and the output, which its projection keeps as well."""
    model, layout, tokens = shape.model, shape.layout, shape.tokens
    heads = model.attention.heads / layout.tp
    hidden = shape.plain_tokens * model.hidden
    yield Tensor(_residual_bytes(shape) * hidden, is_input=True)
    yield Tensor(_normed_bytes(shape, *ENTERING) * hidden, ("layernorm",))
    latent = model.attention.latent
    copied = layout.kept_attention_scores and not layout.fused_norms  # keys for every query head
    keys = heads if latent or copied else shape.kv_heads
    query, key, value = (
        ACTIVATION_BYTES * tokens * n * width
        for n, width in ((heads, model.head_dim), (keys, model.head_dim), (keys, model.v_head_dim))
    )
    if latent is not None:
        low_rank = latent.kv_rank + latent.rope_dim + (latent.q_rank or 0)
        yield Tensor(2 * ACTIVATION_BYTES * tokens * low_rank, saved_singly=True)  # and normed
        yield Tensor(_written_out_bytes(shape) * tokens * (low_rank - latent.rope_dim))
    indexer = model.attention.indexer
    if indexer is not None:  # its queries, key and weights of heads; choices in 32 bits
        index = (indexer.heads + 1) * indexer.head_dim + indexer.heads
        yield Tensor(tokens * (ACTIVATION_BYTES * index + 4.0 * indexer.top_k))
    if model.attention.qk_norm != "none":
        normed = tokens * model.head_dim * (heads + shape.kv_heads)
        yield Tensor((ACTIVATION_BYTES + _written_out_bytes(shape)) * normed)
    yield Tensor(query, ("mla_up_proj",) if latent else (), saved_singly=True)
    yield Tensor(key, ("mla_up_proj",) if latent else ())
    yield Tensor(value, ("mla_up_proj",) if latent else (), saved_singly=True)
    output = tokens * heads * model.v_head_dim
    yield Tensor(ACTIVATION_BYTES * output, saved_singly=True)
    if model.attention.gated:
        yield Tensor(2 * ACTIVATION_BYTES * output)  # the gate, and the output that it scaled
    if layout.narrow_activations == NarrowActivations.INPUTS and not layout.frozen_weights:
        yield Tensor((_input_bytes(shape) % ACTIVATION_BYTES) * output)  # beside that of attention
    if layout.kept_attention_scores:
        scores = layout.micro_batch * heads * shape.seq * shape.document / layout.cp
        yield Tensor(_score_bytes(shape) * scores, ("core_attn",))
    if layout.dropout:
        yield Tensor(2 * MASK_BYTES * hidden)
    if layout.kept_gathered_inputs:
        gathered = layout.kept_gathered_inputs * model.hidden * _keeps_gathered(shape)
        yield Tensor(ACTIVATION_BYTES * tokens * gathered)


def mixer_tensors(shape: Shape) -> Iterator[Tensor]:
    """Norm, what the projection gives, what the scan reads and writes, and its scaled output.

    mamba-ssm keeps the input of the convolution and computes its output again; others keep both.
    """
    mixer, tokens = shape.model.mixer, shape.tokens / shape.layout.tp
    assert mixer is not None
    hidden = shape.plain_tokens * shape.model.hidden
    yield Tensor(_residual_bytes(shape) * hidden, is_input=True)
    yield Tensor(_normed_bytes(shape) * hidden, ("layernorm",))
    yield Tensor(ACTIVATION_BYTES * tokens * mixer.input_width, saved_singly=True)
    if mixer.kind not in {"mamba-1", "mamba-2"}:
        scores = mixer.heads * mixer.chunk * mixer.kind.endswith("delta")
        yield Tensor(ACTIVATION_BYTES * tokens * (mixer.mixed_width + scores))
    if mixer.gate_rank is not None:  # decay in 32 bits, output gate
        yield Tensor((4.0 + ACTIVATION_BYTES) * tokens * mixer.value_width)
    yield Tensor(ACTIVATION_BYTES * tokens * mixer.value_width, saved_singly=True)
    yield Tensor(_input_bytes(shape) * keeps_input(shape) * tokens * mixer.value_width)


def _keeps_gathered(shape: Shape) -> Number:
    """1 where inputs that tensor-parallel ranks gathered are kept, if the layout keeps any.

    In pipelines with ranks of several nodes they are gathered again: what nanotron's measured
    memory says, at tp 2 to 8 against tp 16 and 32.
    """
    tp, pp = shape.layout.tp, shape.layout.pp
    return 1.0 * (tp > 1) * ((pp == 1) | (tp <= TENSOR_RANKS_OF_A_NODE))


def _normed(shape: Shape, *, is_input: bool = False) -> Iterator[Tensor]:
    """Input and output of the norm before the feed-forward part or the experts.

    In a layer that mixes no tokens, the first is the input of the layer (`is_input`).
    """
    hidden = shape.plain_tokens * shape.model.hidden
    yield Tensor(_residual_bytes(shape) * hidden, saved_singly=True, is_input=is_input)
    yield Tensor(_normed_bytes(shape, "gate_proj", "up_proj") * hidden, ("layernorm",))


def _counted(shape: Shape, layer: StackLayer) -> list[Tensor]:
    """Of a layer of a stack: what it hands on is all that is left of it if it is recomputed.

    It may keep less than that, where another layer keeps what it hands on: then the rest is below
    zero, and recomputation costs memory.
    """
    samples, output = shape.layout.micro_batch, layer.output_bytes or 0.0
    rest = layer.activation_bytes - output
    return [Tensor(output * samples, is_input=True), Tensor(rest * samples)]


def _normed_again(shape: Shape, kind: LayerKind) -> Iterator[Tensor]:
    """Outputs of attention and feed-forward part whose norm comes before the residual (Gemma 2)."""
    again = most(shape.model.norm.per_layer - BLOCKS, 0) * kind.blocks // BLOCKS
    hidden = shape.plain_tokens * shape.model.hidden
    yield Tensor((ACTIVATION_BYTES + _written_out_bytes(shape)) * again * hidden, ("layernorm",))


def _normed_bytes(shape: Shape, *into: str) -> Number:
    """The output of a norm for weight gradients of the matrices that it goes `into`, and what it
    keeps if it is written out.
    """
    return _input_bytes(shape) * keeps_input(shape, *into) + _written_out_bytes(shape)


def _residual_bytes(shape: Shape) -> Number:
    """One element of what goes from layer to layer."""
    return ACTIVATION_BYTES + (WIDE_BYTES - ACTIVATION_BYTES) * autocasts(shape.layout)


def _written_out_bytes(shape: Shape) -> Number:
    """What a norm that is not one kernel keeps more, as Hugging Face's models write it.

    The input of an RMS norm in fp32 and its product with the weight. Layer norms are a kernel of
    PyTorch's; those without weights get a copy of the input in fp32.
    """
    kind, layout = shape.model.norm.kind, shape.layout
    if layout.fused_norms or kind in ("layer", "layer-no-bias"):
        return 0.0
    wide = (layout.precision.size_bytes == WIDE_BYTES) | autocasts(layout)
    copy = 2.0 * (1 - wide)  # over that in 16 bits
    return copy + (_residual_bytes(shape) if kind == "rms" else 0.0)


def _score_bytes(shape: Shape) -> float:
    """One score of attention: the softmax, and with dropout its mask and what it leaves.

    Written out, the softmax is computed in fp32 and then made narrow.
    """
    layout = shape.layout
    if layout.fused_norms or layout.precision.size_bytes == WIDE_BYTES:
        return ACTIVATION_BYTES + (ACTIVATION_BYTES + MASK_BYTES) * layout.dropout
    return WIDE_BYTES + ACTIVATION_BYTES + MASK_BYTES * layout.dropout


def _feed_forward(
    shape: Shape,
    width: Number,
    gated: bool,
    entering: tuple[RecomputeModule, ...],
    leaving: tuple[RecomputeModule, ...],
    down: str = "down_proj",
) -> list[Tensor]:
    """Input and output of the activation function, with the modules that drop them.

    `down` is what adapters call the matrix behind it.
    """
    narrow = shape.layout.narrow_activations == NarrowActivations.ACTIVATIONS
    each = _input_bytes(shape) if narrow else ACTIVATION_BYTES
    activated = 1.0 if shape.layout.fused_gate else 2.0  # the gate before and after its function
    back = ACTIVATION_BYTES * width
    gate = [Tensor(activated * each * width, entering, gradient_bytes=back)] if gated else []
    return [
        Tensor(each * width, entering, saved_singly=True, gradient_bytes=back),
        *gate,
        Tensor(_input_bytes(shape) * width * keeps_input(shape, down), leaving, gradient_bytes=back),
    ]


def _input_bytes(shape: Shape) -> float:
    """Bytes of one element of a multiplication's input, kept for the weight gradient."""
    size = float(shape.layout.precision.size_bytes)
    narrow = shape.layout.narrow_activations != NarrowActivations.NOTHING
    return min(size, ACTIVATION_BYTES) if narrow else ACTIVATION_BYTES


def _sum(tensors: list[Tensor]) -> Number:
    return sum((tensor.bytes for tensor in tensors), start=0.0)
