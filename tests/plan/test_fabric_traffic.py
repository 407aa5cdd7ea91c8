"""What axes send over a fabric, and which part of it is joined to which."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.cost.path import Path
from syncwall.describe import Layout, Run, lookup
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.degraded_step import FabricSteps
from syncwall.plan.fabric.options import kept, options, ratios_of, sized
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.sized_links import links_of_sized
from syncwall.plan.fabric.traffic import axis_traffic, link_loads, ring_bytes
from syncwall.problems import InputError
from syncwall.work.operations import Collective, Group

LAYOUTS = (
    {"tp": 8, "shard": "fsdp"},
    {"tp": 8, "pp": 4, "shard": "zero1"},
    {"tp": 4, "cp": 2, "shard": "fsdp"},
)


@cache
def predicted(nodes=64, **layout):
    fields = {"tp": 8, "shard": "fsdp", "global_batch": 16 * nodes} | layout
    machine = lookup.cluster("dgx-h100", nodes=nodes)
    model = lookup.model("llama-3.1-70b")
    return predict(Run(model=model, cluster=machine, layout=Layout(**fields)))


def a_fabric(kind="rail-optimised", nodes=64, ratio=1.0, cluster="dgx-h100"):
    machine = lookup.cluster(cluster)
    return kept(kind, wiring_of(machine), nodes * machine.node.gpus, (ratio, 1.0))


def possible(kind, nodes):
    return bool(options(wiring_of(lookup.cluster("dgx-h100")), nodes * 8)[kind].possible)


@pytest.mark.parametrize("nodes", [1, 3, 40, 300, 1500])
@pytest.mark.parametrize("kind", KINDS)
def test_links_are_the_switches_and_cables_that_were_counted(kind, nodes):
    if not possible(kind, nodes):
        pytest.skip("cannot be built")
    one = a_fabric(kind, nodes)
    links = links_of_sized(one)
    assert links.nics == nodes * 8
    assert len(links.switches) == one.total_switches
    tier = [name.partition(":")[0] for name in links.switches]
    between = {"leaf-spine": 0, "spine-core": 0, "local": 0, "global": 0}
    for low, high in links.ends[::2].tolist():
        if kind == "dragonfly":
            between["local" if links.group[low] == links.group[high] else "global"] += 1
        else:
            between[f"{tier[low]}-{tier[high]}"] += 1
    if kind == "dragonfly":
        assert between["global"] <= one.cables["global"]
        between["global"] = one.cables["global"]
    assert {key: count for key, count in between.items() if count} == {
        key: count for key, count in one.cables.items() if count and not key.startswith("node")
    }


@pytest.mark.parametrize("nodes", [1, 3, 40, 300, 1500])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dragonfly"])
def test_every_nic_hangs_on_a_leaf_and_all_leaves_are_used(kind, nodes):
    if not possible(kind, nodes):
        pytest.skip("cannot be built")
    one = a_fabric(kind, nodes)
    links = links_of_sized(one)
    ends = np.bincount(links.switch_of_nic, minlength=int(one.switches["leaf"]))
    assert len(ends) == one.switches["leaf"]
    assert 1 <= ends.min() <= ends.max() <= one.shape["down"]
    reached = links.ends[:, 1]
    assert {*range(int(one.switches["leaf"]), len(links.switches))} <= {*reached.tolist()}


def test_rail_only_racks_have_a_rail_for_every_nic():
    one = a_fabric("rail-only", 144, cluster="gb200-nvl72")
    links = links_of_sized(one)
    assert one.shape["rails"] == 72
    assert len({*links.switch_of_nic[: 18 * 4].tolist()}) == 72


@pytest.mark.parametrize("ratio", [1, 1.3, 2, 3, 7, 16])
@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree-2", "rail-only"])
def test_fewer_cables_up_leave_nodes_where_they_are(kind, ratio):
    wide, narrow = a_fabric(kind, 200), a_fabric(kind, 200, ratio)
    assert narrow.switches["leaf"] == wide.switches["leaf"]
    assert narrow.shape["down"] == wide.shape["down"]
    assert narrow.shape["down"] / narrow.shape["up"] <= ratio * (1 + 1e-9)
    again = sized(kind, narrow.wiring, [1600]).at(0)
    assert (again.switches, again.cables) == (narrow.switches, narrow.cables)


@settings(max_examples=20, deadline=None)
@given(
    layout=st.sampled_from(LAYOUTS),
    nodes=st.sampled_from([8, 40, 64, 96]),
    kind=st.sampled_from(KINDS),
    first=st.floats(1, 16),
    second=st.floats(1, 16),
)
def test_more_oversubscription_never_makes_a_step_faster(layout, nodes, kind, first, second):
    if not possible(kind, nodes):
        return
    steps = FabricSteps(predicted(nodes, **layout), "adaptive")
    both = [steps.on(a_fabric(kind, nodes, ratio))[1].p50_s for ratio in sorted((first, second))]
    assert both[0] <= both[1] * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_failure_never_makes_a_step_faster(data):
    """With adaptive routing; draws of hashes differ with the ways that are left."""
    nodes = data.draw(st.sampled_from([8, 40, 64]))
    kind = data.draw(st.sampled_from([k for k in KINDS if possible(k, nodes) and k != "dragonfly"]))
    run = predicted(nodes, **data.draw(st.sampled_from(LAYOUTS)))
    one = a_fabric(kind, nodes, data.draw(st.sampled_from([1.0, 2.0, 5.0])))
    steps = FabricSteps(run, "adaptive")
    links = links_of_sized(one)
    names = [f"nic:{n + 1}-{nic}" for n in range(nodes) for nic in range(1, 9)]
    names += [name for name in links.switches if not name.startswith("core")]
    before, parts = steps.on(one)[1].p50_s, {}
    for _ in range(3):
        parts[data.draw(st.sampled_from(names))] = 0.0
        try:
            step_s = steps.on(one, parts)[1].p50_s
        except InputError:
            return
        assert step_s >= before * (1 - 1e-9)
        before = step_s


def test_a_half_empty_leaf_has_cables_to_spare():
    one = a_fabric(nodes=40)
    steps = FabricSteps(predicted(40), "adaptive")
    assert steps.on(one, {"link:9-1": 0.0})[1].p50_s == steps.on(one)[1].p50_s


def test_distances_are_those_of_the_layout():
    """A pipeline of neighbours and replicas farther apart."""

    def distances(run, one):
        return {each.axis: each.distance for each in axis_traffic(run.run, one, timed(run))}

    piped = predicted(64, pp=4)
    assert distances(piped, a_fabric())["tp"] == "scale-up"
    assert distances(piped, a_fabric())["dp"] == "leaf"
    assert distances(piped, a_fabric("fat-tree-2"))["dp"] == "spine"
    assert distances(predicted(64), a_fabric())["dp"] == "spine"
    assert distances(predicted(2), a_fabric(nodes=2))["dp"] == "leaf"


def timed(run):
    """Its step on free paths, with what was priced."""
    return run.pricing.step(run.run.model, run.run.layout, run.run.seq, run.run.cluster)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ratio", [1.0, 3.0, 16.0])
def test_links_are_busy_for_no_longer_than_the_step(layout, ratio):
    one, fabric = predicted(**layout), a_fabric(ratio=ratio)
    step, _ = FabricSteps(one, "adaptive").on(fabric)
    axes = axis_traffic(one.run, fabric, step)
    assert [one.axis for one in axes]
    for load in link_loads(one.run, fabric, axes, float(step.step_s)):
        assert 0.0 <= load.total <= 1.0
        assert load.total == pytest.approx(sum(load.utilisation.values()))


def test_gradients_and_weights_of_fsdp_add_up():
    """Weights are gathered forward and backward and gradients scattered, for each micro batch."""
    whole = predicted(micro_batch=1, global_batch=64, recompute="none")
    run = whole.run
    (data,) = [one for one in axis_traffic(run, a_fabric(), timed(whole)) if one.axis == "dp"]
    held = run.model.parameters / 8
    once = held * (2 + 2 + float(run.layout.gradient_dtype.size_bytes)) * 63 / 64
    assert data.nic_bytes == pytest.approx(once, rel=0.02)
    assert data.scale_up_bytes == 0


def test_a_ring_over_domains_shares_their_nics():
    path = Path(16, 2, 2, 50e9)
    near, far = ring_bytes(Collective("all-reduce", 16e9, Group("dp", 16)), path)
    assert far == pytest.approx(2 * 15e9 / 8)
    assert near == pytest.approx(2 * 15e9 * 7 / 8)
    inside = Collective("all-gather", 16e9, Group("dp", 8))
    assert ring_bytes(inside, Path(8, 1, 1, 0.0)) == (14e9, 0.0)
    assert ring_bytes(Collective("all-to-all", 16e9, Group("ep", 16)), path) == (7e9, 8e9)


def test_ratios_are_those_of_the_cluster():
    assert ratios_of(lookup.cluster("dgx-h100", nodes=64)) == (1.0, 1.0)
    assert ratios_of(lookup.cluster("meta-24k-h100", nodes=384)) == (1.0, 1.0)
    assert ratios_of(lookup.cluster("meta-24k-h100", nodes=1000)) == (1.0, 7.0)


def test_a_switch_with_few_ports_can_be_sized_too():
    one = kept("fat-tree-2", Wiring(8, 8, 50e9, radix=(8, 8, 8)), 32, (3.0, 1.0))
    links = links_of_sized(one)
    assert (links.ends[:, 0] == 0).sum() == one.shape["up"]
