"""Parts by name: what they slow down, and what is refused."""

import numpy as np
import pytest

from syncwall.describe import lookup
from syncwall.network.parts import slow_part, slowed, without
from syncwall.plan.fabric.links import fabric_named
from syncwall.problems import InputError

LINKS = fabric_named("rail-optimised", lookup.cluster("dgx-h100", nodes=64))
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
    part = slow_part(LINKS, name, FULL / 4)
    assert sorted(LINKS.name(link) for link in part.links) == sorted(links)
    assert list(part.nodes) == nodes
    changed = np.flatnonzero(slowed(LINKS, [part]).rates != LINKS.rates)
    assert sorted(changed.tolist()) == sorted(part.links.tolist())


def test_a_switch_slows_all_of_its_ports_with_or_without_its_prefix():
    plain, prefixed = (slow_part(LINKS, name, FULL / 2) for name in ("leaf:1", "switch:leaf:1"))
    assert np.array_equal(plain.links, prefixed.links)
    assert plain.nodes == tuple(range(32))
    assert not slow_part(LINKS, "spine:1", FULL / 2).nodes


def test_a_node_is_all_of_its_nics():
    each = [slow_part(LINKS, f"nic:5-{number}", FULL).links for number in range(1, 9)]
    assert np.array_equal(slow_part(LINKS, "node:5", FULL).links, np.concatenate(each))


def test_a_cable_that_is_taken_out_is_gone_and_nics_stay():
    cable, nic = slow_part(LINKS, "link:2-1", FULL / 4), slow_part(LINKS, "nic:1-1", FULL / 4)
    rest = without(LINKS, [cable, nic])
    assert len(rest.ends) == len(LINKS.ends) - 2
    assert np.array_equal(rest.rates[: 2 * LINKS.nics], LINKS.rates[: 2 * LINKS.nics])


@pytest.mark.parametrize(
    ("name", "near"),
    [("nic:99-1", "nic:9-1"), ("leaf:99", "leaf:9"), ("link:2-99", "link:2-9"),
     ("nodee", "write nic:NODE-NIC"), ("nic:1-9", "nic:1-"), ("node:65", "node:6")],
)  # fmt: skip
def test_unknown_names_are_refused_with_the_nearest(name, near):
    with pytest.raises(InputError, match="has no part") as refused:
        slow_part(LINKS, name, FULL)
    assert near in str(refused.value)


@pytest.mark.parametrize("rate", [0.0, -1.0, FULL * 1.01, float("nan")])
def test_a_rate_that_is_not_slower_is_refused(rate):
    with pytest.raises(InputError, match="runs at 400 Gb/s"):
        slow_part(LINKS, "nic:1-1", rate)
