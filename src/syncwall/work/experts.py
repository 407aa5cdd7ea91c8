"""The mixture-of-experts part of a layer on one rank.

Holds `expert_parts`. Tokens are routed evenly times the layout's imbalance: the fullest rank sets
the pace. Source: GShard (Lepikhin 2020), Megatron-Core's token dispatcher.
"""

from dataclasses import replace
from math import inf

from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.describe.layout import Dispatcher
from syncwall.describe.matrices import feed_forward, gated_experts
from syncwall.describe.transformer import Moe
from syncwall.work.block import Scope, Stream
from syncwall.work.layer import (
    ACTIVATION_BYTES,
    Shape,
    entering,
    feed_forward_parts,
    leaving,
    norm_part,
    quantised,
)
from syncwall.work.number import Number, anywhere, where
from syncwall.work.operations import (
    Collective,
    CollectiveKind,
    Elementwise,
    Group,
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
        gemm(
            "router", Cause.GEMM, _split_tokens(shape), moe.experts, model.hidden, layout.precision
        ).within(Scope.ROUTER),
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
        elementwise("experts activation", (into + 1) * ACTIVATION_BYTES * all_rows * width),
        *quantised(shape, "experts down", all_rows, width),
        gemm("experts down", Cause.GEMM, per_expert, hidden, width, dtype, count=local),
        *biased,
    ]


def _apart(
    kind: str, elements: Number, bytes_: tuple[float, float], kernels: Number = 2
) -> LayerPart:
    """Kernels that only software without their fusion has, with so many bytes an element."""
    forward, backward = bytes_
    return LayerPart(
        f"experts {kind}",
        Cause.ELEMENTWISE,
        Elementwise(forward * elements, kernels, kind=kind),
        (Elementwise(backward * elements, 2 * kernels, kind=f"{kind} backward"),),
    )
