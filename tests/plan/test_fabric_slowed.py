"""Slow parts of a fabric: laws of what a run loses, and whether taking them out pays."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.cause import Cause
from syncwall.plan.fabric.degraded_step import FabricSteps
from syncwall.plan.fabric.options import options
from syncwall.plan.fabric.question import wiring_of
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
    steps = FabricSteps(run, routing, qps)
    return steps.degraded(one, parts, steps.on(one)[1])


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


@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree-2", "rail-only"])
def test_a_dead_nic_leaves_seven_of_eight(kind):
    found = degraded({"nic:3-1": 0.0}, kind, "adaptive", run=predicted(shard="ddp", tp=1))
    assert found.after.slower == pytest.approx(8 / 7)
    assert found.before.p50_s < found.after.p50_s < found.before.p50_s * 8 / 7
    assert found.taken_out.nodes == 1


@settings(max_examples=10, deadline=None)
@given(
    part=st.sampled_from(["nic:3-1", "link:2-1", "spine:2"]),
    share=st.floats(0.05, 1.0),
    kind=st.sampled_from(["rail-optimised", "fat-tree-2"]),
)
def test_a_dead_part_is_never_faster_than_one_in_order(part, share, kind):
    """Where nothing is hashed; a way that is slow may cost more than none: others take over."""
    dead, slow = (degraded({part: rate}, kind, "adaptive") for rate in (0.0, FULL * share))
    assert dead.after.p50_s >= dead.before.p50_s * (1 - 1e-12)
    assert slow.before == dead.before


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("node:5", "node 5 down: a synchronous job needs every node"),
        ("leaf:1", "node 1 is cut off: no NIC is left"),
    ],
)
def test_a_job_without_a_node_stops(part, why):
    with pytest.raises(InputError, match=f"--degraded: the job stops: {why}"):
        sw.plan.fabric(predicted(), kind="fat-tree-2", degraded={part: 0.0})


def test_without_spines_a_job_goes_on_only_below_one_leaf():
    every = {f"spine:{number + 1}": 0.0 for number in range(8)}
    with pytest.raises(InputError, match="no way between"):
        sw.plan.fabric(predicted(), kind="rail-optimised", degraded=every)
    small = predicted(nodes=32)
    one = options(wiring_of(small.run.cluster), 512)["rail-optimised"]
    steps = FabricSteps(small)
    assert steps.on(one, every)[1].p50_s == steps.on(one)[1].p50_s


def test_slow_parts_are_asked_of_a_run():
    with pytest.raises(InputError, match="add --model NAME"):
        sw.plan.fabric(sw.cluster("dgx-h100"), gpus=512, degraded={"nic:1-1": 1e9})
