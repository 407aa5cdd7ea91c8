"""Sparse attention of DeepSeek-V3.2: an indexer that picks the tokens which a query attends to.

Holds `indexer_parts` and `selected_overhead`. The indexer scores every earlier
token with a few narrow heads of one shared key (its score the weighted sum of their ReLUs), and
attention sees the `top_k` best. Source: its implementation in `transformers`; DeepSeek's report was
not read for it.

What the price assumes, for none of it was measured: scores cost what fused attention of these
heads does, in 16 bits (DeepSeek's kernel has eight); they go through memory in 32 bits once, and
are read twice to pick. Attention to what was picked shares keys among all heads, in the latent
width, and finds them in cache. Every tensor-parallel rank scores with all heads; the indexer is
trained by a loss of its own, which is not counted, and whose gradient ends at its inputs.
"""

from dataclasses import replace

from syncwall.cause import Cause
from syncwall.describe.choice import Dtype
from syncwall.describe.matrices import indexer_matrices
from syncwall.describe.transformer import Transformer
from syncwall.work.number import Number
from syncwall.work.operations import CoreAttention, Elementwise, Gemm
from syncwall.work.parts import LayerPart, attention

SCORE_BYTES = 12.0
"""Memory traffic of one score: written in 32 bits, and read twice by the kernel that picks."""


def indexer_parts(
    model: Transformer, tokens: Number, dtype: Dtype, core: CoreAttention
) -> list[LayerPart]:
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
        core, heads=indexer.heads, head_dim=indexer.head_dim, v_dim=1, kv_heads=1, window=None,
        overhead=1.0,
    )  # fmt: skip
    choice = Elementwise(SCORE_BYTES * scores.batch * scores.pairs, kind="choice")
    return [
        *(
            LayerPart(name, Cause.GEMM, what, (what.for_weight,))
            for name, what in projections.items()
        ),
        attention("index scores", scores),
        LayerPart("index choice", Cause.ELEMENTWISE, choice, ()),
    ]


def selected_overhead(model: Transformer) -> float:
    """FLOP of attention with keys and values in the latent width, over those with whole heads."""
    latent = model.attention.latent
    if model.attention.indexer is None or latent is None:
        return 1.0
    return (2 * latent.kv_rank + latent.rope_dim) / (model.head_dim + model.v_head_dim)
