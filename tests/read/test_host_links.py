"""Nodes as NCCL sees them, as links: what adapters share, closed forms, real files, refusals."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.cli import main
from syncwall.describe import lookup
from syncwall.network.flows import place_groups, ring_flows
from syncwall.network.routing import Ends, Routes, one_draw
from syncwall.problems import InputError
from syncwall.read.fabric_links import links_of_file
from syncwall.read.topology import pcie_bytes_per_s
from tests.read import topology_samples as samples

LANE = pcie_bytes_per_s("32.0 GT/s PCIe", 1) or 0.0
MBIT = 1e6 / 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("topologies")


def machine(gpus, nics, nodes=4, rate=50e9):
    """DGX H100 with so many GPUs and NICs in each node."""
    found = lookup.cluster("dgx-h100").using(nodes)
    assert found.node.nics is not None
    assert found.scale_up is not None
    adapters = found.node.nics.model_copy(update={"count": nics, "rate_bytes_per_s": rate})
    node = found.node.model_copy(update={"gpus": gpus, "nics": adapters})
    domain = found.scale_up.model_copy(update={"gpus": gpus})
    return found.model_copy(update={"node": node, "scale_up": domain})


def pci(bus, width, inner, kind="060400"):
    return (
        f'<pci busid="0000:{bus:02x}:00.0" class="0x{kind}" link_speed="32.0 GT/s PCIe"'
        f' link_width="{width}">{inner}</pci>'
    )


def gpu(number, width=16):
    return pci(number, width, f'<gpu dev="{number}" sm="90"/>', "030200")


def adapter(number, width=16, ports=1, speed=400_000):
    nets = "".join(f'<net name="mlx5_{number}_{port}" speed="{speed}"/>' for port in range(ports))
    return pci(64 + number, width, f"<nic>{nets}</nic>", "020700")


def links_of(folder, inner, cluster):
    path = folder / "topo.xml"
    path.write_text(f'<system version="1"><cpu numaid="0">{inner}</cpu></system>')
    return links_of_file(path, cluster)


def slower(links, cluster):
    """Times longer that rings over all nodes take than over NICs of the cluster."""
    pairs = ring_flows(place_groups(cluster.gpus, cluster.nodes, cluster.gpus_per_node, cluster.domain_gpus))
    routes = Routes(links, "adaptive", Ends.of(cluster))
    found, link = one_draw(routes, pairs, qps=1, seed=0, number=0)
    return found, routes.links.name(link)


def test_an_adapter_for_each_gpu_below_its_switch_shares_nothing(folder):
    inner = "".join(pci(32 + n, 4, gpu(n) + adapter(n)) for n in range(2))
    cluster = machine(2, 2)
    links = links_of(folder, inner, cluster)
    assert links.switches == ("network",)
    assert slower(links, cluster)[0] == 1.0


def test_two_ports_share_the_pcie_link_of_their_adapter(folder):
    cluster = machine(2, 2)
    links = links_of(folder, pci(32, 16, gpu(0) + gpu(1) + adapter(0, ports=2)), cluster)
    found, link = slower(links, cluster)
    assert found == pytest.approx(2 * 50e9 / (16 * LANE))
    assert link == "adapter 0000:40:00.0 of 1 > network"


def test_two_adapters_of_one_gpu_share_its_link(folder):
    cluster = machine(1, 2)
    links = links_of(folder, pci(32, 16, gpu(0) + adapter(0) + adapter(1)), cluster)
    assert slower(links, cluster)[0] == pytest.approx(2 * 50e9 / (16 * LANE))


def test_traffic_that_leaves_a_pcie_switch_shares_its_way_up(folder):
    """GPUs below one switch, adapters below another: of equally wide ways up one counts."""
    inner = pci(32, 8, gpu(0) + gpu(1)) + pci(33, 16, adapter(0) + adapter(1))
    cluster = machine(2, 2)
    found, link = slower(links_of(folder, inner, cluster), cluster)
    assert found == pytest.approx(2 * 50e9 / (8 * LANE))
    assert link.startswith("PCIe switch 0000:20:00.0 of 1")


def test_parts_may_stand_inside_each_other(folder):
    """Two adapters of two ports each, below one switch with a narrow way up."""
    ports = adapter(0, ports=2) + adapter(1, 8, ports=2)
    cluster = machine(4, 4)
    gpus = "".join(gpu(number) for number in range(4))
    links = links_of(folder, pci(32, 16, ports) + pci(33, 64, gpus), cluster)
    assert len(links.switches) == 3 * 4 + 1
    assert slower(links, cluster)[0] == pytest.approx(4 * 50e9 / (16 * LANE))


@given(st.lists(st.integers(1, 32), min_size=3, max_size=3), st.integers(100, 400_000))
def test_rings_are_as_slow_as_the_fullest_pcie_link(folder, widths, speed):
    """One switch for GPUs, one for adapters, two ports each: reckoned by hand."""
    above, below, own = widths
    inner = pci(32, above, gpu(0) + gpu(1)) + pci(33, below, adapter(0, own, 2, speed))
    cluster = machine(2, 2)
    port = min(speed * MBIT, 50e9)
    links = links_of(folder, inner, cluster)
    wanted = max(50e9 / port, *(2 * 50e9 / (lanes * LANE) for lanes in (above, below, own)), 1.0)
    assert slower(links, cluster)[0] == pytest.approx(wanted, rel=1e-6)


def test_slow_ports_and_narrow_slots_are_slower_than_the_cluster(folder):
    cluster = machine(1, 1)
    slow = links_of(folder, pci(32, 16, gpu(0) + adapter(0, speed=100_000)), cluster)
    assert slower(slow, cluster)[0] == pytest.approx(4.0)
    narrow = links_of(folder, pci(32, 16, gpu(0) + adapter(0, width=4)), cluster)
    assert slower(narrow, cluster)[0] == pytest.approx(50e9 / (4 * LANE))


def test_of_gpus_that_share_a_nic_only_what_all_of_them_pass_counts(folder):
    """Two GPUs, one adapter elsewhere: below one narrow switch, and each below its own."""
    cluster = machine(2, 1)
    one = links_of(folder, pci(32, 4, gpu(0) + gpu(1)) + adapter(0), cluster)
    assert set(one.rates) == {4 * LANE}
    each = links_of(folder, pci(32, 4, gpu(0)) + pci(33, 4, gpu(1)) + adapter(0), cluster)
    assert set(each.rates) == {50e9}


def test_ports_far_from_gpus_are_left_out(folder):
    storage = adapter(9, speed=25_000)
    links = links_of(folder, storage + pci(32, 16, gpu(0) + adapter(0)), machine(1, 1))
    assert set(links.rates) == {50e9}


def test_the_step_is_told_on_the_command_line(folder, capsys):
    path = folder / "eight.xml"
    for speed in (400_000, 100_000):
        path.write_text(samples.nccl(gpus=8, speed=speed))
        run = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "4", "--tp", "8"]
        assert main(["predict", *run, "--fabric", str(path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["contention"]
        assert (found["p50_s"] > found["free_s"]) == (speed == 100_000)
    assert found["busiest_link_slower"] == pytest.approx(4.0)
    assert found["busiest_link"].startswith("nic:")


@pytest.mark.parametrize(
    ("inner", "cluster", "said"),
    [
        (gpu(0) + adapter(0), machine(2, 1), "has 1 GPUs, a node of dgx-h100 2: name a cluster"),
        (gpu(0) + gpu(1) + adapter(0), machine(2, 2), "has 1 ports, a node of dgx-h100 2"),
        (gpu(0) + gpu(1) + adapter(0, ports=2), machine(2, 2, 9000), "ask for 8,192 nodes at most"),
        (
            pci(32, 16, gpu(0) + adapter(0)) + pci(33, 16, gpu(1) + adapter(1)) + adapter(2, ports=2),
            machine(2, 4),
            "share some of their NICs, not all, .* write a cluster whose NICs have",
        ),
    ],
)
def test_what_cannot_be_is_refused(folder, inner, cluster, said):
    with pytest.raises(InputError, match=said):
        links_of(folder, inner, cluster)


def test_other_topologies_are_refused_with_what_to_write(folder):
    path = folder / "lstopo.xml"
    path.write_text(samples.LSTOPO)
    with pytest.raises(InputError, match="no rates of PCIe links: write the file that NCCL_TOPO"):
        links_of_file(path, machine(1, 1))


def test_one_node_does_not_say_where_jobs_should_stand(folder, capsys):
    jobs, path = folder / "jobs.yaml", folder / "eight.xml"
    jobs.write_text("cluster: dgx-h100\njobs: [{name: a, nodes: 1, run: {model: llama-3.1-8b}}]\n")
    path.write_text(samples.nccl(gpus=8))
    assert main(["plan", "placement", str(jobs), "--fabric", str(path)]) == 2
    assert "describes one node" in capsys.readouterr().err


@samples.needs_shared
@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("azure_ndv5_h100.xml", "azure-nd-h100-v5"),
        ("azure_ndv4_a100.xml", "azure-nd-a100-v4"),
        ("aws_p4d.24xlarge.xml", "aws-p4d"),
        ("rccl_topo_8p_940.xml", "mi300x-8"),
    ],
)
def test_machines_in_order_share_nothing(name, cluster):
    found = lookup.cluster(cluster, nodes=4)
    links = links_of_file(samples.SHARED / "xml" / name, found)
    assert links.switches == ("network",)
    assert slower(links, found)[0] == 1.0
