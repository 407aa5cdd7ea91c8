"""A run on the fabrics that were sized: one price, by the graph of links."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer import predict
from syncwall.cost.contended_network import SharedLinks
from syncwall.describe import Fabric, Layout, Run, lookup
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.degraded_step import MOST_NODES, FabricSteps
from syncwall.plan.fabric.fabric_answer import plan_fabric
from syncwall.plan.fabric.options import options, sized, sized_named
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.sized import fabric_of
from syncwall.plan.fabric.sized_links import fabric_named

GPUS = 2_048


@cache
def predicted(nodes=GPUS // 8, **layout):
    fields = {"tp": 8, "shard": "fsdp", "global_batch": 1024, "micro_batch": 1} | layout
    cluster = lookup.cluster("dgx-h100", nodes=nodes)
    return predict(Run(model=lookup.model("llama-3.1-70b"), cluster=cluster, layout=Layout(**fields)))


def wiring(**other):
    return wiring_of(lookup.cluster("dgx-h100"), **other)


@settings(max_examples=20, deadline=None)
@given(
    nodes=st.sampled_from([2, 8, 40, 64]),
    kind=st.sampled_from(KINDS),
    routing=st.sampled_from(["ecmp", "static", "adaptive", "valiant"]),
    qps=st.sampled_from([1, 4]),
    layout=st.sampled_from([(8, 1, "fsdp"), (8, 2, "zero1"), (4, 1, "fsdp")]),
    ratio=st.sampled_from([1.0, 3.0]),
)
def test_one_fabric_has_one_step(nodes, kind, routing, qps, layout, ratio):
    """The table, `degraded.before` and `predict --fabric` of the same fabric and routing."""
    tp, pp, shard = layout
    run = predicted(nodes, tp=tp, pp=pp, shard=shard, global_batch=16 * nodes)
    if not options(wiring(), nodes * 8)[kind].possible:
        return
    one = sized_named(kind, run.run.cluster, (ratio, 1.0))
    answer = plan_fabric(
        one.wiring,
        int(one.gpus),
        kind=kind,
        prediction=run,
        routing=routing,
        qps=qps,
        degraded={"nic:1-1": 25e9},
    )
    assert answer.degraded
    before = answer.degraded.before
    shared = SharedLinks(fabric_named(kind, run.run.cluster, (ratio, 1.0)), routing, qps, name=kind)
    again = predict(run.run, network=shared)
    assert again.contention
    assert answer.effects[kind].step_s == before.p50_s == again.step_s == again.contention.p50_s
    assert before == again.contention
    assert answer.free_s == again.contention.free_s
    assert answer.degraded.after.p50_s >= before.p50_s or before.hashed


def test_a_non_blocking_tree_costs_nothing_if_packets_take_every_free_way():
    for kind in ("rail-optimised", "fat-tree-2", "rail-only"):
        one = options(wiring(), 512)[kind]
        effect, spread = FabricSteps(predicted(64), "adaptive").effect(one)
        assert effect.step_s == spread.free_s == pytest.approx(predicted(64).step_s, rel=1e-12)
        assert effect.slower == 0.0


def test_a_plan_starts_from_the_step_of_predict():
    answer = plan_fabric(wiring(), GPUS, prediction=predicted())
    assert answer.prediction is predicted()
    assert answer.free_s == pytest.approx(predict(predicted().run).step_s, rel=1e-9)


def test_a_narrower_fabric_is_never_faster():
    experts = Layout(ep=64, global_batch=512, micro_batch=1)
    cluster = lookup.cluster("dgx-h100", nodes=64)
    run = predict(Run(model=lookup.model("deepseek-v3"), cluster=cluster, layout=experts))
    steps = [
        FabricSteps(run, "adaptive").effect(sized_named("fat-tree-2", cluster, (ratio, 1.0)))[0]
        for ratio in (1.0, 2.0, 4.0, 8.0)
    ]
    assert [one.step_s for one in steps] == sorted(one.step_s for one in steps)
    assert steps[-1].step_s > steps[0].step_s


def test_a_huge_fabric_is_priced_by_its_tiers():
    """As predict does on a cluster with these tiers."""
    run = predicted(MOST_NODES + 1, global_batch=4 * (MOST_NODES + 1))
    one = options(wiring(oversubscription=(4.0, 1.0)), run.run.gpus)["fat-tree-3"]
    effect, spread = FabricSteps(run).effect(one)
    again = predict(run.run.on(run.run.cluster.model_copy(update={"fabric": fabric_of(one)})))
    assert effect.step_s == pytest.approx(again.step_s)
    assert (spread.routing, spread.hashed) == ("adaptive", False)


def test_a_part_of_each_node_in_use_needs_as_many_nodes():
    run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=8, gpus_per_node=4)
    answer = sw.plan.fabric(sw.predict(run))
    assert answer.gpus == 32
    assert all(one.nodes == 8 for one in answer.possible)
    assert answer.effects


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


def test_experts_across_rails_are_said_to_be_forwarded():
    model = lookup.model("mixtral-8x7b")
    cluster = lookup.cluster("dgx-h100", nodes=8)
    one = options(wiring(), 64)["rail-only"]
    for ep, forwarded in ((8, False), (1, False)):
        run = Run(model=model, cluster=cluster, layout=Layout(ep=ep, shard="zero1"))
        assert FabricSteps(predict(run)).effect(one)[0].forwarded is forwarded
    run = Run(model=lookup.model("deepseek-v3"), cluster=cluster, layout=Layout(ep=64))
    assert FabricSteps(predict(run)).effect(one)[0].forwarded
