"""Readers of topologies on small files with known content."""

import pytest

from syncwall.problems import InputError
from syncwall.read.detect import read_topology
from syncwall.read.fabric_file import read_ibnetdiscover, read_netq, read_topograph
from syncwall.read.host_topology import read_lstopo, read_smi_topology
from syncwall.read.nccl_topology import read_nccl_graphs, read_nccl_topology
from syncwall.read.topology import Distance, bits, pcie_bytes_per_s, processor_list
from tests.read import topology_samples as samples


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "file"
        path.write_text(text)
        return path

    return write


def test_a_dump_of_nccl_has_gpus_links_adapters_and_their_distances(written):
    found = read_nccl_topology(written(samples.nccl()))
    assert [gpu.name for gpu in found.gpus] == ["GPU0", "GPU1", "GPU2", "GPU3"]
    assert {gpu.architecture for gpu in found.gpus} == {"sm90"}
    assert {gpu.links for gpu in found.gpus} == {18}
    assert found.switched is True
    assert found.gpus[0].pci_id == "10de:2330"
    assert [nic.name for nic in found.nics] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    assert found.nics[0].rate_bytes_per_s == 50e9
    assert found.gpu_nic[0] == (Distance.PIX, Distance.PHB, Distance.SYS, Distance.SYS)
    assert found.gpu_gpu[0][1] is Distance.LINK
    assert found.pair_links[0] == (0, 18, 18, 18)
    assert found.numa_nodes[0].cpus == frozenset(range(16))
    assert found.where(found.gpus[0]).endswith(":3")


def test_an_adapter_outside_the_switch_is_reached_through_the_cpu(written):
    found = read_nccl_topology(written(samples.nccl(near=False)))
    assert found.nearest_nic(0) is Distance.PHB
    assert found.near_nics(0) == ()


def test_links_to_gpus_that_the_job_does_not_use_still_count(written):
    text = samples.nccl(gpus=2).replace(
        samples.SWITCHED.format(18),
        '<nvlink target="0000:01:01.0" count="2" tclass="0x030200"/>'
        '<nvlink target="0000:77:01.0" count="4" tclass="0x030200"/>',
    )
    found = read_nccl_topology(written(text))
    assert found.gpus[0].links == 6
    assert found.pair_links[0] == (0, 2)
    assert found.switched is False


def test_an_input_for_nccl_without_classes_names_the_devices_only(written):
    text = '<system><cpu numaid="0"><pci busid="0000:00:16.0"/></cpu></system>'
    found = read_nccl_topology(written(text))
    assert found.others == ("0000:00:16.0",)
    assert not found.gpus


def test_a_speed_that_no_port_has_is_taken_as_kilobits_and_told(written):
    found = read_nccl_topology(written(samples.nccl(speed=200_000_000)))
    assert found.nics[0].rate_bytes_per_s == 25e9
    assert "kb/s" in found.problems[0].message


def test_amd_gpus_are_known_by_their_target_not_by_compute_units(written):
    text = samples.nccl().replace('sm="90"', 'sm="304" gcn="gfx942"')
    assert read_nccl_topology(written(text)).gpus[0].architecture == "gfx942"


def test_a_cut_file_keeps_what_came_before_the_cut(written):
    text = samples.nccl()
    found = read_nccl_topology(written(text[: len(text) // 2]))
    assert 0 < len(found.gpus) < 4
    assert found.problems


def test_graphs_have_channels_and_rates(written):
    (graph,) = read_nccl_graphs(written(samples.GRAPH))
    assert graph.pattern == "ring"
    assert graph.inter_bytes_per_s == 12.5e9
    assert [channel.gpus for channel in graph.channels] == [(0, 1), (1, 0)]
    assert graph.channels[1].nics == (1, 1)
    assert graph.cross_nic


def test_a_graph_is_not_a_topology(written):
    with pytest.raises(InputError, match="NCCL_TOPO_DUMP_FILE"):
        read_nccl_topology(written(samples.GRAPH))


def test_a_table_of_nvidia_smi_has_names_affinity_and_distances(written):
    found = read_smi_topology(written("some log line\n" + samples.SMI))
    assert len(found.gpus) == 4
    assert [nic.name for nic in found.nics] == ["mlx5_0", "mlx5_7"]
    assert found.gpu_nic[2] == (Distance.SYS, Distance.PIX)
    assert found.gpus[2].numa == 1
    assert found.gpus[0].cpus == frozenset(range(8)) | frozenset(range(16, 24))
    assert found.gpus[0].links == 12  # 3 x 12 is more than a GPU has: a switch
    assert found.switched is True
    assert [node.index for node in found.numa_nodes] == [0, 1]


def test_without_a_switch_the_links_of_all_peers_add_up(written):
    found = read_smi_topology(written(samples.SMI.replace("NV12", "NV2")))
    assert found.gpus[0].links == 6
    assert found.switched is None


def test_a_short_row_is_told_and_left_out(written):
    found = read_smi_topology(written(samples.SMI.replace("GPU3\tNV12\tNV12\tNV12\t X", "GPU3\tNV12")))
    assert [gpu.name for gpu in found.gpus] == ["GPU0", "GPU1", "GPU2"]
    assert "GPU3" in found.problems[0].message


def test_a_table_of_rocm_smi_has_xgmi_and_ignores_weights(written):
    found = read_smi_topology(written(samples.ROCM))
    assert found.format == "rocm-smi"
    assert found.gpu_gpu[0] == (Distance.SAME, Distance.LINK)
    assert found.gpus[0].links is None


def test_hwloc_has_gpus_adapters_nodes_and_link_rates(written):
    found = read_lstopo(written(samples.LSTOPO))
    assert [gpu.model for gpu in found.gpus] == ["Tesla V100-SXM2-32GB", None]
    assert [gpu.numa for gpu in found.gpus] == [0, 1]
    assert [nic.name for nic in found.nics] == ["mlx5_0"]
    assert [row[0] for row in found.gpu_nic] == [Distance.PIX, Distance.SYS]
    assert found.gpu_gpu[0][1] is Distance.LINK
    assert found.gpus[0].link_bytes_per_s == 50e9
    assert found.gpus[1].cpus == frozenset({2, 3})
    assert found.switched is False


def test_a_fabric_has_tiers_hosts_and_each_cable_once(written):
    found = read_ibnetdiscover(written(samples.IBNET))
    assert len(found.switches) == 3
    assert found.hosts == ("host-1", "host-2", "host-3", "host-4")
    assert len(found.adapters) == 4
    assert len(found.cables) == 8  # one of them to the helper inside leaf-1
    tiers = {found.nodes[name].title.split(":")[0]: tier for name, tier in found.tiers.items()}
    assert tiers == {"MF0;leaf-1": 1, "MF0;leaf-2": 1, "MF0;spine-1": 2}
    assert found.down_and_up("S-0000000000000001") == (2, 2)
    assert {c.width: c.rate_bytes_per_s for c in found.cables} == {"4xNDR": 50e9, "2xNDR": 25e9}


def test_models_of_fabrics_are_read_into_the_same_type(written):
    tree = read_topograph(written(samples.TOPOGRAPH))
    assert tree.hosts == ("node001", "node002", "node003", "other")
    assert tree.tiers == {"leaf-1": 1, "leaf-2": 1, "core": 2}
    graph = read_netq(written(samples.NETQ))
    assert graph.hosts == ("dgx-1",)
    assert len(graph.cables) == 2


@pytest.mark.parametrize(
    ("text", "format_"),
    [(samples.nccl(), "nccl"), (samples.SMI, "nvidia-smi"), (samples.LSTOPO, "lstopo")],
)
def test_the_kind_of_file_is_seen_from_its_content(written, text, format_):
    assert read_topology(written(text)).format == format_


def test_rates_of_pcie():
    """16 lanes of generation 3 to 5 carry 15.75, 31.5 and 63.0 GB/s (PCI-SIG); 2 has 8."""
    speeds = ["5.0 GT/s PCIe", "8.0 GT/s PCIe", "16 GT/s", "32.0 GT/s PCIe"]
    rates = [pcie_bytes_per_s(speed, 16) for speed in speeds]
    assert [round(rate / 1e9, 2) for rate in rates if rate] == [8.0, 15.75, 31.51, 63.02]
    assert pcie_bytes_per_s("", 16) is None
    assert pcie_bytes_per_s("8.0 GT/s", 0) is None


def test_lists_and_masks_of_processors():
    assert processor_list("0-2,5") == frozenset({0, 1, 2, 5})
    assert processor_list("N/A") is None
    assert processor_list("0-99999999") is None
    assert bits("00000001,00000003") == frozenset({0, 1, 32})
    assert bits("0x1,,0x2") == frozenset({1, 64})
    assert bits("-1") is None
    assert bits("zz") is None
