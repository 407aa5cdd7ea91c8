"""One transformer layer on one rank, as parts.

The indexer scores every earlier token with a few narrow heads of one shared key (its score the
weighted sum of their ReLUs), and attention sees the `top_k` best. Source: its implementation in
`transformers`; DeepSeek's report was not read for it.

What the price assumes, for none of it was measured: scores cost what fused attention of these heads
does, in 16 bits (DeepSeek's kernel has eight); they go through memory in 32 bits once, and are read
twice to pick. Attention to what was picked shares keys among all heads, in the latent width, and
finds them in cache. Every tensor-parallel rank scores with all heads; the indexer is trained by a
loss of its own, which is not counted, and whose gradient ends at its inputs.

Bytes are for 16-bit activations unless named otherwise.

Sources: Megatron-LM (Shoeybi 2019; Korthikanti 2022 for sequence parallelism), DeepSeek-V2 for
latent attention; element-wise traffic counted tensor by tensor for fused kernels.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from syncwall.cause import Cause
from syncwall.describe import Layout, Model
from syncwall.describe.choice import Dtype
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.layout import ContextKind
from syncwall.describe.matrices import (
    Matrices,
    Matrix,
    attention_matrices,
    feed_forward,
    indexer_matrices,
)
from syncwall.describe.transformer import SHIFT_SCALE_GATE, Transformer
from syncwall.work.block import Scope, Stream, groups
from syncwall.work.number import Number, anywhere, least, most
from syncwall.work.operations import (
    Collective,
    CoreAttention,
    Eager,
    Elementwise,
    Gemm,
    Group,
    GroupAxis,
)
from syncwall.work.parts import Lane, LayerPart, attention, elementwise, exchange, gemm, one_way

SCORE_BYTES = 12.0
"""Memory traffic of one score: written in 32 bits, and read twice by the kernel that picks."""


def indexer_parts(model: Transformer, tokens: Number, dtype: Dtype, core: CoreAttention) -> list[LayerPart]:
    """Projections, scores and choice before attention to what is chosen, `core`; if there are."""
    indexer = model.attention.indexer
    if indexer is None:
        return []
    queries, keys, weights = indexer_matrices(model).values()
    projections = {
        "index queries": Gemm(tokens, queries.rows, queries.columns, dtype),
        "index keys": Gemm(tokens, keys.rows + weights.rows, keys.columns, dtype),
    }
    scores = replace(
        core,
        heads=indexer.heads,
        head_dim=indexer.head_dim,
        v_dim=1,
        kv_heads=1,
        window=None,
        overhead=1.0,
    )
    choice = Elementwise(SCORE_BYTES * scores.batch * scores.pairs, kind="choice")
    return [
        *(LayerPart(name, Cause.GEMM, what, (what.for_weight,)) for name, what in projections.items()),
        attention("index scores", scores),
        LayerPart("index choice", Cause.ELEMENTWISE, choice, ()),
    ]


def selected_overhead(model: Transformer) -> float:
    """FLOP of attention with keys and values in the latent width, over those with whole heads."""
    latent = model.attention.latent
    if model.attention.indexer is None or latent is None:
        return 1.0
    return (2 * latent.kv_rank + latent.rope_dim) / (model.head_dim + model.v_head_dim)


ACTIVATION_BYTES = 2.0
CAST_BYTES = 4.0
"""Memory traffic to make one element narrow: two bytes read, one written, and its transpose for the
weight gradient."""
FOUR_BIT_CAST_BYTES = 5.0
"""The same for four bits: two bytes read for the largest value, two again, half a byte written, and
half for the transpose. Transformer Engine 2.19 on B300 takes 1.2 to 1.4 times mxfp8's time."""


@dataclass(frozen=True)
class Shape:
    """A rank's share: its tokens of a micro batch, and the numbers that cut tensors."""

    model: Model
    layout: Layout
    seq: Number

    @cached_property
    def tokens(self) -> Number:
        """Tokens of one micro batch on a rank (its part of the sequence)."""
        return self.layout.micro_batch * self.seq / self.layout.cp

    @property
    def document(self) -> Number:
        """Tokens that attend to each other: those of a document, or of the sequence."""
        stated = self.layout.document_tokens
        return self.seq if stated is None else least(stated, self.seq)

    @property
    def head_tokens(self) -> Number:
        """Tokens of one micro batch for which the output layer gives something."""
        return self.layout.micro_batch if self.model.classes else self.tokens

    @cached_property
    def plain_tokens(self) -> Number:
        """Tokens between the tensor-parallel regions: split by tp with sequence parallelism."""
        return self.tokens / (1 + self.layout.sp * (self.layout.tp - 1))

    @cached_property
    def kv_heads(self) -> Number:
        """Key and value heads on a rank; at least one, copied where tp is larger."""
        share = self.model.kv_heads / self.layout.tp
        return most(share, 1.0)

    @cached_property
    def scattered_bytes(self) -> Number:
        """One activation that sequence parallelism gathers or scatters along tp; else 0."""
        return self._hidden_bytes * (self.layout.tp > 1) * self.layout.sp

    @cached_property
    def summed_bytes(self) -> Number:
        """One activation that is all-reduced along tp without sequence parallelism; else 0."""
        return self._hidden_bytes * (self.layout.tp > 1) * (1 - self.layout.sp)

    @cached_property
    def tp_wait(self) -> Number:
        """Share of tensor-parallel communication that computation waits for."""
        return 1.0 - (1.0 - self.layout.tp_exposed_share) * self.layout.overlap_tp

    @cached_property
    def recomputed_layers(self) -> Number:
        """Share of a stage's layers to which recomputation applies."""
        if self.layout.recompute_layers is None:
            return 1.0
        share = self.layout.recompute_layers * self.layout.pp / self.model.layers
        return least(share, 1.0)

    @cached_property
    def known_parameters(self) -> dict[LayerKind, Any]:
        """What `rank_parameters.layer_parameters` has counted already."""
        return {}

    @cached_property
    def groups(self) -> dict[GroupAxis, Group]:
        """The ranks that communicate along each axis."""
        return groups(self.layout)

    @cached_property
    def tp(self) -> Lane:
        """Tensor-parallel communication."""
        return Lane(self.groups["tp"], Stream.TENSOR)

    @cached_property
    def cp(self) -> Lane:
        """Context-parallel communication."""
        return Lane(self.groups["cp"], Stream.CONTEXT)

    @cached_property
    def ep(self) -> Lane:
        """Tokens on their way to experts and back."""
        return Lane(self.groups["ep"], Stream.EXPERT)

    @property
    def _hidden_bytes(self) -> Number:
        return ACTIVATION_BYTES * self.tokens * self.model.hidden


def entering(shape: Shape, what: str) -> list[LayerPart]:
    """From split or copied activations to the whole ones that a column-parallel weight needs."""
    lane, wait = shape.tp, shape.tp_wait
    return [
        *exchange(f"{what} gather", "all-gather", shape.scattered_bytes, lane, wait),
        *one_way(f"{what} input gradient", shape.summed_bytes, lane, wait, forward=False),
    ]


def leaving(shape: Shape, what: str) -> list[LayerPart]:
    """From the partial sums of a row-parallel weight back to split or copied activations."""
    lane, wait = shape.tp, shape.tp_wait
    return [
        *one_way(f"{what} sum", shape.summed_bytes, lane, wait, forward=True),
        *exchange(f"{what} scatter", "reduce-scatter", shape.scattered_bytes, lane, wait),
    ]


def on_a_rank(matrix: Matrix, tp: Number) -> tuple[Number, Number]:
    """Rows and columns of a matrix by which a tensor-parallel rank multiplies."""
    rows = matrix.rows / tp if matrix.split == "rows" else matrix.rows
    return rows, matrix.columns / tp if matrix.split == "columns" else matrix.columns


def product(shape: Shape, name: str, tokens: Number, *matrices: Matrix) -> LayerPart:
    """`tokens` times matrices that have their input in common, side by side."""
    width: Number = 0.0
    columns: Number = 0.0
    for one in matrices:
        rows, columns = on_a_rank(one, shape.layout.tp)
        width = width + (most(rows, one.head) if one.head else rows)
    forward = Gemm(tokens, width, columns, shape.layout.precision)
    backward = (forward.for_input, forward.for_weight)
    return LayerPart(name, Cause.GEMM, forward, backward, matrices=matrices)


EAGER_NORMS = {"rms": Eager(21 / 4, 8)}
"""In PyTorch a layer norm is one kernel (read and written) beside the residual's sum (two read, one
written), as against two of both where they are one. The root mean square as model code writes it is
cast to 32 bits, squared, averaged, multiplied, cast back and scaled: 18 times 16 bits a number."""
EAGER_LAYER_NORM = Eager(5 / 4, 2)
EAGER_POSITIONS = Eager(10 / 2, 10)
"""Rotary: halves negated and joined, two products and their sum, for queries and for keys."""
EAGER_ACTIVATIONS = {1: Eager(1.0, 1), 2: Eager(5 / 3, 2)}
"""By the matrices before it: GELU is one kernel, a gate two."""


def norm_part(shape: Shape, name: str) -> LayerPart:
    """A norm and the residual beside it: read twice, written twice."""
    eager = EAGER_NORMS.get(shape.model.norm.kind, EAGER_LAYER_NORM)
    return elementwise(name, 4 * ACTIVATION_BYTES * shape.plain_tokens * shape.model.hidden, eager=eager)


def modulation(shape: Shape, name: str, vectors: int = SHIFT_SCALE_GATE) -> list[LayerPart]:
    """Vectors for a norm out of the conditioning of each sequence, and the tokens that they change:
    shifted and scaled before the part, gated behind it. Not split by tp.
    """
    if shape.model.conditioning is None:
        return []
    hidden, samples = shape.model.hidden, shape.layout.micro_batch
    passes = 2 if vectors == SHIFT_SCALE_GATE else 1
    moved = passes * 2 * ACTIVATION_BYTES * shape.plain_tokens * hidden
    return [
        gemm(f"{name} modulation", Cause.GEMM, samples, vectors * hidden, hidden, shape.layout.precision),
        elementwise(f"{name} modulated tokens", moved, kernels=passes),
    ]


def quantised(shape: Shape, name: str, tokens: Number, width: Number) -> list[LayerPart]:
    """The cast of a multiplication's input to a narrow format; nothing at 16 bits."""
    if shape.layout.precision.size_bytes >= ACTIVATION_BYTES:
        return []
    narrowest = shape.layout.precision.size_bytes < 1.0
    each = FOUR_BIT_CAST_BYTES if narrowest else CAST_BYTES
    return [elementwise(f"{name} cast", each * tokens * width)]


def attention_parts(shape: Shape) -> list[LayerPart]:
    """Norm, projections, attention and output projection."""
    model, heads = shape.model, shape.model.attention.heads / shape.layout.tp
    matrices, v_dim = attention_matrices(model), model.v_head_dim
    projections = (_latent if model.attention.latent else _grouped)(shape, matrices)
    gate = []
    if model.attention.gated:  # output and gate read, their product written
        moved = 3 * ACTIVATION_BYTES * shape.tokens * heads * v_dim
        gate = [elementwise("output gate", moved)]
    parts = [
        norm_part(shape, "attention norm"),
        *modulation(shape, "attention"),
        *quantised(shape, "attention", shape.plain_tokens, shape.model.hidden),
        *entering(shape, "attention"),
        *projections,
        *_context(shape, _cores(shape)),
        *gate,
        *_inner_norm(shape, "output norm", heads * v_dim, model.attention.output_norm),
        *quantised(shape, "output", shape.tokens, heads * v_dim),
        product(shape, "output projection", shape.tokens, matrices["o_proj"]),
        *leaving(shape, "attention"),
    ]
    return [part.within(Scope.ATTENTION) for part in parts]


def _cores(shape: Shape) -> list[LayerPart]:
    """Attention to a whole document and within a window, each with the share of its layers."""
    model, layout, cp = shape.model, shape.layout, shape.layout.cp
    whole = model.full_attention_layers / model.attention_layers
    ulysses = layout.cp_kind == ContextKind.ULYSSES
    of_heads, of_queries = 1 + (cp - 1) * ulysses, 1 + (cp - 1) * (1 - ulysses)

    def core(share: float, window: int | None) -> CoreAttention:
        return CoreAttention(
            batch=layout.micro_batch * share * (shape.seq / shape.document),
            heads=model.attention.heads / layout.tp / of_heads,
            q_len=shape.document / of_queries,
            kv_len=shape.document,
            head_dim=model.head_dim,
            v_dim=model.v_head_dim,
            kv_heads=most(shape.kv_heads / of_heads, 1.0),
            window=window,
            is_causal=model.attention.causal,
            pieces=1 + (cp - 1) * (layout.cp_kind == ContextKind.RING),
        )

    if model.attention.indexer is not None:
        chosen = core(1.0, model.attention.indexer.top_k)
        what = replace(chosen, overhead=selected_overhead(model))
        before = indexer_parts(model, shape.tokens, layout.precision, what)
        return [*before, attention("attention to chosen tokens", what)]
    cores = [attention("attention", core(whole, None))] if whole else []
    if whole < 1:
        within = core(1 - whole, model.attention.window)
        cores.append(attention("attention in a window", within))
    return cores


def _grouped(shape: Shape, matrices: Matrices) -> list[LayerPart]:
    model, tokens = shape.model, shape.tokens
    heads = model.attention.heads / shape.layout.tp + shape.kv_heads
    into = (matrices[name] for name in ("q_proj", "k_proj", "v_proj"))
    rotary = 1.0 * model.has_rotary_positions
    turned = 2 * ACTIVATION_BYTES * tokens * heads * model.head_dim * rotary
    return [
        product(shape, "query key value", tokens, *into),
        elementwise("positions", turned, rotary, eager=EAGER_POSITIONS),
    ]


def _inner_norm(shape: Shape, name: str, width: Number, has: bool) -> list[LayerPart]:
    """A norm inside of attention or MLP, if there is one: read and written."""
    return [elementwise(name, 2 * ACTIVATION_BYTES * shape.tokens * width)] if has else []


def _latent(shape: Shape, matrices: Matrices) -> list[LayerPart]:
    tokens, tp = shape.tokens, shape.layout.tp
    down, up = matrices["kv_a_proj_with_mqa"], matrices["kv_b_proj"]
    if "q_proj" in matrices:
        queries = [product(shape, "queries", tokens, matrices["q_proj"])]
    else:
        rank = matrices["q_a_proj"].rows
        queries = [
            product(shape, "query down", tokens, matrices["q_a_proj"]),
            elementwise("query norm", 2 * ACTIVATION_BYTES * tokens * rank),
            product(shape, "query up", tokens, matrices["q_b_proj"]),
        ]
    width = shape.model.attention.heads / tp * shape.model.head_dim
    moved = 2 * ACTIVATION_BYTES * tokens * (2 * width + up.rows / tp)
    return [
        *queries,
        product(shape, "key value down", tokens, down),
        elementwise("key value norm", 2 * ACTIVATION_BYTES * tokens * down.rows),
        product(shape, "key value up", tokens, up),
        elementwise("positions", moved, eager=EAGER_POSITIONS),
    ]


def _context(shape: Shape, cores: list[LayerPart]) -> list[LayerPart]:
    """Attention with what it needs of the other context ranks.

    A ring passes keys and values on beside the attention to those that are there (Liu 2023; halves
    from both ends of the sequence give every step the same work), backward with their gradients;
    what the attention is too short for is waited for. Gathered, they are there before it, and
    gradients leave after it (Llama 3). Ulysses exchanges heads against sequence before and after.
    """
    model, layout, cp, lane = shape.model, shape.layout, shape.layout.cp, shape.cp
    if not anywhere(cp > 1):
        return cores
    kv_width = shape.kv_heads * (model.head_dim + model.v_head_dim)
    whole = ACTIVATION_BYTES * layout.micro_batch * shape.seq * kv_width * (cp > 1)
    ring = layout.cp_kind == ContextKind.RING
    ulysses = layout.cp_kind == ContextKind.ULYSSES
    gather = Collective("all-gather", whole * (1 - ulysses), lane.group)
    behind = Collective("reduce-scatter", whole * (1 - ulysses) * (1 - ring), lane.group)
    along = Collective("reduce-scatter", whole * ring, lane.group)
    queries = model.attention.heads / layout.tp * (model.head_dim + model.v_head_dim)
    copied = most(cp / shape.kv_heads, 1.0)  # with fewer of them than ranks
    swapped = ACTIVATION_BYTES * shape.tokens * (queries + kv_width * copied) * (cp > 1) * ulysses

    def moved(name: str, there: Collective | None, back: Collective | None) -> LayerPart:
        backward = () if back is None else (back,)
        return LayerPart(name, lane.cause, there, backward, lane.stream, beside_next=ring)

    return [
        *exchange("heads for sequence", "all-to-all", swapped, lane),
        replace(moved("gradients of keys and values", None, behind), beside_next=False),
        moved("keys and values", gather, None),
        *cores,
        moved("keys and values", None, gather),
        moved("gradients of keys and values", None, along),
    ]


def mlp_parts(shape: Shape) -> list[LayerPart]:
    """The feed-forward part of a dense layer."""
    mlp, hidden = shape.model.mlp, shape.model.hidden
    assert mlp is not None
    matrices = feed_forward(hidden, mlp.hidden, mlp.gated, mlp.bias)
    return [
        norm_part(shape, "MLP norm"),
        *modulation(shape, "MLP"),
        *quantised(shape, "MLP", shape.plain_tokens, hidden),
        *entering(shape, "MLP"),
        *feed_forward_parts(shape, "MLP", matrices, inner_norm=mlp.inner_norm),
        *leaving(shape, "MLP"),
    ]


def feed_forward_parts(
    shape: Shape, name: str, matrices: Matrices, *, inner_norm: bool = False
) -> list[LayerPart]:
    """Up (and gate), activation, norm, down for all tokens."""
    *into, down = matrices.values()
    tokens, width = shape.tokens, down.columns / shape.layout.tp
    activated = (len(into) + 1) * ACTIVATION_BYTES * tokens * width
    return [
        product(shape, f"{name} up", tokens, *into),
        elementwise(f"{name} activation", activated, eager=EAGER_ACTIVATIONS[len(into)]),
        *_inner_norm(shape, f"{name} inner norm", width, inner_norm),
        *quantised(shape, f"{name} down", tokens, width),
        product(shape, f"{name} down", tokens, down),
    ]
