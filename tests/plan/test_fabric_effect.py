"""A run on the fabrics that were sized."""

from functools import cache

import pytest

from syncwall.answer import predict
from syncwall.describe import Fabric, Layout, Run, lookup
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.answer import plan_fabric
from syncwall.plan.fabric.effect import effects, fabric_of
from syncwall.plan.fabric.options import options, sized
from syncwall.plan.fabric.question import Wiring, wiring_of

GPUS = 2_048


@cache
def predicted():
    cluster = lookup.cluster("dgx-h100", nodes=GPUS // 8)
    layout = Layout(tp=8, shard="fsdp", global_batch=1024, micro_batch=1)
    return predict(Run(model=lookup.model("llama-3.1-70b"), cluster=cluster, layout=layout))


def wiring(**other):
    return wiring_of(lookup.cluster("dgx-h100"), **other)


def test_a_non_blocking_tree_costs_nothing():
    free_s, seen = effects(predicted(), [options(wiring(), GPUS)["rail-optimised"]])
    assert seen["rail-optimised"].step_s == free_s
    assert free_s == pytest.approx(predicted().step_s)


def test_a_plan_starts_from_the_step_of_predict():
    answer = plan_fabric(wiring(), GPUS, prediction=predicted())
    assert answer.prediction is predicted()
    assert answer.free_s == pytest.approx(predict(predicted().run).step_s, rel=1e-9)


def test_the_step_is_that_of_predict_on_the_same_fabric():
    one = options(wiring(oversubscription=(4.0, 1.0)), GPUS)["rail-optimised"]
    _, seen = effects(predicted(), [one])
    run = predicted().run
    again = predict(run.on(run.cluster.model_copy(update={"fabric": fabric_of(one)})))
    assert seen["rail-optimised"].step_s == pytest.approx(again.step_s)
    assert seen["rail-optimised"].slower == pytest.approx(0.0, abs=1e-3)  # rings in node order


def test_a_narrower_fabric_is_never_faster():
    steps = []
    experts = Layout(ep=64, global_batch=2048, micro_batch=1)
    cluster = lookup.cluster("dgx-h100", nodes=GPUS // 8)
    run = predict(Run(model=lookup.model("deepseek-v3"), cluster=cluster, layout=experts))
    for ratio in (1.0, 2.0, 4.0, 8.0):
        one = options(wiring(oversubscription=(ratio, 1.0)), GPUS)["fat-tree-2"]
        steps.append(effects(run, [one])[1]["fat-tree-2"].step_s)
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]


def test_tiers_reach_what_the_drawing_says():
    one = sized("rail-optimised", Wiring(8, 8, 50e9, oversubscription=(1.0, 7.0)), [24_576]).at(0)
    fabric = fabric_of(one)
    assert fabric.rails == 8
    assert [tier.name for tier in fabric.tiers] == ["leaf", "spine", "core"]
    assert [tier.nodes for tier in fabric.tiers] == [32, 32 * (56 // 8), None]
    assert [tier.oversubscription for tier in fabric.tiers] == [1.0, 1.0, 7.0]


@pytest.mark.parametrize("gpus", [8, 64, 1_000, 24_576, 1_000_000])
@pytest.mark.parametrize("kind", KINDS)
def test_every_sized_fabric_can_be_described(kind, gpus):
    for radix in (64, 160):
        one = sized(kind, Wiring(8, 8, 50e9, (radix,) * 3, (2.0, 3.0)), [gpus]).at(0)
        if one.possible:
            assert isinstance(fabric_of(one), Fabric)
            assert fabric_of(one).reach() == float("inf")


def test_experts_across_rails_are_said_not_to_be_priced():
    model = lookup.model("mixtral-8x7b")
    cluster = lookup.cluster("dgx-h100", nodes=8)
    for ep, forwarded in ((8, False), (1, False)):
        run = Run(model=model, cluster=cluster, layout=Layout(ep=ep, shard="zero1"))
        _, seen = effects(predict(run), [options(wiring(), 64)["rail-only"]])
        assert seen["rail-only"].forwarded is forwarded
    run = Run(model=lookup.model("deepseek-v3"), cluster=cluster, layout=Layout(ep=64))
    _, seen = effects(predict(run), [options(wiring(), 64)["rail-only"]])
    assert seen["rail-only"].forwarded
