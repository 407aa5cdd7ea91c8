"""The exchange of tokens among experts."""

from math import inf

import pytest

from syncwall.describe import Layout
from syncwall.describe.layout import Dispatcher
from syncwall.work.block import Scope
from syncwall.work.layer import Shape, attention_parts
from syncwall.work.operations import Collective, Elementwise, Gemm
from syncwall.work.parts import LayerPart
from syncwall.work.rank_layers import expert_parts
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import MOE, model

SPARSE = model(moe=MOE, mlp=None)


def parts(**layout) -> dict[str, LayerPart]:
    stated = {"ep": 8} | layout
    found = expert_parts(Shape(SPARSE, Layout.model_validate(stated).resolved(8), 1024))
    return {part.name: part for part in found}


def exchanged(part: LayerPart) -> Collective:
    assert isinstance(part.forward, Collective)
    return part.forward


@pytest.mark.parametrize("name", ["dispatch", "combine"])
def test_tokens_go_to_every_chosen_expert_and_back(name):
    part = parts()[name]
    assert exchanged(part).bytes == 2 * 1024 * MOE["top_k"] * 4096
    assert part.backward == (part.forward,)
    assert part.waited_for == 1
    assert name not in parts(ep=1)


def test_overlap_leaves_a_share_exposed():
    assert parts(overlap_ep=True, ep_exposed_share=0.25)["dispatch"].waited_for == 0.25
    assert parts(overlap_ep=False, ep_exposed_share=0.25)["dispatch"].waited_for == 1


def test_only_the_exchange_of_several_groups_of_experts_overlaps():
    split = {"tp": 2, "sp": True, "etp": 2, "overlap_ep": True, "ep_exposed_share": 0.25}
    assert parts(ep=1, **split)["experts all-gather"].waited_for == 1
    assert parts(ep=4, **split)["experts all-gather"].waited_for == 0.25


def test_merged_tokens_say_how_many_copies_they_are():
    assert exchanged(parts()["dispatch"]).copies == 1
    assert exchanged(parts(dispatcher="deepep")["dispatch"]).copies == MOE["top_k"]
    assert exchanged(parts(dispatcher="hybridep")["combine"]).copies == MOE["top_k"]


def test_a_router_may_limit_the_nodes_of_a_token():
    limited = model(moe=MOE | {"node_limit": 2}, mlp=None)
    shape = Shape(limited, Layout(ep=8, dispatcher=Dispatcher.DEEPEP).resolved(8), 1024)
    sent = {part.name: part.forward for part in expert_parts(shape)}["dispatch"]
    assert isinstance(sent, Collective)
    assert sent.domains == 2
    assert exchanged(parts(dispatcher="deepep")["dispatch"]).domains == inf


def test_all_tokens_may_be_gathered_instead():
    found = expert_parts(Shape(SPARSE, Layout(ep=8, dispatcher=Dispatcher.ALL_GATHER).resolved(8), 1024))
    moved = [part for part in found if isinstance(part.forward, Collective) and _size(part) > 0]
    kinds = [part.forward.kind for part in moved]  # type: ignore[union-attr]
    assert kinds == ["all-gather", "reduce-scatter"]
    assert {_size(part) for part in moved} == {2.0 * 1024 * 8 * 4096}  # not a copy for each expert


def _size(part: LayerPart) -> float:
    return float(exchanged(part).bytes)


def test_only_tokens_on_their_way_out_are_sent_in_8_bits():
    narrow, plain = parts(fp8_dispatch=True), parts()
    assert _size(narrow["dispatch"]) == _size(plain["dispatch"]) / 2
    (gradient,) = narrow["dispatch"].backward
    assert isinstance(gradient, Collective)
    assert gradient.bytes == _size(plain["dispatch"])
    assert _size(narrow["combine"]) == _size(plain["combine"])


def test_a_capacity_pads_what_is_sent_and_computed():
    fixed, wider = (parts(dropless=False, capacity_factor=factor) for factor in (1, 2))
    assert _size(wider["dispatch"]) == 2 * _size(fixed["dispatch"])
    assert rows(wider) == 2 * rows(fixed)
    assert rows(parts(capacity_factor=2)) == rows(parts())  # nothing is padded


def rows(found: dict[str, LayerPart]) -> float:
    what = found["experts up"].forward
    assert isinstance(what, Gemm)
    return float(what.m)


def sorted_bytes(found: dict[str, LayerPart]) -> float:
    moved = found["permute"].forward
    assert isinstance(moved, Elementwise)
    return float(moved.bytes)


@pytest.mark.parametrize(
    ("layout", "times"),
    [
        ({"ep": 1}, 1 + 1 / 2),  # read once, written twice
        ({"ep": 8}, 1 + 1 / 2),  # one expert a rank: what comes is in order
        ({"ep": 4}, 1 + 1 / 2 + 2),  # sorted by rank, and by expert
        ({"ep": 8, "dispatcher": "deepep"}, 0),
        ({"ep": 4, "dispatcher": "deepep"}, 1 + 4 * (1 - 0.75**2) / 2),
    ],
)
def test_sorting_moves_copies_and_the_tokens_they_are_of(layout, times):
    eight = model(moe=MOE | {"experts": 8, "top_k": 2}, mlp=None)
    stated = Layout.model_validate(layout).resolved(8)
    found = {part.name: part for part in expert_parts(Shape(eight, stated, 1024))}
    assert sorted_bytes(found) == pytest.approx(times * 2 * 1024 * 2 * 4096)
    assert found["permute"].backward == (found["permute"].forward,)


def test_biases_and_clamps_are_kernels_of_their_own():
    named = {"bias": {"expert_bias": True}, "clamp": {"clamped": True}}
    for kind, field in named.items():
        found = expert_parts(Shape(model(moe=MOE | field, mlp=None), Layout(ep=8).resolved(8), 1024))
        (one,) = [part for part in found if part.name == f"experts {kind}"]
        assert isinstance(one.forward, Elementwise)
        assert one.forward.kind == kind
        assert f"experts {kind}" not in parts()


def test_graphs_may_hold_router_and_attention():
    assert parts()["router"].scope is Scope.ROUTER
    assert parts()["experts up"].scope is parts()["dispatch"].scope is Scope.OTHER
    shape = Shape(SPARSE, Layout(ep=8).resolved(8), 1024)
    assert {part.scope for part in attention_parts(shape)} == {Scope.ATTENTION}


def test_ranks_that_share_an_expert_gather_its_tokens_and_sum_its_results():
    split = parts(ep=2, tp=4, etp=4, sp=True)
    for kind in ("all-gather", "reduce-scatter"):
        moved = exchanged(split[f"experts {kind}"])
        assert (moved.kind, moved.group.ranks, moved.group.stride) == (kind, 4, 1)
        assert moved.bytes == 4 * exchanged(split["dispatch"]).bytes
        assert f"experts {kind}" not in parts(ep=2, tp=4, etp=1, sp=True)


@pytest.mark.parametrize("shard", ["ddp", "zero1"])
def test_copies_of_experts_among_tensor_ranks_exchange_gradients(shard):
    """With tp 8, ep 4 and no replica of the model, each expert stands on two ranks."""
    stated = {"tp": 8, "sp": True, "ep": 4, "shard": shard, "overlap_parameters": False}
    stage = transformer_step(SPARSE, Layout.model_validate(stated).resolved(8), 1024).stages[-1]
    sent = [what for _, what, _ in stage.collectives(1) if what.axis.startswith("expert")]
    assert sum(float(what.bytes) for what in sent) > 0
    assert {float(what.group.ranks) for what in sent if what.bytes} == {2}


def test_an_uneven_router_makes_more_work_but_sends_as_much():
    even, uneven = parts(), parts(expert_imbalance=1.5)
    assert uneven["experts up"].forward.m == 1.5 * even["experts up"].forward.m  # type: ignore[union-attr]
    assert exchanged(uneven["dispatch"]).bytes == exchanged(even["dispatch"]).bytes


@pytest.mark.parametrize(("dropless", "waits"), [(True, 1), (False, 0)])
def test_the_host_must_know_how_many_tokens_each_expert_has(dropless, waits):
    layout = Layout(ep=8, dropless=dropless).resolved(8)
    stage = transformer_step(model(moe=MOE | {"dense_first": 2}), layout, 1024).stages[-1]
    for block in (*stage.forward, *stage.backward, *stage.last_backward):
        assert block.host_waits == (waits if block.name == "expert layer" else 0)
