"""What axes send over a fabric, and a fabric that is narrower or broken."""

from collections import defaultdict
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.cost.path import Path
from syncwall.describe import Layout, Run, lookup
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.broken import Broken, FabricPart, left, part_of
from syncwall.plan.fabric.effect import fabric_of
from syncwall.plan.fabric.options import options, sized
from syncwall.plan.fabric.pace import degraded, needs, ratios_of, timed
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.traffic import loads, ring_bytes, sent
from syncwall.plan.fabric.wired import Wired, kept
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
    return Wired(kept(kind, wiring_of(machine), nodes * machine.node.gpus, (ratio, 1.0)))


def possible(kind, nodes):
    return bool(options(wiring_of(lookup.cluster("dgx-h100")), nodes * 8)[kind].possible)


@pytest.mark.parametrize("nodes", [1, 3, 40, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_every_nic_hangs_on_a_leaf_and_all_leaves_are_used(kind, nodes):
    if not possible(kind, nodes):
        pytest.skip("cannot be built")
    wired = a_fabric(kind, nodes)
    on_it = defaultdict(list)
    for node in range(nodes):
        for nic in range(wired.nics):
            on_it[wired.leaf_of(node, nic)].append(node)
    assert max(on_it) < wired.leaves
    for leaf in range(wired.leaves):
        assert wired.ends(leaf) == len(on_it[leaf])
        assert list(wired.nodes_of(leaf)) == sorted(set(on_it[leaf]))


@pytest.mark.parametrize("nodes", [16, 64, 300, 1500])
@pytest.mark.parametrize("kind", KINDS)
def test_cables_between_leaves_and_spines_are_those_that_were_counted(kind, nodes):
    if not possible(kind, nodes):
        pytest.skip("cannot be built")
    wired = a_fabric(kind, nodes)
    joints = sum(len(wired.spines_of(leaf)) * wired.cables_to_spine for leaf in range(wired.leaves))
    assert joints == wired.one.cables.get("leaf-spine", 0)
    if wired.spines:
        reached = {spine for leaf in range(wired.leaves) for spine in wired.spines_of(leaf)}
        assert reached == set(range(wired.spines))


def test_rail_only_racks_have_a_rail_for_every_nic():
    wired = a_fabric("rail-only", 144, cluster="gb200-nvl72")
    assert wired.planes == 72
    assert {wired.rail_of(wired.leaf_of(node, nic)) for node in range(18) for nic in range(4)} == (
        set(range(72))
    )


@pytest.mark.parametrize("ratio", [1, 1.3, 2, 3, 7, 16])
@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree-2", "rail-only"])
def test_fewer_cables_up_leave_nodes_where_they_are(kind, ratio):
    wide, narrow = a_fabric(kind, 200), a_fabric(kind, 200, ratio)
    assert narrow.leaves == wide.leaves
    assert narrow.one.shape["down"] == wide.one.shape["down"]
    assert narrow.one.shape["down"] / narrow.up <= ratio * (1 + 1e-9)
    wiring = narrow.one.wiring
    again = sized(kind, wiring, [1600]).at(0)
    assert (again.switches, again.cables) == (narrow.one.switches, narrow.one.cables)


@settings(max_examples=20, deadline=None)
@given(
    layout=st.sampled_from(LAYOUTS), nodes=st.sampled_from([8, 40, 64, 96, 256]),
    kind=st.sampled_from(KINDS), first=st.floats(1, 16), second=st.floats(1, 16),
)  # fmt: skip
def test_more_oversubscription_never_makes_a_step_faster(layout, nodes, kind, first, second):
    if not possible(kind, nodes):
        return
    run = predicted(nodes, **layout)
    steps = [
        timed(run, fabric_of(a_fabric(kind, nodes, ratio).one)).step_s
        for ratio in sorted((first, second))
    ]
    assert steps[0] <= steps[1] * (1 + 1e-9)


def parts_of(draw, wired):
    kind = draw(st.sampled_from(["nic", "leaf", *(["link", "spine"] if wired.spines else [])]))
    pick = lambda count: draw(st.integers(0, count - 1))  # noqa: E731
    if kind == "nic":
        return FabricPart("nic", pick(wired.nodes), pick(wired.nics))
    if kind == "spine":
        return FabricPart("spine", pick(wired.spines))
    leaf = pick(wired.leaves)
    return (
        FabricPart(kind, leaf, draw(st.sampled_from(wired.spines_of(leaf))))
        if kind == "link"
        else (FabricPart("leaf", leaf))
    )


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_failure_never_makes_a_step_faster_nor_gives_rate_back(data):
    nodes = data.draw(st.sampled_from([8, 40, 64, 256]))
    kind = data.draw(st.sampled_from([kind for kind in KINDS if possible(kind, nodes)]))
    run = predicted(nodes, **data.draw(st.sampled_from(LAYOUTS)))
    wired = a_fabric(kind, nodes, data.draw(st.sampled_from([1.0, 2.0, 5.0])))
    base = fabric_of(wired.one)
    parts, before, rates = set(), timed(run, base).step_s, left(Broken(wired))
    for _ in range(3):
        parts.add(parts_of(data.draw, wired))
        broken = Broken(wired, frozenset(parts))
        now = left(broken)
        assert now.near <= rates.near
        assert now.far <= rates.far + 1e-12
        if min(now.near, now.far) <= 0:
            return
        step_s = timed(run, degraded(base, broken)).step_s
        assert step_s >= before * (1 - 1e-9)
        before, rates = step_s, now


def test_a_leaf_that_fails_after_one_of_its_cables_gives_no_rate_back():
    wired = a_fabric("rail-optimised", nodes=64, ratio=5.0)
    leaf = wired.leaves // 2
    cable = FabricPart("link", leaf, wired.spines_of(leaf)[0])
    narrow = left(Broken(wired, frozenset({cable})))
    gone = left(Broken(wired, frozenset({cable, FabricPart("leaf", leaf)})))
    assert gone.far <= narrow.far < left(Broken(wired)).far


def test_the_slowest_node_is_found_without_looking_at_all():
    wired = a_fabric(nodes=40, ratio=2.0)
    parts = {
        FabricPart("link", 8, 0),
        FabricPart("nic", 39, 2),
        FabricPart("leaf", 3),
        FabricPart("nic", 5, 1),
    }
    broken = Broken(wired, frozenset(parts))
    found, everybody = left(broken), left(broken, range(40))
    assert (found.near, found.far) == (everybody.near, everybody.far)
    assert found.near_node == 5


@pytest.mark.parametrize(
    ("name", "near", "far"),
    [
        ("nic:3-2", 7 / 8, 7 / 8),
        ("leaf:2", 7 / 8, 7 / 8),
        ("link:2-1", 1.0, 31 / 32),
        ("spine:1", 1.0, 7 / 8),
    ],
)
def test_what_one_part_takes(name, near, far):
    """64 nodes with 8 rails: 16 leaves with 32 cables to 8 spines."""
    wired = a_fabric()
    rates = left(Broken(wired, frozenset({part_of(name, wired)})))
    assert (rates.near, rates.far) == pytest.approx((near, far))


def test_a_half_empty_leaf_has_cables_to_spare():
    wired = a_fabric(nodes=40)
    rates = left(Broken(wired, frozenset({part_of("link:9-1", wired)})))
    assert wired.ends(8) == 8
    assert rates.far == 1.0


def test_without_spines_only_the_way_in_is_lost():
    wired = a_fabric()
    every = frozenset(FabricPart("spine", spine) for spine in range(wired.spines))
    rates = left(Broken(wired, every))
    assert (rates.near, rates.far) == (1.0, 0.0)


@pytest.mark.parametrize(
    "name", ["leaf:0", "leaf:17", "nic:1-9", "link:1-9", "link:1", "spine", "x"]
)
def test_parts_that_do_not_exist_are_refused(name):
    with pytest.raises(InputError):
        part_of(name, a_fabric())


def test_names_of_parts_can_be_read_again():
    wired = a_fabric()
    for name in ("leaf:2", "nic:3-1", "link:2-8", "spine:8", "node:64"):
        assert part_of(name, wired).name == name


def test_distances_are_those_of_the_layout():
    """A pipeline of neighbours and replicas farther apart."""
    run = predicted(64, pp=4).run
    assert needs(run, a_fabric())["tp"] == "scale-up"
    assert needs(run, a_fabric())["dp"] == "leaf"
    assert needs(run, a_fabric("fat-tree-2"))["dp"] == "spine"
    assert needs(predicted(64).run, a_fabric())["dp"] == "spine"
    assert needs(predicted(2).run, a_fabric(nodes=2))["dp"] == "leaf"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ratio", [1.0, 3.0, 16.0])
def test_links_are_busy_for_no_longer_than_the_step(layout, ratio):
    one, wired = predicted(**layout), a_fabric(ratio=ratio)
    step = timed(one, fabric_of(wired.one))
    axes = sent(one.run, wired, step)
    assert [one.axis for one in axes]
    for load in loads(one.run, wired, axes, step.step_s):
        assert 0.0 <= load.total <= 1.0
        assert load.total == pytest.approx(sum(load.utilisation.values()))


def test_gradients_and_weights_of_fsdp_add_up():
    """Weights are gathered forward and backward and gradients scattered, for each micro batch."""
    whole = predicted(micro_batch=1, global_batch=64, recompute="none")
    run = whole.run
    (data,) = [one for one in sent(run, a_fabric(), timed(whole)) if one.axis == "dp"]
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
    assert Wired(one).cables_to_spine * Wired(one).pod_spines == Wired(one).up
