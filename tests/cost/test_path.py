import pytest

import syncwall as sw
from syncwall.cost.path import paths
from syncwall.describe import Layout
from tests.describe.samples import cluster


def test_neighbouring_axes_stay_in_the_domain():
    found = paths(Layout(tp=8, pp=2).resolved(64), cluster(nodes=8))
    assert (found["tp"].ranks, found["tp"].domains) == (8, 1)
    assert (found["dp"].ranks, found["dp"].domains) == (4, 4)
    assert found["pp"].domains == 2


def test_ranks_of_a_group_may_share_a_domain():
    found = paths(Layout(tp=2).resolved(64), cluster(nodes=8))
    assert (found["dp"].ranks, found["dp"].domains, found["dp"].ranks_in_domain) == (32, 8, 4)


def test_rank_order_is_an_input():
    outer = Layout(tp=2, pp=4).resolved(64)
    inner = Layout(tp=2, pp=4, order=("tp", "pp", "cp", "ep", "dp")).resolved(64)
    machine = cluster(nodes=8)
    assert paths(outer, machine)["dp"].ranks_in_domain == 4
    assert paths(inner, machine)["dp"].ranks_in_domain == 1
    assert paths(inner, machine)["pp"].domains == 1


def test_a_rack_is_one_domain():
    found = paths(Layout(tp=8).resolved(144), sw.cluster("gb200-nvl72", nodes=36))
    assert found["dp"].domains == 2


def test_tiers_that_are_crossed_cost_their_ratio():
    machine = sw.cluster("meta-24k-h100", nodes=1024)
    found = paths(Layout(tp=8, pp=16).resolved(8192), machine)
    assert found["dp"].nic_bytes_per_s_per_gpu == 50e9  # 64 nodes, within a pod
    wide = paths(Layout(tp=8).resolved(8192), machine)
    assert wide["dp"].nic_bytes_per_s_per_gpu == pytest.approx(50e9 / 7)
