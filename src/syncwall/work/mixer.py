"""A mixer in the place of attention on one rank, as parts: Mamba-2 and linear attention.

Holds `mixer_parts` and `scan_flops`. The sequence is cut into chunks: within one, tokens meet as in
attention; from one to the next goes a state of fixed size. Products of a chunk are counted whole,
as kernels compute them, not below the diagonal only.

Sources: Mamba-2 (Dao and Gu 2024, listing 1 and section 6) with the kernels of mamba-ssm; gated
DeltaNet and Kimi Delta Attention as flash-linear-attention computes them (Yang 2024, section 3.3);
lightning attention (MiniMax-01, section 2.2).
"""

from dataclasses import replace

from syncwall.cause import Cause
from syncwall.describe.layer_kinds import Mixer
from syncwall.describe.matrices import Matrices, mixer_matrices
from syncwall.work.block import Scope
from syncwall.work.layer import (
    ACTIVATION_BYTES,
    Shape,
    entering,
    leaving,
    norm_part,
    product,
    quantised,
)
from syncwall.work.number import Number
from syncwall.work.operations import Scan
from syncwall.work.parts import LayerPart, elementwise, exchange, gemm

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
        product(shape, name, shape.tokens, matrices[one])
        for name, one in names.items()
        if one in matrices
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
