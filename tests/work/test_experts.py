"""The exchange of tokens among experts."""

import pytest

from syncwall.describe import Layout
from syncwall.work.experts import expert_parts
from syncwall.work.layer import Shape
from syncwall.work.operations import Collective, Elementwise
from syncwall.work.parts import Part
from syncwall.work.step import transformer_step
from tests.describe.samples import MOE, model

SPARSE = model(moe=MOE, mlp=None)


def parts(**layout) -> dict[str, Part]:
    stated = {"ep": 8} | layout
    found = expert_parts(Shape(SPARSE, Layout.model_validate(stated).resolved(8), 1024))
    return {part.name: part for part in found}


def exchanged(part: Part) -> Collective:
    assert isinstance(part.forward, Collective)
    return part.forward


@pytest.mark.parametrize("name", ["dispatch", "combine"])
def test_tokens_go_to_every_chosen_expert_and_back(name):
    part = parts()[name]
    assert exchanged(part).bytes == 2 * 1024 * MOE["top_k"] * 4096
    assert part.backward == (part.forward,)
    assert part.waited_for == 1
    assert exchanged(parts(ep=1)[name]).bytes == 0


def test_overlap_leaves_a_share_exposed():
    assert parts(overlap_ep=True, ep_left=0.25)["dispatch"].waited_for == 0.25
    assert parts(overlap_ep=False, ep_left=0.25)["dispatch"].waited_for == 1


def test_merged_tokens_say_how_many_copies_they_are():
    assert exchanged(parts()["dispatch"]).copies == 1
    assert exchanged(parts(merged_ep=True)["dispatch"]).copies == MOE["top_k"]


def test_merging_kernels_sort_while_they_send():
    plain, merged = parts()["permute"].forward, parts(merged_ep=True)["permute"].forward
    assert isinstance(plain, Elementwise)
    assert isinstance(merged, Elementwise)
    assert merged.bytes == plain.bytes / 2


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
