import numpy as np
import pytest

import syncwall as sw
from syncwall.cost.path import Crossing, axis_paths, path
from syncwall.describe import Layout
from syncwall.work.operations import Group
from tests.describe.samples import cluster


def test_neighbouring_axes_stay_in_the_domain():
    found = axis_paths(Layout(tp=8, pp=2).resolved(64), cluster(nodes=8))
    assert (found["tp"].ranks, found["tp"].domains) == (8, 1)
    assert (found["dp"].ranks, found["dp"].domains) == (4, 4)
    assert found["pp"].domains == 2


def test_ranks_of_a_group_may_share_a_domain():
    found = axis_paths(Layout(tp=2).resolved(64), cluster(nodes=8))
    assert (found["dp"].ranks, found["dp"].domains, found["dp"].ranks_in_domain) == (32, 8, 4)


def test_rank_order_is_an_input():
    outer = Layout(tp=2, pp=4).resolved(64)
    inner = Layout(tp=2, pp=4, order=("tp", "pp", "cp", "ep", "dp")).resolved(64)
    machine = cluster(nodes=8)
    assert axis_paths(outer, machine)["dp"].ranks_in_domain == 4
    assert axis_paths(inner, machine)["dp"].ranks_in_domain == 1
    assert axis_paths(inner, machine)["pp"].domains == 1


def test_a_rack_is_one_domain():
    found = axis_paths(Layout(tp=8).resolved(144), sw.cluster("gb200-nvl72", nodes=36))
    assert found["dp"].domains == 2


def test_a_ring_in_node_order_passes_a_narrow_tier_once():
    """Of 384 nodes of a pod only the last sends to the next pod, so that 7:1 costs nothing."""
    machine = sw.cluster("meta-24k-h100", nodes=1024)
    near = axis_paths(Layout(tp=8, pp=16).resolved(8192), machine)["dp"]
    assert near.crossing == Crossing()  # 64 nodes, within a pod
    wide = axis_paths(Layout(tp=8).resolved(8192), machine)["dp"]
    assert wide.leaving("ring", 384 * 8) == pytest.approx(1 / 384)
    assert wide.crossing.ring == 1.0
    assert wide.crossing.tree == 1.0


def test_all_ranks_that_send_to_all_pass_it_with_most_of_their_traffic():
    machine = sw.cluster("meta-24k-h100", nodes=768)
    wide = path(Group("ep", 6144), machine)
    assert wide.leaving("all-to-all", 384 * 8) == pytest.approx(0.5, rel=0.01)
    assert wide.crossing.all_to_all == pytest.approx(3.5, rel=0.01)


def test_a_ring_each_of_whose_hops_leaves_the_pod_pays_the_whole_ratio():
    """Replicas of a pipeline that fills pods, ranks of the pipeline next to each other."""
    machine = sw.cluster("meta-24k-h100", nodes=3072)
    layout = Layout(tp=8, pp=384, order=("tp", "cp", "ep", "pp", "dp")).resolved(24576)
    found = axis_paths(layout, machine)
    assert found["dp"].crossing.ring == pytest.approx(7)
    assert found["pp"].crossing.ring == 1.0


def test_the_stride_of_replicas_does_not_count_an_axis_of_one_rank():
    """tp 8, pp 16 and dp 128 in this order: replicas of 2,048 nodes, 16 nodes apart."""
    machine = sw.cluster("meta-24k-h100", nodes=2048)
    layout = Layout(tp=8, pp=16, order=("tp", "cp", "ep", "pp", "dp")).resolved(16384)
    found = axis_paths(layout, machine)["dp"]
    assert found.reach_gpus == 16384
    assert found.leaving("ring", 384 * 8) == pytest.approx(16 / 384)
    assert found.domains == 128


@pytest.mark.parametrize("pattern", ["ring", "tree", "all-to-all"])
def test_arrays_of_groups_cross_as_each_alone(pattern):
    machine = sw.cluster("meta-24k-h100", nodes=1024)
    tp = np.array([1, 8, 8])
    pp = np.array([1, 1, 16])
    many = axis_paths(Layout.arrays(tp=tp, pp=pp).resolved(8192), machine)["dp"]
    shares = many.leaving(pattern, 3072)
    for index in range(3):
        one = axis_paths(Layout(tp=int(tp[index]), pp=int(pp[index])).resolved(8192), machine)["dp"]
        assert np.asarray(shares)[index] == pytest.approx(one.leaving(pattern, 3072))


@pytest.mark.parametrize(
    ("nodes", "filled", "ep", "domains"),
    [
        (64, 64, 64, 1),  # recipes for GB200 take 64 of the 72 GPUs of each rack
        (32, 64, 64, 1),
        (72, 72, 64, 2),  # whole racks: the second group begins on the last 8 GPUs of the first
        (72, 72, 32, 2),
        (72, 72, 8, 1),
        (18, 72, 64, 1),  # one rack
    ],
)
def test_groups_on_the_edge_of_two_racks(nodes, filled, ep, domains):
    racks = sw.cluster("gb200-nvl72").using(nodes=nodes)
    assert racks.filled_domain_gpus == filled
    assert path(Group("ep", ep), racks).domains == domains
    several = path(Group("ep", np.array([4, ep])), racks)
    assert np.asarray(several.domains).tolist() == [1, domains]


def test_racks_used_in_part_may_be_stated():
    """576 GPUs fill 8 racks, or are 64 in each of 9."""
    full = sw.cluster("gb200-nvl72").using(nodes=144)
    part = sw.Cluster.model_validate({**dict(full), "domain_nodes": 16})
    assert (full.domain_gpus, part.domain_gpus) == (72, 64)
    assert path(Group("ep", 64), full).domains == 2
    assert path(Group("ep", 64), part).domains == 1
    assert path(Group("dp", 576), full).domains == 8
    assert path(Group("dp", 576), part).domains == 9


def test_experts_that_straddle_racks_are_slower():
    """The same layout a GPU on 64 and on 72 GPUs of each of four racks."""

    def exchange_s(nodes: int) -> float:
        layout = Layout(ep=32, micro_batch=1, global_batch=4 * nodes, recompute="full")
        machine = sw.cluster("gb200-nvl72")
        run = sw.Run(model="qwen3-235b-a22b", cluster=machine, nodes=nodes, layout=layout)
        return float(sw.predict(run).ledger["exposed EP"])

    assert exchange_s(72) > 1.5 * exchange_s(64)
