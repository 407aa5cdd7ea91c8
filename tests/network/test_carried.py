"""What links carry: laws of the loads that pictures show."""

import numpy as np
import pytest

from syncwall.cost.contended_network import SharedLinks
from syncwall.describe import lookup
from syncwall.network.routing import ROUTINGS
from syncwall.plan.fabric.sized_links import fabric_named

CLUSTER = lookup.cluster("dgx-h100").using(64)
KINDS = ["rail-optimised", "fat-tree-2", "dragonfly", "rail-only"]


def carried(kind, routing, pattern="ring", ratio=1.0, qps=1):
    links = fabric_named(kind, CLUSTER, (ratio, 1.0))
    shared = SharedLinks(links, routing, qps, draw=3)
    shared.slower(pattern, 64, 8, CLUSTER)
    (flows,) = shared.flows()
    return flows, shared.carried(flows, CLUSTER)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["ring", "tree"])
def test_the_busiest_link_has_the_slow_down_and_nics_at_most_one(kind, routing, pattern):
    flows, found = carried(kind, routing, pattern)
    assert found.most == pytest.approx(max(flows.slower, 1.0))
    assert found.loads[:, : 2 * found.routed.nics].max() == pytest.approx(1.0)
    if flows.slower > 1.0:
        assert found.busiest == flows.link
        assert found.loads[0, flows.link] == flows.slower
    else:
        assert found.busiest is None
        assert found.ends_of_busiest() == ()


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_switch_passes_on_what_it_takes_in(kind, routing):
    _, found = carried(kind, routing)
    links, bytes_ = found.routed, found.loads[0] * found.routed.rates
    switches = len(links.switches)
    sent = np.bincount(links.switch_of_nic, bytes_[: 2 * links.nics : 2], switches)
    received = np.bincount(links.switch_of_nic, bytes_[1 : 2 * links.nics : 2], switches)
    start, end = links.ends.T
    comes = np.bincount(end, bytes_[2 * links.nics :], switches) + sent
    goes = np.bincount(start, bytes_[2 * links.nics :], switches) + received
    assert comes == pytest.approx(goes)


def test_a_cable_is_the_busier_way_and_pooled_ones_are_all_the_same():
    _, found = carried("fat-tree-2", "ecmp")
    ends = found.links.ends
    for one, other in ends[::40].tolist():
        both = ((ends == (one, other)) | (ends == (other, one))).all(1)
        most = found.loads[0, 2 * found.links.nics :][both].max()
        link = found.cable(one, other)
        assert link is not None
        assert found.loads[0, link] == most
    _, spread = carried("fat-tree-2", "adaptive", ratio=2.0)
    spines = spread.links.ends[spread.links.ends[:, 0] == 0, 1]
    assert len({spread.cable(0, int(spine)) for spine in spines}) == 1
    assert found.cable(0, 1) is None
