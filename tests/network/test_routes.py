"""Ways of flows: shortest, spread, over the right rail."""

import numpy as np
import pytest

from syncwall.describe import lookup
from syncwall.network.graph import GLOBAL_LENGTH
from syncwall.network.routing import ROUTINGS, Ends, Routes
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.sized_links import fabric_named


def routed(kind, routing, source, target, *, nodes=128, qps=1, pxn=True):
    cluster = lookup.cluster("dgx-h100").using(nodes)
    links = fabric_named(kind, cluster)
    routes = Routes(links, routing, Ends.of(cluster, pxn=pxn))
    entries = routes.entries(np.array(source), np.array(target), np.random.default_rng(0), qps)
    return routes, entries


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("routing", ROUTINGS)
def test_every_flow_is_an_unbroken_way_from_nic_to_nic(kind, routing):
    nodes = 512 if kind == "fat-tree-3" else 128
    source = np.arange(0, nodes * 8, 7)
    target = (source * 5 + 8) % (nodes * 8)
    routes, entries = routed(kind, routing, source, target, nodes=nodes)
    links, nics = routes.links, 2 * routes.links.nics
    for flow in range(0, len(source), 11):
        mine = entries.link[entries.flow == flow]
        own = mine[mine < nics]
        (out,), (into,) = own[own % 2 == 0], own[own % 2 == 1]
        at = links.switch_of_nic[out // 2]
        for cable in mine[mine >= nics] - nics:
            assert links.ends[cable, 0] == at
            at = links.ends[cable, 1]
        assert at == links.switch_of_nic[into // 2]


def test_rails_are_changed_inside_the_node_with_pxn_and_over_spines_without():
    """GPU 0 of node 1 to GPU 3 of node 2, on one group of leaves."""
    _, near = routed("rail-optimised", "ecmp", [0], [11])
    assert sorted(near.link) == [2 * 3, 2 * 11 + 1]
    _, far = routed("rail-optimised", "ecmp", [0], [11], pxn=False)
    assert len(far.link) == 4
    assert 0 in far.link


def test_queue_pairs_take_different_ways():
    routes, entries = routed("rail-optimised", "ecmp", [0], [64 * 8], qps=16)
    assert routes.flows(16) == 16
    assert len(np.unique(entries.link)) > 10


def test_static_routes_do_not_change_from_draw_to_draw():
    routes, entries = routed("fat-tree-2", "static", [0, 8], [800, 900])
    again = routes.entries(np.array([0, 8]), np.array([800, 900]), np.random.default_rng(99), 1)
    assert np.array_equal(entries.link, again.link)


def test_a_dragonfly_crosses_one_cable_between_groups_and_valiant_two():
    for routing, most in (("ecmp", 1), ("valiant", 2)):
        ranks = np.arange(512)
        routes, entries = routed("dragonfly", routing, ranks, ranks + 2000, nodes=512)
        links = routes.links
        cables = entries.link - 2 * links.nics
        far = (cables >= 0) & (links.length[np.maximum(cables, 0)] == GLOBAL_LENGTH)
        assert np.bincount(entries.flow[far]).max() == most


def test_a_gpu_with_two_nics_uses_both():
    cluster = lookup.cluster("dgx-h100").using(2)
    assert cluster.node.nics is not None
    nics = cluster.node.nics.model_copy(update={"count": 16})
    node = cluster.node.model_copy(update={"nics": nics})
    ends = Ends.of(cluster.model_copy(update={"node": node}))
    assert ends.nic(np.array([3, 3]), np.array([0, 1])).tolist() == [6, 7]
