from operator import attrgetter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.describe import Layout
from syncwall.work.flops import forward_flops
from syncwall.work.operations import Collective, CoreAttention, Gemm
from syncwall.work.pipeline_ranks import LayerCounts
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import MOE, model


def flops_of(blocks) -> float:
    total = 0.0
    for block in blocks:
        for operation in block.operations:
            what = operation.what
            if isinstance(what, Gemm):
                total += float(what.flops * block.rounds)
            elif isinstance(what, CoreAttention):
                total += float(what.model_flops * block.rounds)
    return total


@pytest.mark.parametrize("chosen", [model(), model(moe=MOE | {"dense_first": 2}), model(mtp_layers=1)])
def test_operations_of_one_gpu_add_up_to_the_model_flops(chosen):
    work = transformer_step(chosen, Layout(micro_batch=2).resolved(1), 1024)
    stage = work.stages[-1]
    assert flops_of((*stage.forward, *stage.backward)) == pytest.approx(float(work.model_flops))


@pytest.mark.parametrize("split", [{"tp": 4}, {"cp": 4}, {"tp": 2, "sp": True, "cp": 2}])
def test_splitting_a_layer_splits_its_flops(split):
    whole = transformer_step(model(), Layout().resolved(1), 4096).stages[-1]
    part = transformer_step(model(), Layout.model_validate(split).resolved(4), 4096).stages[-1]
    assert flops_of(part.forward) == pytest.approx(flops_of(whole.forward) / 4)


def test_full_recomputation_repeats_the_layers_but_not_the_head():
    work = transformer_step(model(), Layout(recompute="full").resolved(1), 1024)
    head = 2.0 * 1024 * 4096 * 32000
    assert work.recompute_flops == pytest.approx(float(work.model_flops) / 3 - head)


def test_half_of_the_layers_may_be_recomputed():
    every = transformer_step(model(), Layout(recompute="full").resolved(1), 1024)
    half = transformer_step(model(), Layout(recompute="full", recompute_layers=16).resolved(1), 1024)
    assert half.recompute_flops == pytest.approx(every.recompute_flops / 2)


@pytest.mark.parametrize(("layers", "pp"), [(32, 1), (32, 4), (126, 8), (94, 16), (61, 16), (5, 5)])
def test_layers_are_dealt_out_completely(layers, pp):
    counts = LayerCounts(model(layers=layers), Layout(pp=pp).resolved(pp))
    body = counts.body.dense * counts.body_ranks
    assert body + counts.last.dense == pytest.approx(layers)
    assert counts.last.dense <= counts.body.dense or pp == 1


@given(
    layers=st.integers(1, 128),
    pp=st.integers(1, 64),
    vocab=st.sampled_from([1000, 32000, 256000]),
    balanced=st.booleans(),
    sparse=st.booleans(),
)
def test_every_layer_has_a_place_and_no_rank_a_negative_number(layers, pp, vocab, balanced, sparse):
    assume(pp <= layers + 2)
    chosen = model(layers=layers, vocab=vocab, **({"moe": MOE} if sparse else {}))
    layout = Layout(pp=pp, balanced_stages=balanced).resolved(pp)
    counts = LayerCounts(chosen, layout)
    last = counts.last.dense + counts.last.sparse
    body = (counts.body.dense + counts.body.sparse) * counts.body_ranks
    assert body + last == pytest.approx(layers)
    assert min(counts.last.dense, counts.last.sparse, counts.body.dense, counts.body.sparse) >= 0
    assert counts.body_ranks <= pp - 1 + 1e-9
    many = LayerCounts(chosen, layout.model_copy(update={"pp": np.array([pp, 1])}))
    for name in ("last.dense", "last.sparse", "body.dense", "body.sparse", "body_ranks"):
        value = attrgetter(name)
        assert float(value(many)[0]) == pytest.approx(float(value(counts)))


@given(layers=st.integers(8, 128), pp=st.sampled_from([2, 4, 8]), vocab=st.integers(1000, 300_000))
def test_balanced_stages_have_the_same_number_of_parameters_at_work(layers, pp, vocab):
    """The fullest rank never has more than with whole layers, and the head counts as layers."""
    chosen = model(layers=layers, vocab=vocab)
    head = vocab * chosen.hidden
    each = (chosen.active_parameters - 2 * head) / layers

    def fullest(balanced: bool) -> tuple[float, float]:
        counts = LayerCounts(chosen, Layout(pp=pp, balanced_stages=balanced).resolved(pp))
        last = float(counts.last.dense) * each + head
        return max(float(counts.body.dense) * each, last), last

    balanced, last = fullest(True)
    assert balanced <= fullest(False)[0] * (1 + 1e-9)
    if last > head:  # some layers are left for the last rank
        assert balanced == pytest.approx(last)


def test_known_flops_of_llama_8b():
    """6 FLOP a parameter without the embedding, and attention below the diagonal."""
    llama = sw.model("llama-3.1-8b")
    total, core = forward_flops(llama, 8192)
    weights = llama.parameters - 128256 * 4096 - 65 * 4096
    assert total == pytest.approx(2.0 * weights * 8192 + core)
    assert core == pytest.approx(32 * 2 * 2 * 8192 * 8193 / 2 * 4096)


def test_a_window_sees_less():
    full, _ = forward_flops(model(), 8192)
    near, _ = forward_flops(model(attention={"heads": 32, "kv_heads": 8, "window": 1024}), 8192)
    assert near < full


def test_meeting_seldom_scales_only_the_gradients():
    """Where whole copies meet: ranks that share one copy need each other at every step."""
    stage = transformer_step(model(), Layout(tp=2, outer_every=10).resolved(8), 1024).stages[-1]
    for block in stage.last_backward:
        for operation in block.operations:
            if isinstance(operation.what, Collective):
                copies = operation.name == "gradients" and "shard" not in operation.what.axis
                assert operation.what.share == (0.1 if copies else 1)


def test_input_gradients_are_summed_beside_the_weight_gradient():
    """Megatron's asynchronous all-reduce: the weight gradient does not wait, what follows does."""
    for async_tp in (False, True):
        layout = Layout(tp=2, async_tp=async_tp).resolved(2)
        block = transformer_step(model(), layout, 1024).stages[-1].backward[1]
        names = [operation.name for operation in block.operations]
        at = max(i for i, name in enumerate(names) if name == "MLP up")
        sums = [i for i, name in enumerate(names) if name == "MLP input gradient"]
        assert (sums[0] < at) == async_tp
        waits = {wait.index for wait in block.operations[at].after}
        assert not waits & set(sums)
        later = {w.index for op in block.operations[at + 1 :] for w in op.after}
        assert set(sums) <= later


@pytest.mark.parametrize(
    ("first", "last", "body", "end"),
    [(None, 2, 10 / 3, 2), (2, None, 10 / 3, 3), (2, 1, 9 / 2, 1), (6, 1, 6, 1)],
)
def test_stated_cuts_leave_the_rest_to_the_stages_between(first, last, body, end):
    """Twelve layers on four ranks."""
    layout = Layout(pp=4, first_stage_layers=first, last_stage_layers=last).resolved(4)
    counts = LayerCounts(model(layers=12), layout)
    assert counts.body.dense == np.ceil(body)
    assert counts.last.dense == end
    assert counts.body.dense * counts.body_ranks + counts.last.dense == pytest.approx(12)


def test_a_prediction_layer_counts_when_stages_are_balanced():
    layout = Layout(pp=4, balanced_stages=True).resolved(4)
    without, further = (LayerCounts(model(layers=32, mtp_layers=n), layout) for n in (0, 1))
    assert further.last.dense < without.last.dense - 0.7
    assert further.body.dense > without.body.dense


def test_a_checkpoint_that_stops_early_leaves_out_the_last_product():
    chosen, flops = model(), {}
    assert chosen.mlp is not None
    for early in (False, True):
        stated = {"recompute": "full", "recompute_stops_early": early}
        layout = Layout.model_validate(stated).resolved(1)
        flops[early] = flops_of(transformer_step(chosen, layout, 1024).stages[-1].backward)
    down = 2.0 * 1024 * chosen.hidden * chosen.mlp.hidden
    assert flops[False] - flops[True] == pytest.approx(chosen.layers * down)
