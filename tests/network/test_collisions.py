"""Slow-downs over NICs alone: closed forms within 0.1 %, and draws beside the Poisson form."""

import numpy as np
import pytest

from syncwall.describe import lookup
from syncwall.network.flows import all_to_all, place_groups, ring_flows
from syncwall.network.routing import Ends, Routes, drawn, most_on_a_link
from syncwall.plan.fabric.sized_links import fabric_named

CLUSTER = lookup.cluster("dgx-h100").using(128)
CROSSED = np.arange(128).reshape(4, 32).T.ravel()
"""The order of nodes in which every neighbour hangs on another leaf."""
RING = ring_flows(place_groups(1024, 128, 8, 8))


def slower(ratio, order, routing="adaptive", qps=1, *, pairs=RING, draws=5):
    links = fabric_named("rail-optimised", CLUSTER, (ratio, 1.0))
    routes = Routes(links, routing, Ends.of(CLUSTER, order))
    return drawn(routes, pairs, qps=qps, draws=draws, seed=1)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0, 7.0])
def test_a_ring_in_the_order_of_nodes_loses_nothing(ratio):
    assert slower(ratio, None).factors.tolist() == [1.0] * 5


@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0, 7.0])
def test_a_ring_whose_every_edge_crosses_leaves_loses_the_full_ratio(ratio):
    links = fabric_named("rail-optimised", CLUSTER, (ratio, 1.0))
    up = (links.ends[:, 0] == 0).sum()
    assert slower(ratio, CROSSED).factors == pytest.approx(32 / up, rel=1e-3)


def test_the_busiest_link_has_a_name():
    links = fabric_named("rail-optimised", CLUSTER, (4.0, 1.0))
    routes = Routes(links, "adaptive", Ends.of(CLUSTER, CROSSED))
    found = drawn(routes, RING, qps=1, draws=1, seed=0)
    assert "leaf:" in routes.links.name(found.busiest[0])


def test_more_queue_pairs_collide_less():
    means = [slower(1.0, CROSSED, "ecmp", qps, draws=10).factors.mean() for qps in (1, 4, 16)]
    assert means[0] > means[1] > means[2] > 1.0
    assert means == pytest.approx([5.4, 2.9, 1.91], rel=0.1)


def test_the_same_seed_draws_the_same():
    one, other = (slower(1.0, CROSSED, "ecmp", 4).factors for _ in range(2))
    assert np.array_equal(one, other)


def test_the_poisson_form_is_near_the_draws():
    """32 flows from every leaf over 32 cables, up and down: 32 leaves in both directions."""
    for qps in (1, 4):
        mean = slower(1.0, CROSSED, "ecmp", qps, draws=40).factors.mean()
        closed, median, ninth = most_on_a_link(qps, 32 * 32 * 2)
        assert closed / qps == pytest.approx(mean, rel=0.1)
        assert median <= ninth


def test_the_poisson_form_of_one_link_is_its_mean():
    assert most_on_a_link(7.0, 1)[0] == pytest.approx(7.0, rel=1e-9)


def test_an_all_to_all_packed_on_rails_is_free_and_spread_over_leaves_is_not():
    packed = all_to_all(place_groups(1024, 64, 1, 8))
    assert slower(2.0, None, pairs=packed, draws=1).factors[0] == 1.0
    spread = slower(2.0, CROSSED, pairs=packed, draws=1).factors[0]
    assert 1.5 < spread <= 2.0
