"""Prices of collectives: published times, and laws that hold whatever the numbers."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.link_efficiency import transport
from syncwall.cost.rates import merged_share, nccl_generation
from syncwall.describe.cluster import Cluster, Nics
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
        ("l40s-8", 2, "all-reduce", 64 * MIB, 3369),
    ],
)
def test_times_of_one_node_as_aiconfigurator_measured_them(machine, ranks, kind, size, measured_us):
    """nccl-tests in 16 bits, NCCL 2.27 to 2.29, commit 095f58a."""
    assert seconds(machine, ranks, kind, size) * 1e6 == pytest.approx(measured_us, rel=0.2)


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
    plain = transport(Nics(count=1, rate_bytes_per_s=5e10))
    assert plain == transport(Nics(count=1, rate_bytes_per_s=5e10, link="ethernet-25"))


def test_copies_for_one_place_are_sent_once():
    """Two random domains of four hold 4 x (1 - (3/4)^2) = 1.75 different ones."""
    assert merged_share(4, 2) == pytest.approx(1.75 / 2)
    assert merged_share(2, 8) == pytest.approx(2 * (1 - 0.5**8) / 8)
    assert merged_share(1, 8) == pytest.approx(1 / 8)
    assert merged_share(8, 8, 4) == merged_share(4, 8)  # a router that takes four of eight nodes
    assert merged_share(2, 8, 4) == merged_share(2, 8)


@given(st.integers(1, 500), st.integers(1, 64))
def test_merging_never_sends_more_and_helps_more_with_fewer_places(places, copies):
    share = float(merged_share(places, copies))
    assert 0 < share <= 1
    assert share >= 1 / copies * (1 - 1e-12)
    assert share <= float(merged_share(places + 1, copies)) * (1 + 1e-12)
    together = np.asarray(merged_share(np.array([1, places]), copies))
    assert together[1] == pytest.approx(share)


@pytest.mark.parametrize(
    ("nodes", "hidden", "tokens", "limit", "measured_us"),
    [
        (1, 7168, 4096, inf, 952),
        (1, 7168, 16384, inf, 3495),
        (1, 4096, 4096, inf, 574),
        (2, 7168, 16384, inf, 6407),
        (4, 7168, 4096, 4, 3522),
        (8, 7168, 4096, 4, 4461),
    ],
)
def test_combining_the_tokens_of_eight_experts_takes_what_deepep_takes(
    nodes, hidden, tokens, limit, measured_us
):
    """DeepEP's normal kernels with 24 SMs on H100, bf16, as aiconfigurator timed them."""
    cluster = sw.cluster("dgx-h100", nodes=nodes)
    network = NcclNetwork(cluster, calibration(cluster.device).network)
    group = Group("ep", cluster.gpus)
    sent = Collective("all-to-all", 2.0 * tokens * hidden * 8, group, copies=8, domains=limit)
    assert float(network.collective_seconds(sent)) * 1e6 == pytest.approx(measured_us, rel=0.2)


@pytest.mark.parametrize("nodes", [1, 4, 32])
def test_sending_together_is_never_slower(nodes):
    cluster = sw.cluster("dgx-h100", nodes=nodes)
    network = NcclNetwork(cluster, calibration(cluster.device).network)
    group = Group("ep", cluster.gpus)
    times = [
        float(network.collective_seconds(Collective("all-to-all", 1e9, group, copies=copies)))
        for copies in (1, 2, 8)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]


def test_an_architecture_is_known_to_nccl_or_not():
    assert nccl_generation("volta") == 0
    assert nccl_generation("hopper") == 2
    assert nccl_generation("cdna3") is None


def test_software_that_uses_one_rail_reaches_one_nic_of_a_node():
    """DeepSpeed's ZeRO-3 of 2021, on eight NICs a node."""
    machine = sw.cluster("dgx-a100", nodes=16)
    fit = calibration(machine.device).network
    gather = Collective("all-gather", 4e9, Group("shard", 128))
    all_rails = NcclNetwork(machine, fit).collective_seconds(gather)
    one_rail = fit.model_copy(update={"one_rail": True})
    assert NcclNetwork(machine, one_rail).collective_seconds(gather) > 7 * all_rails
    alone = NcclNetwork(machine, one_rail, alone=True).collective_seconds(gather)
    assert alone == NcclNetwork(machine, fit, alone=True).collective_seconds(gather)


@pytest.mark.parametrize(("nodes", "least_us", "most_us"), [(1, 0, 0), (16, 250, 320), (256, 4000, 5000)])
def test_steps_of_a_ring_grow_with_the_ranks(nodes, least_us, most_us):
    """NCCL counts 1.9 us a step inside a node and 4 us between nodes for LL128."""
    machine = sw.cluster("dgx-h100", nodes=nodes)
    network = NcclNetwork(machine, calibration(machine.device).network)
    gather = Collective("all-gather", 4e8, Group("shard", 8 * nodes))
    assert least_us <= network.ring_start_seconds(gather) * 1e6 <= most_us
    assert network.ring_start_seconds(Collective("all-reduce", 4e8, Group("dp", 8 * nodes))) == 0


@pytest.mark.parametrize(
    ("racks", "ranks", "size", "measured_us"),
    [
        (1, 72, 512 * MIB, 1807),
        (1, 72, 8192 * MIB, 20299),
        (2, 128, 512 * MIB, 2157),
        (2, 128, 8192 * MIB, 21493),
        (20, 1440, 512 * MIB, 7108),
        (20, 1440, 1024 * MIB, 9806),
    ],
)
def test_all_reduce_over_racks(racks, ranks, size, measured_us):
    """CoreWeave's nccl-tests of GB200 racks, NCCL 2.26.2; two racks with 64 GPUs each."""
    found = seconds("gb200-nvl72", ranks, "all-reduce", size, nodes=18 * racks)
    assert found * 1e6 == pytest.approx(measured_us, rel=0.2)


def test_a_tray_of_a_rack_still_sums_in_the_switch():
    cluster = sw.cluster("gb200-nvl72", nodes=18)
    network = NcclNetwork(cluster, calibration(cluster.device).network)
    tray, rack = (network.path(Group("tp", ranks)) for ranks in (4, 72))
    assert network.choices("all-reduce", tray, network.graph(tray))["NVLS/Simple"][1] > 0
    assert network.choices("all-reduce", rack, network.graph(rack))["NVLS/Simple"][1] == 0


@pytest.mark.parametrize(("kind", "passes"), [("all-reduce", 2.0), ("all-gather", 1.0)])
@pytest.mark.parametrize("nodes", [2, 4])
def test_gloo_is_a_ring_over_the_slower_of_wire_and_processor(kind, passes, nodes):
    nics = {"rate": "1 Gb/s", "count": 1, "transport": "gloo"}
    node = {"device": "cpu-laptop", "gpus": 1, "nics": nics}
    cluster = Cluster.model_validate({"node": node, "nodes": nodes})
    fit = calibration(cluster.device).network
    network = NcclNetwork(cluster, fit)
    wire = cluster.nic_bytes_per_s_per_gpu * fit.tcp
    assert wire < fit.gloo_bytes_per_s
    found = network.collective_seconds(Collective(kind, 1e8, Group("dp", nodes)))
    assert found == pytest.approx(passes * (nodes - 1) * (1e8 / nodes / wire + 50e-6))
    far = NcclNetwork(cluster, fit, latency=3.0)
    later = far.collective_seconds(Collective(kind, 1e8, Group("dp", nodes)))
    assert later - found == pytest.approx(passes * (nodes - 1) * 100e-6)
