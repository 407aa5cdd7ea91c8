"""A lab as links: what closed forms say of rings and jobs."""

import numpy as np
import pytest

from syncwall.lab import Topology
from syncwall.lab.virtual_network import links_of_lab, rings_s
from syncwall.network.graph import slowed

TWO_LEAVES = Topology(hosts=4, rate_bytes_per_s=25e6, leaves=2, oversubscription=2)


def test_links_have_the_rates_of_the_lab():
    links = links_of_lab(Topology(hosts=8, rate_bytes_per_s=5e6, leaves=2, uplinks=4))
    assert links.nics == 8
    assert links.switches == (
        "leaf:1-1",
        "leaf:1-2",
        "spine:1-1",
        "spine:1-2",
        "spine:1-3",
        "spine:1-4",
    )
    slow = slowed(links, {"node:h3": 1e6})
    np.testing.assert_allclose(slow.rates[:16:2], [5e6] * 3 + [1e6] + [5e6] * 4)
    np.testing.assert_allclose(slow.rates[16:], 5e6)


def test_rails_hang_on_switches_of_their_own():
    links = links_of_lab(Topology(hosts=4, workers=2, nics=2, rails=2, leaves=2))
    assert links.switch_of_nic.tolist() == [0, 3, 0, 3, 1, 4, 1, 4]
    assert links.rails


@pytest.mark.parametrize(("order", "rate"), [((0, 1, 2, 3), 25e6), ((0, 2, 1, 3), 12.5e6), ((0, 2), 25e6)])
def test_a_ring_loses_only_what_crosses_too_often(order, rate):
    assert rings_s(TWO_LEAVES, [(order, 1e7)]) == pytest.approx([1e7 / rate])


def test_jobs_share_the_uplink_equally_until_one_has_ended():
    assert rings_s(TWO_LEAVES, [((0, 2), 1e7), ((1, 3), 1e7)]) == pytest.approx([0.8, 0.8])
    assert rings_s(TWO_LEAVES, [((0, 2), 1e7), ((1, 3), 3e7)]) == pytest.approx([0.8, 1.6])


def test_a_slow_adapter_slows_its_ring():
    assert rings_s(TWO_LEAVES, [((0, 1, 2, 3), 1e7)], {1: 6.25e6}) == pytest.approx([1.6])
