"""The mixture-of-experts part of a layer on one rank.

Holds `expert_parts`. Tokens are routed evenly times the layout's imbalance: the fullest rank sets
the pace. Source: GShard (Lepikhin 2020), Megatron-Core's token dispatcher.
"""

from syncwall.cause import Cause
from syncwall.work.layer import (
    ACTIVATION_BYTES,
    Shape,
    entering,
    feed_forward,
    leaving,
    norm_part,
    quantised,
)
from syncwall.work.number import Number
from syncwall.work.operations import Collective
from syncwall.work.parts import Part, elementwise, gemm


def expert_parts(shape: Shape) -> list[Part]:
    """Router, dispatch, routed experts, combine, and shared experts beside them."""
    model, layout = shape.model, shape.layout
    moe = model.moe
    assert moe is not None
    routed = _split_tokens(shape) * moe.top_k
    rows = routed * layout.expert_imbalance
    moved = ACTIVATION_BYTES * routed * model.hidden
    sent = moved * (layout.ep > 1)
    gated = model.mlp.gated if model.mlp else True
    tokens_out, tokens_back = _exchanged(shape, sent)
    merged = layout.merged_ep & (layout.ep > 1)
    copied = 2.0 - 1.0 * merged  # its kernels sort tokens while they send them
    shared: list[Part] = []
    if moe.shared_hidden:
        shared = [
            *entering(shape, "shared experts"),
            *feed_forward(shape, "shared experts", moe.shared_hidden / layout.tp, gated),
            *leaving(shape, "shared experts"),
        ]
    return [
        norm_part(shape, "expert norm"),
        gemm(
            "router", Cause.GEMM, _split_tokens(shape), moe.experts, model.hidden, layout.precision
        ),
        *shared,
        elementwise("permute", copied * moved, kernels=2),
        tokens_out,
        *_routed(shape, rows, gated),
        tokens_back,
        elementwise("unpermute", copied * moved, kernels=2),
    ]


def _exchanged(shape: Shape, sent: Number) -> tuple[Part, Part]:
    """Tokens on their way to the experts and back."""
    layout, moe = shape.layout, shape.model.moe
    assert moe is not None
    waited_for = 1.0 - (1.0 - layout.ep_left) * layout.overlap_ep
    copies = 1 + (moe.top_k - 1) * layout.merged_ep
    lane = shape.ep
    moved = Collective("all-to-all", sent, lane.group, copies=copies)
    parts = [
        Part(name, lane.cause, moved, (moved,), lane.stream, waited_for)
        for name in ("dispatch", "combine")
    ]
    return parts[0], parts[1]


def _split_tokens(shape: Shape) -> Number:
    """Tokens that a rank routes: the tensor-parallel group shares them out."""
    return shape.tokens / shape.layout.tp


def _routed(shape: Shape, rows: Number, gated: bool) -> list[Part]:
    """One grouped multiplication over the experts of a rank, `rows` rows in all."""
    model, layout = shape.model, shape.layout
    moe = model.moe
    assert moe is not None
    local = moe.experts / layout.ep
    width, into = moe.hidden / layout.etp, 2 if gated else 1
    all_rows = rows * layout.etp
    per_expert = all_rows / local
    dtype = layout.precision
    return [
        *quantised(shape, "experts", all_rows, model.hidden),
        gemm("experts up", Cause.GEMM, per_expert, into * width, model.hidden, dtype, count=local),
        elementwise("experts activation", (into + 1) * ACTIVATION_BYTES * all_rows * width),
        *quantised(shape, "experts down", all_rows, width),
        gemm("experts down", Cause.GEMM, per_expert, model.hidden, width, dtype, count=local),
    ]
