"""Slow parts of a fabric: laws of what a run loses, and whether taking them out pays."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.cause import Cause
from syncwall.plan.fabric.options import options
from syncwall.plan.fabric.question import wiring_of
from syncwall.plan.fabric.slowed import degraded_run
from syncwall.problems import InputError

FULL = 50e9


@cache
def predicted(nodes=64, **layout):
    layout = {"tp": 8, "shard": "fsdp", "global_batch": 512, "micro_batch": 1, **layout}
    return sw.predict(
        sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=nodes, layout=sw.Layout(**layout))
    )


def degraded(parts, kind="rail-optimised", routing="ecmp", qps=1, run=None):
    run = run or predicted()
    one = options(wiring_of(run.run.cluster), run.run.gpus)[kind]
    return degraded_run(run, one, parts, routing, qps)


@pytest.mark.parametrize("part", ["nic:3-1", "node:3", "link:2-1", "switch:leaf:2", "spine:1"])
@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree-2"])
def test_a_part_at_its_full_rate_changes_nothing(part, kind):
    found = degraded({part: FULL}, kind)
    assert found.after == found.before
    assert found.slower == 0.0


@settings(max_examples=15, deadline=None)
@given(
    part=st.sampled_from(["nic:3-1", "node:64", "link:2-1", "leaf:9", "spine:2"]),
    rates=st.tuples(st.floats(0.05, 1.0), st.floats(0.05, 1.0)),
    kind=st.sampled_from(["rail-optimised", "fat-tree-2"]),
    routing=st.sampled_from(["ecmp", "static", "adaptive"]),
)
def test_slower_never_is_faster(part, rates, kind, routing):
    slow, fast = (degraded({part: FULL * share}, kind, routing) for share in sorted(rates))
    assert slow.after.p50_s >= fast.after.p50_s * (1 - 1e-12)
    assert slow.after.p90_s >= fast.after.p90_s * (1 - 1e-12)
    assert fast.after.p50_s >= fast.before.p50_s * (1 - 1e-12)


def test_a_nic_at_a_quarter_slows_exposed_rings_by_up_to_four():
    run = predicted(shard="ddp", tp=1)
    found = degraded({"nic:3-1": FULL / 4}, run=run)
    assert found.after.slower == pytest.approx(4.0)
    assert found.after.busiest.startswith("nic:3-1")
    assert 1.05 < found.after.p50_s / found.before.p50_s <= 4.0
    compute_s = run.ledger[Cause.GEMM]
    assert (found.after.p50_s - compute_s) <= 4.0 * (found.before.p50_s - compute_s)


def test_draining_a_node_costs_its_replica_and_pays_if_the_slow_step_is_longer():
    found = degraded({"nic:3-1": FULL / 8})
    out = found.taken_out
    assert (out.nodes, out.replicas_lost, out.replicas) == (1, 1, 64)
    assert out.spare_s == found.before.p50_s
    assert out.step_s == pytest.approx(found.before.p50_s * 64 / 63)
    assert found.pays == (out.step_s < found.after.p50_s)
    assert found.pays
    assert not degraded({"nic:3-1": FULL}).pays


def test_a_replica_over_several_nodes_stops_whole_wherever_its_axis_stands():
    inner = predicted(pp=4, shard="zero1")
    outer = predicted(pp=4, shard="zero1", order=("tp", "cp", "ep", "pp", "dp"))
    for run in (inner, outer):
        assert degraded({"node:1": FULL / 2}, run=run).taken_out.replicas_lost == 1
    both = {"node:1": FULL / 2, "node:2": FULL / 2}
    assert degraded(both, run=inner).taken_out.replicas_lost == 2
    assert degraded(both, run=outer).taken_out.replicas_lost == 1


def test_a_slow_cable_is_taken_out_without_losing_nodes():
    found = degraded({"link:2-1": FULL / 8}, "fat-tree-2", qps=16)
    assert found.taken_out.nodes == 0
    assert found.taken_out.step_s == found.taken_out.spare_s
    assert found.pays
    assert "leaf:2" in found.after.busiest


def test_nothing_is_left_without_the_only_replica():
    run = predicted(nodes=4, pp=4, shard="zero1")
    found = degraded({"nic:1-1": FULL / 4}, run=run)
    assert found.taken_out.step_s is None
    assert not found.pays


def test_slow_parts_are_asked_of_a_run():
    with pytest.raises(InputError, match="add --model NAME"):
        sw.plan.fabric(sw.cluster("dgx-h100"), gpus=512, degraded={"nic:1-1": 1e9})
