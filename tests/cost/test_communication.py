"""Prices of collectives: published times, and laws that hold whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork, merged_share, nccl_generation
from syncwall.cost.reached import transport
from syncwall.describe.cluster import Nics
from syncwall.work.operations import Collective, CollectiveKind, Group

MIB = 2**20
KINDS: tuple[CollectiveKind, ...] = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
MACHINES = ("dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72", "l40s-8", "alps", "aws-p4de")


def seconds(machine, ranks, kind, size, *, nodes=1, alone=True):
    cluster = sw.cluster(machine, nodes=nodes)
    network = NcclNetwork(cluster, calibration(cluster.device).network, alone=alone)
    return network.collective_seconds(Collective(kind, size, Group("dp", ranks)))


@pytest.mark.parametrize(
    ("machine", "ranks", "kind", "size", "measured_us"),
    [
        ("dgx-h100", 8, "all-reduce", 512 * MIB, 2111),
        ("dgx-h100", 8, "all-reduce", 512, 15.55),
        ("dgx-h100", 8, "all-gather", 512 * MIB, 1400),
        ("dgx-h100", 8, "reduce-scatter", 64 * MIB, 200.8),
        ("dgx-h100", 8, "all-to-all", 16 * MIB, 72.58),
        ("dgx-h100", 2, "all-gather", 512 * MIB, 1039),
        ("dgx-a100", 8, "all-reduce", 512 * MIB, 4226),
        ("dgx-b200", 8, "all-reduce", 512 * MIB, 1340),
        ("dgx-b200", 8, "all-gather", 1024, 16.5),
        ("gb300-nvl72", 4, "reduce-scatter", 512 * MIB, 724.7),
        ("l40s-8", 4, "all-reduce", 64 * MIB, 19700),
    ],
)
def test_times_of_one_node_as_aiconfigurator_measured_them(machine, ranks, kind, size, measured_us):
    """nccl-tests in 16 bits, NCCL 2.27 to 2.29, commit 095f58a."""
    assert seconds(machine, ranks, kind, size) * 1e6 == pytest.approx(measured_us, rel=0.15)


@pytest.mark.parametrize(
    ("machine", "nodes", "ranks", "kind", "size", "measured_ms"),
    [
        ("aws-p5", 2, 16, "all-reduce", 2**30, 4.608),  # awsome-distributed-training
        ("aws-p4de", 2, 16, "all-reduce", 2**30, 26.2),  # the same: a tree of two, not a ring
        ("alps", 2, 8, "all-reduce", 2**30, 12.16),  # nccl-benchmark-on-alps, ten runs
        ("gcp-a3-ultra", 2, 16, "all-gather", 2**30, 3.106),  # cluster-toolkit
        ("aws-p6-b200", 4, 32, "all-reduce", 2**32, 22.05),  # ml-engineering
    ],
)
def test_times_over_the_network_as_published(machine, nodes, ranks, kind, size, measured_ms):
    found_s = seconds(machine, ranks, kind, size, nodes=nodes)
    assert found_s * 1e3 == pytest.approx(measured_ms, rel=0.15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_fewer_bytes_never_take_longer(machine, kind, nodes):
    if nodes > 1 and machine == "l40s-8":
        pytest.skip("the catalogue describes no network for it")
    cluster = sw.cluster(machine, nodes=nodes)
    sizes = np.geomspace(8, 2**34, 3000)
    found = seconds(machine, cluster.gpus, kind, sizes, nodes=nodes)
    assert np.all(np.diff(found) >= 0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_size_and_arrays_of_sizes_agree(kind):
    sizes = np.geomspace(64, 2**32, 50)
    for nodes, ranks in ((1, 8), (4, 32)):
        together = seconds("dgx-h100", ranks, kind, sizes, nodes=nodes)
        singly = [float(seconds("dgx-h100", ranks, kind, size, nodes=nodes)) for size in sizes]
        np.testing.assert_allclose(together, singly, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_inside_and_over_domains_can_be_priced_together(kind):
    cluster = sw.cluster("dgx-h100", nodes=4)
    fit, ranks = calibration(cluster.device).network, np.array([1, 2, 8, 16, 32])
    network = NcclNetwork(cluster, fit)
    group = Group("dp", ranks, 32 // ranks)
    many = np.asarray(network.collective_seconds(Collective(kind, 1e8, group)))
    for index, dp in enumerate(ranks.tolist()):
        alone = network.collective_seconds(Collective(kind, 1e8, Group("dp", dp, 32 // dp)))
        assert many[index] == pytest.approx(float(alone), rel=1e-12)


def test_a_collective_alone_reaches_more_of_the_network_than_in_training():
    for nodes in (4, 64):
        size, ranks = 2**32, 8 * nodes
        alone_s = seconds("dgx-h100", ranks, "all-gather", size, nodes=nodes)
        training_s = seconds("dgx-h100", ranks, "all-gather", size, nodes=nodes, alone=False)
        assert 1.05 < training_s / alone_s < 1.4


def test_networks_are_told_apart_by_their_links():
    slow = transport(Nics(count=4, rate_bytes_per_s=25e9, link="gcp-tcpx"))
    assert slow.ramp_s > transport(Nics(count=4, rate_bytes_per_s=25e9, link="gcp-tcpxo")).ramp_s
    assert transport(None) == transport(Nics(count=1, rate_bytes_per_s=5e10, link="infiniband-ndr"))


def test_copies_for_one_domain_cross_once():
    """Two random domains of four hold 4 x (1 - (3/4)^2) = 1.75 different ones."""
    assert merged_share(4, 2) == pytest.approx(1.75 / 2)
    assert merged_share(1, 8) == 1
    assert merged_share(2, 8) == pytest.approx(2 * (1 - 0.5**8) / 8)


@given(st.integers(1, 500), st.integers(1, 64))
def test_merging_never_sends_more_and_helps_more_with_fewer_domains(domains, copies):
    share = float(merged_share(domains, copies))
    assert 0 < share <= 1
    assert share >= 1 / copies * (1 - 1e-12)
    if domains > 1:
        assert share <= float(merged_share(domains + 1, copies)) * (1 + 1e-12)
    together = np.asarray(merged_share(np.array([1, domains]), copies))
    assert together[1] == pytest.approx(share)


@pytest.mark.parametrize("nodes", [1, 4])
def test_copies_of_an_all_to_all_are_sent_once_a_domain(nodes):
    cluster = sw.cluster("dgx-h100", nodes=nodes)
    network = NcclNetwork(cluster, calibration(cluster.device).network)
    group = Group("ep", cluster.gpus)
    plain, merged = (
        float(network.collective_seconds(Collective("all-to-all", 1e9, group, copies=copies)))
        for copies in (1, 8)
    )
    less = float(merged_share(nodes, 8))
    smaller = network.collective_seconds(Collective("all-to-all", 1e9 * less, group))
    assert merged == pytest.approx(float(smaller))
    assert (merged < plain) == (nodes > 1)


def test_an_architecture_is_known_to_nccl_or_not():
    assert nccl_generation("volta") == 0
    assert nccl_generation("hopper") == 2
    assert nccl_generation("cdna3") is None
