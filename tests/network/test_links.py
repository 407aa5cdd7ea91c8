"""Links of tiers and of sized fabrics."""

from dataclasses import replace

import numpy as np
import pytest

from syncwall.describe import Fabric, Tier, lookup
from syncwall.network.graph import UNREACHABLE, links_of, links_of_tiers, pooled
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.sized_links import fabric_named

NIC = 50e9


@pytest.fixture
def cluster():
    return lookup.cluster("dgx-h100").using(128)


@pytest.mark.parametrize("kind", KINDS)
def test_every_nic_reaches_every_other_of_its_plane(kind, cluster):
    links = fabric_named(kind, cluster.using(512) if kind == "fat-tree-3" else cluster)
    far = links.distance[links.edges]
    assert np.array_equal(far, far.T)
    if kind == "rail-only":
        assert links.forwards
        assert (far == UNREACHABLE).any()
    else:
        assert far.max() < UNREACHABLE


def test_cables_up_carry_what_the_ratio_leaves(cluster):
    for ratio in (1.0, 2.0, 4.0):
        links = fabric_named("rail-optimised", cluster, (ratio, 1.0))
        up = links.ends[:, 0] == 0
        assert links.rates[2 * links.nics :][up].sum() == pytest.approx(32 * NIC / ratio)


def test_tiers_become_the_same_rates_as_the_fabric_that_they_describe(cluster):
    tiers = (Tier(name="leaf", nodes=32), Tier(name="spine", oversubscription=4))
    described = cluster.model_copy(update={"fabric": Fabric(rails=8, tiers=tiers)})
    links, built = links_of_tiers(described), fabric_named("rail-optimised", cluster, (4.0, 1.0))
    assert np.array_equal(links.switch_of_nic, built.switch_of_nic)
    for one in (links, built):
        whole = pooled(one)
        up = whole.rates[2 * whole.nics :][whole.tier[whole.ends[:, 0]] == 1]
        assert up == pytest.approx(np.full(32, 8 * NIC))


def test_three_tiers_divide_the_rate_twice(cluster):
    tiers = (
        Tier(name="leaf", nodes=16),
        Tier(name="spine", nodes=64, oversubscription=2),
        Tier(name="core", oversubscription=8),
    )
    links = pooled(links_of_tiers(cluster.model_copy(update={"fabric": Fabric(tiers=tiers)})))
    rates, start = links.rates[2 * links.nics :], links.tier[links.ends[:, 0]]
    assert rates[start == 1] == pytest.approx(np.full(8, 16 * 8 * NIC / 2))
    up = (start == 2) & (links.tier[links.ends[:, 1]] == 3)
    assert rates[up] == pytest.approx(np.full(2, 64 * 8 * NIC / 8))


def test_pooling_keeps_the_rate_and_leaves_one_way(cluster):
    links = fabric_named("fat-tree-3", cluster.using(512))
    whole = pooled(links)
    assert whole.rates.sum() == pytest.approx(links.rates.sum())
    _, first = whole.out
    assert (np.diff(first)[whole.edges] == 1).all()


def test_a_link_is_called_as_operators_call_it(cluster):
    links = fabric_named("rail-optimised", cluster)
    assert links.name(0) == "nic:1-1 out"
    assert links.name(2 * 9 + 1) == "nic:2-2 in"
    assert links.name(2 * links.nics) == "leaf:1 > spine:1"
    assert pooled(links).name(2 * links.nics) == "leaf:1 > spine:1 (+15)"


def test_a_slow_link_is_slow_in_one_direction_only():
    links = links_of(["a", "b"], [0, 1], 10.0, ["s", "t"], [(0, 1, 10.0)])
    slow = replace(links, rates=links.rates * np.where(np.arange(6) == 4, 0.25, 1.0))
    assert slow.rates.tolist() == [10, 10, 10, 10, 2.5, 10]
    assert slow.nic_bytes_per_s == 10.0
