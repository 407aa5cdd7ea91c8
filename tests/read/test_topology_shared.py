"""Every published topology that we have: read, with the facts of its INDEX.csv."""

import csv
import re
from collections import Counter

import pytest

from syncwall.read.detect import read_topology
from syncwall.read.fabric_file import read_ibnetdiscover, read_netq, read_topograph
from syncwall.read.nccl_topology import read_nccl_graphs
from syncwall.read.topology import Distance, HostTopology
from tests.read.topology_samples import SHARED, needs_shared

pytestmark = needs_shared
FILES = sorted(path for path in SHARED.rglob("*") if path.suffix and path.name != "INDEX.csv")
HOSTS = [path for path in FILES if path.parent.name != "ib" and "graph" not in path.stem]


def topology(name: str) -> HostTopology:
    return read_topology(SHARED / name)


def what() -> dict[str, str]:
    """The column `what` of the index by path."""
    if not SHARED.is_dir():
        return {}
    with (SHARED / "INDEX.csv").open() as file:
        rows = {row["file"].removeprefix("04_topology/"): row["what"] for row in csv.DictReader(file)}
    return {name: text for name, text in rows.items() if (SHARED / name).is_file()}


def test_the_index_names_every_file():
    assert set(what()) == {str(path.relative_to(SHARED)) for path in FILES}


@pytest.mark.parametrize("path", HOSTS, ids=[path.name for path in HOSTS])
def test_every_topology_of_a_host_is_read(path):
    found = read_topology(path)
    assert found.gpus or found.others or found.numa_nodes
    assert all("kb/s" in problem.message for problem in found.problems)
    assert all(len(row) == len(found.gpus) for row in found.gpu_gpu)


COUNTED = [name for name, text in what().items() if re.search(r", \d+ GPUs$", text)]


@pytest.mark.parametrize("name", COUNTED)
def test_dumps_have_as_many_gpus_as_the_index_says(name):
    count = re.search(r"(\d+) GPUs$", what()[name])
    assert count is not None
    assert len(topology(name).gpus) == int(count[1])


RCCL = [path.name for path in HOSTS if path.name.startswith("rccl")]


@pytest.mark.parametrize("name", RCCL)
def test_models_of_rccl_have_the_gpus_in_their_name(name):
    """topo_8p1h has 8 GPUs; topo_4p2h 2 groups of 4, joined or not."""
    found = topology(f"xml/{name}")
    stated = re.search(r"topo_(\d+)p", name)
    if stated:
        assert len(found.gpus) % int(stated[1]) == 0
    nics = re.search(r"_(\d)nics?\.xml", name)
    if nics:
        assert len(found.nics) == int(nics[1])
    if "90a" in name or "16p1h" in name:
        assert {gpu.architecture for gpu in found.gpus} == {"gfx910"}
    if "_8p_940" in name:
        assert {gpu.architecture for gpu in found.gpus} == {"gfx942"}
        assert {gpu.links for gpu in found.gpus} == {7}


def test_oracles_h100_is_complete():
    """The index: 8 x H100 (sm90) with NVSwitch links, 16 x 200G RoCE ports."""
    for name, rate in (("oci_BM.GPU.H100.8.xml", 180), ("oci_BM.GPU.H100.8_k8s.xml", 200)):
        found = topology(f"xml/{name}")
        assert [gpu.architecture for gpu in found.gpus] == ["sm90"] * 8
        assert {gpu.links for gpu in found.gpus} == {18}
        assert found.switched is True
        assert [nic.rate_bytes_per_s for nic in found.nics] == [rate * 1e9 / 8] * 16
        assert all(found.nearest_nic(i) is Distance.PXB for i in range(8))
        assert all(len(found.near_nics(i)) == 2 for i in range(8))


@pytest.mark.parametrize(
    ("name", "gpus", "nics"),
    [
        ("aws_p4d.24xlarge.xml", 8, 4),
        ("aws_p4de.24xlarge.xml", 8, 4),
        ("azure_ndv4_a100.xml", 8, 8),
        ("azure_ndv5_h100.xml", 8, 8),
        ("azure_nc48v4_a100pcie.xml", 2, 1),
        ("nemo_launcher_azure.xml", 8, 8),
        ("nemo_launcher_oci.xml", 8, 8),
        ("oci_gpu4_a100_flattened.xml", 8, 8),
        ("oci_b4_a100_flattened.xml", 8, 8),
    ],
)
def test_inputs_of_clouds(name, gpus, nics):
    found = topology(f"xml/{name}")
    assert (len(found.gpus), len(found.nics)) == (gpus, nics)


@pytest.mark.parametrize(
    ("name", "gpus", "links", "nics", "nearest"),
    [
        ("gcp_a3ultra_h200.txt", 8, 18, 8, {Distance.PIX: 8}),
        ("aws_p4d_a100.txt", 8, 12, 0, {None: 8}),
        ("hgx_h100_12nic_gpu_rows.txt", 8, 18, 12, {Distance.PXB: 8}),
        ("dgx_a100_gpu_rows.txt", 8, 12, 12, {Distance.PXB: 8}),
        ("hgx_a100_4nic_asymmetric.txt", 8, 12, 4, {Distance.PXB: 4, Distance.SYS: 4}),
        ("litgpt_fixture_5.txt", 8, None, 0, {None: 8}),
    ],
)
def test_tables_of_nvidia_smi(name, gpus, links, nics, nearest):
    found = topology(f"nvidia_smi_topo/{name}")
    assert len(found.gpus) == gpus
    assert {gpu.links for gpu in found.gpus} == {links}
    assert len(found.nics) == nics
    assert Counter(found.nearest_nic(i) for i in range(gpus)) == nearest


def test_names_of_adapters_come_from_the_legend():
    assert topology("nvidia_smi_topo/gcp_a3ultra_h200.txt").nics[7].name == "rocep206s0"


def test_hwloc_of_dgx_2_has_sixteen_gpus_with_six_links_each():
    """NVLink of a V100: 6 links of 25 GB/s."""
    found = topology("lstopo/hwloc_nvidiaDGX2.xml")
    assert len(found.gpus) == 16
    assert {gpu.link_bytes_per_s for gpu in found.gpus} == {150e9}
    assert found.switched is True
    power = topology("lstopo/hwloc_power8gpudistances.xml")
    assert [gpu.model for gpu in power.gpus] == ["Tesla P100-SXM2-16GB"] * 4
    assert [gpu.numa for gpu in power.gpus] == [0, 0, 1, 1]
    assert not topology("lstopo/hwloc_nvidia_dgx_gb10.xml").gpus  # written without devices


def test_the_graph_of_azure():
    graphs = read_nccl_graphs(SHARED / "xml" / "azure_nc48v4_graph.xml")
    assert [(graph.pattern, len(graph.channels)) for graph in graphs] == [
        ("ring", 2),
        ("balanced tree", 4),
        ("tree", 4),
    ]


def test_fabrics():
    large = read_ibnetdiscover(SHARED / "ib" / "topograph_ibnetdiscover_example.out.gz")
    assert len(large.switches) == 40
    assert len(large.adapters) == 582 - 40  # every switch has an aggregation node
    assert Counter(large.tiers.values()) == {1: 31, 2: 9}
    assert {cable.rate_bytes_per_s for cable in large.cables} == {50e9}
    faked = read_ibnetdiscover(SHARED / "ib" / "superbench_ibnetdiscover_faked.txt")
    assert (len(faked.switches), len(faked.adapters)) == (8, 10)
    assert max(faked.tiers.values()) == 3
    guids = {node.name.removeprefix("H-") for node in faked.adapters}
    stated = (SHARED / "ib" / "superbench_ibstat.txt").read_text()
    assert guids == set(re.findall(r"^(?:0x)?([0-9a-f]{16})$", stated, re.MULTILINE))


def test_models_of_fabrics():
    assert len(read_topograph(SHARED / "ib" / "topograph_model_nvl72.yaml").hosts) == 72
    for path in sorted((SHARED / "ib").glob("*.yaml")):
        assert read_topograph(path).hosts
    netq = read_netq(SHARED / "ib" / "topograph_netq_topologyGraph.json.gz")
    assert (len(netq.switches), len(netq.hosts)) == (3, 8)
