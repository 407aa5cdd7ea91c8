import pytest

from syncwall.describe import Layout
from syncwall.work.activations import SavedBytes, layer_tensors
from syncwall.work.layer import Shape
from tests.describe.samples import MOE, model

SEQ = 1024
HIDDEN, FFN = model().hidden, 14336
QUERIES = model().attention.heads * model().head_dim
KEYS = model().kv_heads * model().head_dim


def kept(sparse: bool = False, **fields) -> SavedBytes:
    one = model(moe=MOE, mlp=None) if sparse else model()
    shape = Shape(one, Layout.model_validate(fields).resolved(1), SEQ)
    return SavedBytes.of(layer_tensors(shape, one.layer_kinds[0]), shape)


def test_a_dense_layer_keeps_what_korthikanti_counts_for_fused_attention():
    """Inputs and outputs of norms, queries, keys, values, output, gate, up and their product."""
    elements = 4 * HIDDEN + 2 * QUERIES + 2 * KEYS + 3 * FFN
    assert kept().until_backward == 2 * SEQ * elements


def test_unfused_attention_keeps_its_scores_and_dropout_its_masks():
    """Korthikanti 2022: 5 a s^2 b of scores, one byte for each element of two masks."""
    heads, plain = model().attention.heads, kept().everything
    scores = kept(kept_attention_scores=True).everything - plain
    assert scores == 2 * heads * SEQ**2
    dropped = kept(kept_attention_scores=True, dropout=True).everything - plain
    assert dropped == 5 * heads * SEQ**2 + 2 * SEQ * HIDDEN
    selective = kept(kept_attention_scores=True, recompute="selective").until_backward
    assert selective == plain


def test_transformer_engine_keeps_inputs_of_multiplications_narrow():
    fp8 = kept(precision="fp8", narrow_activations="inputs").everything
    narrow = 2 * HIDDEN + FFN  # a byte less each; the output of attention is kept twice
    assert kept().everything - fp8 == SEQ * (narrow - QUERIES)
    all_narrow = kept(precision="fp8", narrow_activations="activations").everything
    assert all_narrow == kept().everything - SEQ * (2 * HIDDEN + 3 * FFN)
    assert kept(precision="fp8").everything == kept().everything  # torchao keeps 16 bits


@pytest.mark.parametrize(
    ("modules", "elements"),
    [
        (["core_attn"], 0),
        (["layernorm"], 2 * HIDDEN),
        (["mlp"], 3 * FFN),
        (["layernorm", "mlp"], 2 * HIDDEN + 3 * FFN),
    ],
)
def test_modules_that_are_recomputed_are_not_kept(modules, elements):
    found = kept(recompute="selective", recompute_modules=modules)
    assert found.everything - found.until_backward == 2 * SEQ * elements
    half = kept(recompute="selective", recompute_modules=modules, recompute_layers=16)
    assert half.everything - half.until_backward == SEQ * elements


def test_experts_keep_their_tokens_and_not_their_output():
    found = kept(sparse=True)
    width = MOE["hidden"]
    rows = MOE["top_k"] * (HIDDEN + 3 * width) + 3 * MOE.get("shared_hidden", 0)
    assert found.everything == 2 * SEQ * (4 * HIDDEN + 2 * QUERIES + 2 * KEYS + rows)
    act = kept(sparse=True, recompute="selective", recompute_modules=["moe_act"])
    assert act.everything - act.until_backward == 2 * SEQ * MOE["top_k"] * width


def test_every_second_operation_is_kept_as_torchtitan_does():
    """The input, queries, values, attention, gate and the sum before the second norm."""
    elements = 2 * HIDDEN + 2 * QUERIES + KEYS + FFN
    assert kept(recompute="operations").until_backward == 2 * SEQ * elements


def test_kernels_that_are_not_fused_keep_what_is_between():
    more = kept(fused_norms=False).everything - kept().everything
    assert more == 2 * 4 * SEQ * HIDDEN
    assert kept(fused_gate=False).everything - kept().everything == 2 * SEQ * FFN


def elements(one, **fields) -> float:
    """Bytes of a token that a layer of `one` keeps, written out kernel by kernel unless stated."""
    plain = {"fused_norms": False, "fused_gate": False}
    shape = Shape(one, Layout.model_validate(plain | fields).resolved(1), SEQ)
    return float(SavedBytes.of(layer_tensors(shape, one.layer_kinds[0]), shape).everything) / SEQ


def test_a_layer_norm_is_one_kernel_of_pytorch():
    layer_norm = model(norm={"kind": "layer"})
    assert elements(layer_norm) == elements(layer_norm, fused_norms=True)
    assert elements(model()) - elements(layer_norm) == 2 * 4 * HIDDEN


def test_a_norm_in_fp32_needs_no_copy_of_its_input():
    """Input, product with the weight and output, four bytes each; not the input a second time."""
    more = elements(model(), precision="fp32") - elements(model(), precision="fp32", fused_norms=True)
    assert more == 2 * 4 * HIDDEN


def test_norms_behind_attention_and_mlp_keep_their_inputs():
    twice = model(norm={"per_layer": 4})
    assert elements(twice, fused_norms=True) - elements(model(), fused_norms=True) == 4 * HIDDEN
    assert elements(twice) - elements(model()) == 2 * 6 * HIDDEN


def test_a_parallel_layer_has_one_norm():
    assert elements(model(), fused_norms=True) - elements(
        model(norm={"per_layer": 1}), fused_norms=True
    ) == 2 * (2 * HIDDEN)


def test_norms_of_queries_and_keys_are_written_out_too():
    normed = model(attention={"heads": 32, "kv_heads": 8, "qk_norm": "head"})
    assert elements(normed) - elements(model()) == 6 * (QUERIES + KEYS)


def test_attention_that_is_written_out_keeps_a_wide_softmax_and_keys_of_every_query_head():
    heads = model().attention.heads
    more = elements(model(), kept_attention_scores=True) - elements(model())
    assert more == 6 * heads * SEQ + 2 * 2 * (QUERIES - KEYS)
    masked = elements(model(), kept_attention_scores=True, dropout=True)
    assert masked - elements(model(), dropout=True) == more + heads * SEQ


def test_outputs_of_experts_are_kept_where_their_weights_are_applied_to_them():
    sparse = model(moe=MOE, mlp=None)
    activated = 2 * MOE["top_k"] * MOE["hidden"]  # the gate behind its function
    outputs = 2 * MOE["top_k"] * HIDDEN
    assert elements(sparse) - elements(sparse, fused_gate=True) == activated + outputs
