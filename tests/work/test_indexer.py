"""Sparse attention of DeepSeek-V3.2."""

import pytest

from syncwall.describe import Layout, Model, lookup
from syncwall.describe.matrices import indexer_matrices
from syncwall.describe.transformer import Indexer
from syncwall.work.flops import forward_flops
from syncwall.work.layer import Shape, attention_parts, selected_overhead
from syncwall.work.operations import CoreAttention, Gemm
from syncwall.work.parts import LayerPart

TOP_K = 2048


def dense() -> Model:
    return lookup.model("deepseek-v3")


def sparse() -> Model:
    indexer = Indexer(heads=64, head_dim=128, top_k=TOP_K)
    attention = dense().attention.model_copy(update={"indexer": indexer})
    return dense().model_copy(update={"attention": attention})


def parts(seq: int) -> dict[str, LayerPart]:
    layout = Layout().resolved(1)
    return {part.name: part for part in attention_parts(Shape(sparse(), layout, seq))}


def core(name: str) -> CoreAttention:
    what = parts(65536)[name].forward
    assert isinstance(what, CoreAttention)
    return what


def test_the_published_model_has_so_many_parameters():
    """What `transformers` builds of DeepSeek-V3.2 by default."""
    matrices = sum(one.parameters for one in indexer_matrices(sparse()).values())
    norm = 2 * 128
    assert sparse().parameters - dense().parameters == 61 * (matrices + norm)
    assert sparse().parameters == pytest.approx(671.878e9, rel=1e-6)


def test_attention_sees_no_more_tokens_than_were_chosen():
    chosen = core("attention to chosen tokens")
    assert chosen.pairs == pytest.approx(65536 * TOP_K - TOP_K * (TOP_K - 1) / 2)


def test_scores_of_the_indexer_are_of_all_tokens_before():
    scores = core("index scores")
    assert scores.pairs == pytest.approx(65536 * 65537 / 2)
    assert scores.model_flops == pytest.approx(2 * scores.pairs * 64 * 129)


def test_it_pays_from_long_sequences_on():
    """Below `top_k` tokens there is nothing to leave out, and the indexer comes on top."""
    assert forward_flops(sparse(), 2048)[0] > forward_flops(dense(), 2048)[0]
    assert forward_flops(sparse(), 131072)[0] < 0.5 * forward_flops(dense(), 131072)[0]


def test_the_kernel_computes_in_the_latent_width_what_mfu_counts_with_whole_heads():
    chosen = core("attention to chosen tokens")
    assert selected_overhead(sparse()) == pytest.approx((512 + 64 + 512) / (192 + 128))
    assert chosen.flops == pytest.approx(3.4 * chosen.model_flops)


def test_gradients_end_at_the_inputs_of_the_indexer():
    backward = parts(4096)["index queries"].backward
    assert [isinstance(what, Gemm) and what.is_weight_gradient for what in backward] == [True]
    assert parts(4096)["index choice"].backward == ()


def test_an_indexer_without_latent_attention_is_refused():
    plain = lookup.model("llama-3.1-8b").model_dump(exclude_none=True, by_alias=True)
    plain["attention"]["indexer"] = {"heads": 4, "head_dim": 32, "top_k": 64}
    with pytest.raises(ValueError, match="needs `latent`"):
        Model.model_validate(plain)
