"""Parts by name: what they slow down, what is gone with them, and what is refused."""

import numpy as np
import pytest

from syncwall.describe import lookup
from syncwall.network.flows import all_to_all, place_groups, ring_flows
from syncwall.network.graph import part_named, slowed, without
from syncwall.network.routing import Ends, Routes, over_nics
from syncwall.plan.fabric.sized_links import fabric_named
from syncwall.problems import InputError

CLUSTER = lookup.cluster("dgx-h100", nodes=64)
LINKS = fabric_named("rail-optimised", CLUSTER)
FULL = LINKS.nic_bytes_per_s


@pytest.mark.parametrize(
    ("name", "links", "nodes"),
    [
        ("nic:3-1", ["nic:3-1 out", "nic:3-1 in"], [2]),
        ("link:2-1", ["leaf:2 > spine:1", "spine:1 > leaf:2"], []),
        ("link:leaf:2-spine:1", ["leaf:2 > spine:1", "spine:1 > leaf:2"], []),
    ],
)
def test_a_part_is_its_links_both_ways(name, links, nodes):
    part = part_named(LINKS, name)
    assert sorted(LINKS.name(link) for link in part.links) == sorted(links)
    assert list(part.nodes) == nodes
    changed = np.flatnonzero(slowed(LINKS, {name: FULL / 4}).rates != LINKS.rates)
    assert sorted(changed.tolist()) == sorted(part.links.tolist())


def test_a_switch_slows_all_of_its_ports_with_or_without_its_prefix():
    plain, prefixed = (part_named(LINKS, name) for name in ("leaf:1", "switch:leaf:1"))
    assert np.array_equal(plain.links, prefixed.links)
    assert plain.nodes == tuple(range(32))
    assert not part_named(LINKS, "spine:1").nodes


def test_routers_of_a_dragonfly_are_its_leaves():
    links = fabric_named("dragonfly", CLUSTER)
    one, other = (part_named(links, name) for name in ("leaf:3", "router:3"))
    assert np.array_equal(one.links, other.links)


def test_a_node_is_all_of_its_nics():
    each = [part_named(LINKS, f"nic:5-{number}").links for number in range(1, 9)]
    assert np.array_equal(part_named(LINKS, "node:5").links, np.concatenate(each))


def test_a_dead_cable_is_gone_and_a_dead_nic_carries_nothing():
    rest = without(LINKS, ["link:2-1", "nic:1-1"])
    assert len(rest.ends) == len(LINKS.ends) - 2
    assert rest.rates[:4].tolist() == [0.0, 0.0, FULL, FULL]
    assert not rest.works[0, 0]
    assert rest.works.sum() == LINKS.nics - 1
    assert rest.nic_bytes_per_s == FULL


@pytest.mark.parametrize("kind", ["rail-optimised", "rail-only", "fat-tree-2"])
@pytest.mark.parametrize("routing", ["adaptive", "ecmp"])
def test_the_other_nics_of_a_node_carry_what_a_dead_one_would(kind, routing):
    """Seven of eight: 8/7 of the time, whatever the pattern."""
    links = without(fabric_named(kind, CLUSTER), ["nic:3-1"])
    routes = Routes(links, routing, Ends.of(CLUSTER))
    for pairs in (ring_flows(place_groups(512, 64, 8, 8)), all_to_all(place_groups(512, 64, 8, 8))):
        times = over_nics(routes, pairs, qps=1, seed=0, number=0)
        nics = times[: 2 * links.nics].reshape(-1, 2)
        assert nics[16].tolist() == [0.0, 0.0]
        assert nics.max() == pytest.approx(8 / 7)
        assert nics[17:24].sum(0) == pytest.approx([8.0, 8.0])


def test_a_node_without_nics_is_cut_off():
    links = without(LINKS, [f"nic:3-{number}" for number in range(1, 9)])
    routes = Routes(links, "ecmp", Ends.of(CLUSTER))
    with pytest.raises(InputError, match="node 3 is cut off"):
        over_nics(routes, ring_flows(place_groups(512, 64, 8, 8)), qps=1, seed=0, number=0)


def test_rails_that_nothing_joins_need_a_common_one():
    links = fabric_named("rail-only", CLUSTER)
    odd = [f"nic:1-{number}" for number in range(1, 9, 2)]
    even = [f"nic:2-{number}" for number in range(2, 9, 2)]
    routes = Routes(without(links, [*odd, *even]), "ecmp", Ends.of(CLUSTER))
    with pytest.raises(InputError, match="no rail left"):
        over_nics(routes, ring_flows(place_groups(512, 64, 8, 8)), qps=1, seed=0, number=0)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("nic:99-1", "nic:9-1"),
        ("leaf:99", "leaf:9"),
        ("link:2-99", "link:2-9"),
        ("nodee", "write nic:NODE-NIC"),
        ("nic:1-9", "nic:1-"),
        ("node:65", "node:6"),
        ("leaf:0", "leaf:"),
        ("link:1", "link:"),
        ("spine", "spine:"),
        ("x", "write nic"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name, near):
    with pytest.raises(InputError, match="has no part") as refused:
        part_named(LINKS, name)
    assert near in str(refused.value)


@pytest.mark.parametrize("rate", [-1.0, FULL * 1.01, float("nan")])
def test_a_rate_that_is_not_slower_is_refused(rate):
    with pytest.raises(InputError, match="runs at 400 Gb/s"):
        slowed(LINKS, {"nic:1-1": rate})
