"""Every kind of layer of a model on one rank, as parts: experts, mixers, sparse attention,
counted layers.

Tokens are routed evenly times the layout's imbalance: the fullest rank sets the pace. Source:
GShard (Lepikhin 2020), Megatron-Core's token dispatcher.

The sequence is cut into chunks: within one, tokens meet as in attention; from one to the next goes
a state of fixed size. Products of a chunk are counted whole, as kernels compute them, not below the
diagonal only.

Sources: Mamba-2 (Dao and Gu 2024, listing 1 and section 6) with the kernels of mamba-ssm; gated
DeltaNet and Kimi Delta Attention as flash-linear-attention computes them (Yang 2024, section 3.3);
lightning attention (MiniMax-01, section 2.2).
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Final

from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.describe.layer_kinds import LayerKind, Mixer, StackLayer
from syncwall.describe.layout import Dispatcher
from syncwall.describe.matrices import Matrices, feed_forward, gated_experts, mixer_matrices
from syncwall.describe.transformer import Moe
from syncwall.work.block import Scope, Stream
from syncwall.work.embedding_and_head import embedding_parts, output_layer_parts
from syncwall.work.encoder import cross_parts
from syncwall.work.layer import (
    ACTIVATION_BYTES,
    EAGER_ACTIVATIONS,
    Shape,
    attention_parts,
    entering,
    feed_forward_parts,
    leaving,
    mlp_parts,
    norm_part,
    product,
    quantised,
)
from syncwall.work.mtp import mtp_parts
from syncwall.work.number import Number, anywhere, most, rounded_up, where
from syncwall.work.operations import (
    Collective,
    CollectiveKind,
    Elementwise,
    Group,
    Scan,
    expected_places,
)
from syncwall.work.parts import Lane, LayerPart, elementwise, exchange, gemm

CLAMP_BYTES = (8.0, 10.0)
"""Memory traffic an element, forward and backward, to clamp both halves of the activation's input
and to put them together again (Megatron-Core's `weighted_bias_quick_geglu_impl`)."""
BIAS_BYTES = (28.0, 36.0)
"""The same to add the bias of each expert, times probabilities in 32 bits, expert by expert, and to
put all together in 16 bits again (Megatron-Core's `TEGroupedMLP._apply_bias`)."""


def expert_parts(shape: Shape) -> list[LayerPart]:
    """Router, dispatch, routed experts, combine, and shared experts beside them."""
    model, layout = shape.model, shape.layout
    moe = model.moe
    assert moe is not None
    padding = where(layout.dropless, 1.0, layout.capacity_factor)  # groups of a fixed size
    routed = _split_tokens(shape) * moe.top_k * padding
    moved = ACTIVATION_BYTES * routed * (moe.latent or model.hidden)
    sorted_bytes = moved * _sorted(layout, moe)
    gated = gated_experts(model)
    shared: list[LayerPart] = []
    if moe.shared_hidden:
        shared = [
            *entering(shape, "shared experts"),
            *feed_forward_parts(
                shape, "shared experts", feed_forward(model.hidden, moe.shared_hidden, gated)
            ),
            *leaving(shape, "shared experts"),
        ]
    return [
        norm_part(shape, "expert norm").within(Scope.ROUTER),
        gemm("router", Cause.GEMM, _split_tokens(shape), moe.experts, model.hidden, layout.precision).within(
            Scope.ROUTER
        ),
        *shared,
        *_projected(shape, "latent down"),
        _sorting("permute", sorted_bytes),
        *_exchanged(shape, "dispatch", moved),
        *_within_experts(shape, "all-gather", moved),
        *_routed(shape, routed * layout.expert_imbalance, gated),
        *_within_experts(shape, "reduce-scatter", moved),
        *_exchanged(shape, "combine", moved),
        _sorting("unpermute", sorted_bytes),
        *_projected(shape, "latent up"),
    ]


def _projected(shape: Shape, name: str) -> list[LayerPart]:
    """Tokens on their way to the width of routed experts ("latent down") or back, if it is another;
    the tensor-parallel group shares them out, as in Megatron-Core.
    """
    model, dtype = shape.model, shape.layout.precision
    width = model.moe.latent if model.moe else None
    if width is None:
        return []
    into, out = (model.hidden, width) if name == "latent down" else (width, model.hidden)
    return [gemm(name, Cause.GEMM, _split_tokens(shape), out, into, dtype)]


def _sorted(layout: Layout, moe: Moe) -> Number:
    """Memory traffic to sort tokens by expert, over the size of all their copies.

    Each copy is written, and read from the one token that it is of. Before an all-to-all they are
    sorted by rank, and what comes is sorted again if a rank has several experts; DeepEP sends
    unsorted tokens, of which each rank then makes copies for its experts.
    """
    merged = (layout.dispatcher >= Dispatcher.DEEPEP) & (layout.ep > 1)
    several = 1.0 * (moe.experts > layout.ep)
    got_once = expected_places(layout.ep, moe.top_k) / moe.top_k
    plainly = 1.0 + 1.0 / moe.top_k + 2.0 * several * (layout.ep > 1)
    return where(merged, (1.0 + got_once) * several, plainly)


def _sorting(name: str, bytes_: Number) -> LayerPart:
    """Tokens put in another order; their gradients go the same way back."""
    moved = Elementwise(bytes_, 2, kind=name)
    return LayerPart(name, Cause.ELEMENTWISE, moved, (moved,))


def _exchanged(shape: Shape, name: str, moved: Number) -> list[LayerPart]:
    """Tokens on their way to the experts ("dispatch") or back: a copy for each expert, for each
    rank and domain, or all of them for everybody.
    """
    layout, moe, lane = shape.layout, shape.model.moe, shape.ep
    assert moe is not None
    if not anywhere(layout.ep > 1):
        return []
    waited_for = _waited_for(layout)
    gathering = (layout.dispatcher == Dispatcher.ALL_GATHER) & (layout.ep > 1)
    sent = moved * (layout.ep > 1) * (1 - gathering)
    narrow = layout.fp8_dispatch and name == "dispatch"
    copies = 1 + (moe.top_k - 1) * (layout.dispatcher >= Dispatcher.DEEPEP)
    domains = float(moe.node_limit or inf)
    back = Collective("all-to-all", sent, lane.group, copies=copies, domains=domains)
    out = replace(back, bytes=sent / 2.0) if narrow else back
    parts = [LayerPart(name, lane.cause, out, (back,), lane.stream, waited_for)]
    if anywhere(gathering):
        width = moe.latent or shape.model.hidden
        everything = ACTIVATION_BYTES * _split_tokens(shape) * layout.ep * width
        kind: CollectiveKind = "all-gather" if name == "dispatch" else "reduce-scatter"
        parts += exchange(name, kind, everything * gathering, lane, waited_for)
    return parts


def _within_experts(shape: Shape, kind: CollectiveKind, moved: Number) -> list[LayerPart]:
    """Tokens of all ranks that share an expert, for each of them, and the sum of what they make."""
    layout = shape.layout
    if not anywhere(layout.etp > 1):
        return []
    lane = Lane(Group("ep", layout.etp), Stream.EXPERT)
    size = moved * layout.etp * (layout.etp > 1)
    return exchange(f"experts {kind}", kind, size, lane, _waited_for(layout))


def _waited_for(layout: Layout) -> Number:
    """Share of an exchange of tokens that computation waits for.

    Without ranks of other experts there is no overlap: Megatron-Core refuses it.
    """
    return 1.0 - (1.0 - layout.ep_exposed_share) * layout.overlap_ep * (layout.ep > 1)


def _split_tokens(shape: Shape) -> Number:
    """Tokens that a rank routes: the tensor-parallel group shares them out."""
    return shape.tokens / shape.layout.tp


def _routed(shape: Shape, rows: Number, gated: bool) -> list[LayerPart]:
    """One grouped multiplication over the experts of a rank, `rows` rows in all."""
    model, layout = shape.model, shape.layout
    moe = model.moe
    assert moe is not None
    local, hidden = moe.experts / layout.ep, moe.latent or model.hidden
    width, into = moe.hidden / layout.etp, 2 if gated else 1
    all_rows = rows * layout.etp
    per_expert = all_rows / local
    dtype = layout.precision
    clamped = [_apart("clamp", all_rows * into * width, CLAMP_BYTES)] if moe.clamped else []
    biased = [_apart("bias", all_rows * hidden, BIAS_BYTES, local)] if moe.expert_bias else []
    return [
        *quantised(shape, "experts", all_rows, hidden),
        gemm("experts up", Cause.GEMM, per_expert, into * width, hidden, dtype, count=local),
        *clamped,
        elementwise(
            "experts activation",
            (into + 1) * ACTIVATION_BYTES * all_rows * width,
            eager=EAGER_ACTIVATIONS[into],
        ),
        *quantised(shape, "experts down", all_rows, width),
        gemm("experts down", Cause.GEMM, per_expert, hidden, width, dtype, count=local),
        *biased,
    ]


def _apart(kind: str, elements: Number, bytes_: tuple[float, float], kernels: Number = 2) -> LayerPart:
    """Kernels that only software without their fusion has, with so many bytes an element."""
    forward, backward = bytes_
    return LayerPart(
        f"experts {kind}",
        Cause.ELEMENTWISE,
        Elementwise(forward * elements, kernels, kind=kind),
        (Elementwise(backward * elements, 2 * kernels, kind=f"{kind} backward"),),
    )


BACKWARD = 3.0
"""Backward work of a scan over that forward: states and scores are computed again, then the
gradients of both sides of every product."""
STATE_BYTES = {
    "mamba-1": 0.0,
    "mamba-2": 12.0,
    "gated-delta": 4.0,
    "kimi-delta": 4.0,
    "lightning": 4.0,
}
"""Memory traffic of one element of a chunk's state: written and read in 16 bits; mamba-ssm writes
it in 32, passes it on and writes it in 16. Mamba-1's never leaves the multiprocessor."""


def mixer_parts(shape: Shape) -> list[LayerPart]:
    """Norm, projection, convolution, scan, gated norm and output projection."""
    model, tokens, tp = shape.model, shape.tokens, shape.layout.tp
    mixer = model.mixer
    assert mixer is not None
    matrices = mixer_matrices(mixer, model.hidden)
    into, width = mixer.input_width / tp, mixer.value_width / tp
    parts = [
        norm_part(shape, "mixer norm"),
        *quantised(shape, "mixer", shape.plain_tokens, model.hidden),
        *entering(shape, "mixer"),
        product(shape, "mixer input", tokens, matrices["in_proj"]),
        *_gates(shape, mixer),
        *_heads_for_sequence(shape, mixer, into + width),
        *_convolution(shape, mixer),
        *_steps(shape, matrices),
        *_scan(shape, mixer),
        elementwise("mixer gated norm", 3 * ACTIVATION_BYTES * tokens * width),
        *quantised(shape, "mixer output", tokens, width),
        product(shape, "mixer output", tokens, matrices["out_proj"]),
        *leaving(shape, "mixer"),
    ]
    return [part.within(Scope.ATTENTION) for part in parts]


def scan_flops(mixer: Mixer, tokens: Number) -> Number:
    """FLOP of the products of all chunks of `tokens`, forward."""
    chunk, keys, values = mixer.chunk, mixer.state, mixer.head_dim
    state = mixer.heads * keys * values
    if mixer.kind == "mamba-1":  # token by token: the state renewed, the output read from it
        return 2.0 * tokens * 2 * state
    if mixer.kind == "mamba-2":  # scores are those of a group, which several heads share
        within = chunk * (mixer.key_width + mixer.value_width)
        return 2.0 * tokens * (within + 2 * state)
    if mixer.kind == "lightning":
        return 2.0 * tokens * (chunk * mixer.heads * (keys + values) + 2 * state)
    within = chunk * mixer.heads * (3 * keys + 2 * values)
    return 2.0 * tokens * (within + 3 * state)


def _scan(shape: Shape, mixer: Mixer) -> list[LayerPart]:
    """All chunks, and the states between them; of a gated convolution its first gate."""
    tokens, tp = shape.tokens, shape.layout.tp
    if mixer.kind == "short-conv":
        moved = 3 * ACTIVATION_BYTES * tokens * mixer.value_width / tp
        return [elementwise("mixer input gate", moved)]
    flops, moved = scan_flops(mixer, tokens) / tp, _scan_bytes(mixer) * tokens / tp
    by_token = mixer.kind == "mamba-1"
    forward = Scan(flops, moved, tokens, mixer.chunk, mixer.heads / tp, by_token=by_token)
    backward = replace(forward, flops=BACKWARD * flops, bytes=BACKWARD * moved, is_backward=True)
    return [LayerPart("scan", Cause.ATTENTION, forward, (backward,))]


def _scan_bytes(mixer: Mixer) -> float:
    """Memory traffic for one token forward.

    Values, keys and queries are read for the states and again for the output, which is written;
    scores (and with the delta rule the values and keys that it changed) go through memory once.
    """
    if mixer.kind == "mamba-1":  # values, time steps, gate and output; keys and queries
        return ACTIVATION_BYTES * (4 * mixer.value_width + 2 * mixer.key_width)
    states = mixer.heads * mixer.state * mixer.head_dim / mixer.chunk
    moved = ACTIVATION_BYTES * (2 * mixer.mixed_width + mixer.value_width)
    if mixer.kind == "mamba-2":
        between = 8.0 * mixer.groups * mixer.chunk
    elif mixer.kind == "lightning":
        between = 0.0
    else:
        changed = mixer.heads * (mixer.state + mixer.head_dim + mixer.chunk)
        between = 2 * ACTIVATION_BYTES * changed
    return moved + between + STATE_BYTES[mixer.kind] * states


def _gates(shape: Shape, mixer: Mixer) -> list[LayerPart]:
    """Decay and output gate out of their low rank, where they have one."""
    if mixer.gate_rank is None:
        return []
    width, dtype = mixer.value_width / shape.layout.tp, shape.layout.precision
    return [gemm("mixer gates", Cause.GEMM, shape.tokens, width, mixer.gate_rank, dtype, count=2)]


def _steps(shape: Shape, matrices: Matrices) -> list[LayerPart]:
    """Time steps, keys and queries of Mamba-1 out of its values, and time steps out of their rank.

    The sum over ranks that a split by tp would need is not counted.
    """
    names = {"mixer inner": "x_proj", "mixer time steps": "dt_proj"}
    return [
        product(shape, name, shape.tokens, matrices[one]) for name, one in names.items() if one in matrices
    ]


def _convolution(shape: Shape, mixer: Mixer) -> list[LayerPart]:
    """Short and for each dimension alone: limited by memory."""
    if not mixer.conv:
        return []
    width = mixer.mixed_width / shape.layout.tp
    return [elementwise("mixer convolution", 2 * ACTIVATION_BYTES * shape.tokens * width)]


def _heads_for_sequence(shape: Shape, mixer: Mixer, width: Number) -> list[LayerPart]:
    """With context parallelism a rank scans the whole sequence for a part of the heads, as
    Megatron-Core's Mamba layers do: what goes in and what comes out changes ranks. A convolution
    needs the few tokens before its part only.
    """
    if mixer.kind == "short-conv":
        return []
    size = ACTIVATION_BYTES * shape.tokens * width * (shape.layout.cp > 1)
    return exchange("mixer heads for sequence", "all-to-all", size, shape.cp)


DEPTH: Final = 2304
"""Numbers that go into each of a product's: 3 x 3 pixels of 256 channels, in the middle of ResNet's
and Stable Diffusion's convolutions. Assumed: the FLOPs of a layer are priced as one multiplication
of this depth with a square output, whatever they are."""
_ALIGNED: Final = 8


def stack_parts(shape: Shape, layer: StackLayer) -> list[LayerPart]:
    """Its products, and its memory traffic, which nothing hides; backward twice as much of both."""
    samples, dtype = shape.layout.micro_batch, shape.layout.precision
    wide = dtype.size_bytes / ACTIVATION_BYTES  # a stack is stated in 16 bits
    parts = []
    if layer.forward_flops:
        m, n = _square(layer.forward_flops * samples)
        parts.append(gemm(layer.name, Cause.GEMM, m, n, DEPTH, dtype))
    if layer.traffic_bytes:
        parts.append(_moved(layer.name, layer.traffic_bytes * wide * samples))
    return parts


def _square(flops: Number) -> tuple[Number, Number]:
    """Rows and columns of a product of so many FLOP, as many of both but for alignment."""
    columns = _ALIGNED * most(rounded_up((flops / (2.0 * DEPTH)) ** 0.5 / _ALIGNED), 1.0)
    return flops / (2.0 * DEPTH * columns), columns


def _moved(name: str, bytes_: Number) -> LayerPart:
    """Memory traffic as it was stated: no framework's habits are added to it."""
    forward = Elementwise(bytes_, is_fused=True, kind="stack")
    backward = Elementwise(2.0 * bytes_, is_fused=True, kind="stack backward")
    return LayerPart(f"{name} traffic", Cause.ELEMENTWISE, forward, (backward,))


@dataclass(frozen=True, slots=True)
class Kinds:
    """Parts of both ends and of each kind of layer; none of a kind the model lacks."""

    attention: list[LayerPart]
    mixer: list[LayerPart]
    """What some layers have in the place of attention."""
    layers: tuple[tuple[LayerKind, list[LayerPart]], ...]
    """Whole layers, those without experts first."""
    embedding: list[LayerPart]
    output_layer: list[LayerPart]
    mtp: list[LayerPart]
    """A layer that predicts a token further ahead."""

    @classmethod
    def of(cls, shape: Shape) -> "Kinds":
        """Of a rank with this `shape`."""
        model = shape.model
        if model.stack is not None:
            stack = tuple(
                (kind, stack_parts(shape, kind.counted)) for kind in model.layer_kinds if kind.counted
            )
            return cls([], [], stack, [], [], [])
        attends = model.attention_layers or model.mtp_layers
        by_letter: dict[str, list[LayerPart]] = {
            "*": [*attention_parts(shape), *cross_parts(shape)] if attends else [],
            "M": mixer_parts(shape) if model.mixer is not None else [],
            "-": mlp_parts(shape) if model.mlp is not None else [],
            "E": expert_parts(shape) if model.moe is not None else [],
        }

        def parts(kind: LayerKind) -> list[LayerPart]:
            every = [part for letter in kind.letters for part in by_letter[letter]]
            if kind.mixer != "M*":
                return every
            return [part for part in every if part.name != "attention norm"]  # that of the mixer

        output_layer = output_layer_parts(shape)
        mtp = mtp_parts(shape, parts(model.mtp_kind), output_layer) if model.mtp_layers else []
        layers = tuple((kind, parts(kind)) for kind in model.layer_kinds)
        embedding = embedding_parts(shape)
        return cls(by_letter["*"], by_letter["M"], layers, embedding, output_layer, mtp)
