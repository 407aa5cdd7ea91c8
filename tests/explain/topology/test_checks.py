"""Checks of hosts: faults that were put in are found and priced, sound machines are silent."""

import pytest

import syncwall as sw
from syncwall.answer.pricing import with_nics, with_scale_up
from syncwall.describe import Layout, Run
from syncwall.explain.machines import devices_of, likely_cluster
from syncwall.explain.remedies import slowdown
from syncwall.explain.topology_findings import Used, check_fabric, check_topology, used_by
from syncwall.read.detect import read_topology
from syncwall.read.fabric_file import read_ibnetdiscover
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nccl_facts import NcclNic as LogNic
from syncwall.read.topology import Gpu
from tests.read import topology_samples as samples
from tests.read.topology_samples import SHARED, needs_shared

MACHINE = sw.cluster("dgx-h100", nodes=4)
RUN = Run(
    model=sw.model("llama-3.1-8b"),
    cluster=MACHINE,
    layout=Layout(shard="ddp", tp=8, micro_batch=1),
    seq=4096,
)


@pytest.fixture
def found(tmp_path):
    """Findings of a host like a DGX H100, with faults."""

    def check(text=None, run=RUN, used=None, bound=None, **faults):
        path = tmp_path / "topology"
        path.write_text(text or samples.nccl(**{"gpus": 8} | faults))
        return check_topology(read_topology(path), MACHINE, run, used, bound)

    return check


def texts(findings):
    return [f"{finding.severity}: {finding.what}" for finding in findings]


def test_a_sound_host_has_no_findings(found):
    assert found() == ()


def test_missing_links_are_found_and_priced(found):
    (finding,) = found(links=6)
    assert finding.severity == "wrong"
    assert "33% of their links (6 links)" in finding.what
    assert finding.where.endswith(":3")
    (none,) = found(links=0)
    assert "PCIe only" in none.what
    assert finding.slowdown is not None
    assert none.slowdown is not None
    assert 1.02 < finding.slowdown < none.slowdown


def test_a_missing_gpu_is_found(found):
    assert "wrong: 6 of 8 GPUs are there" in texts(found(gpus=6))


def test_slow_ports_are_found_and_priced(found):
    (finding,) = found(speed=100_000)
    assert "8 ports give 800 of 3200 Gb/s" in finding.what
    assert finding.slowdown == slowdown(RUN, with_nics(RUN, rate_bytes_per_s=12.5e9))
    assert finding.slowdown is not None
    assert finding.slowdown > 1.1


def test_a_rate_held_back_by_a_cloud_is_no_fault(found):
    assert found(speed=360_000) == ()


def test_gpus_without_an_adapter_beside_them_are_named(found):
    findings = found(nics=4)
    far = next(finding for finding in findings if "nearest adapter" in finding.what)
    assert far.what.startswith("GPU4, GPU5, GPU6, GPU7: nearest adapter at SYS")
    assert far.slowdown is not None
    assert any("4 ports give 1600 of 3200" in finding.what for finding in findings)


def test_far_gpus_of_a_machine_with_one_adapter_are_only_a_note(tmp_path):
    path = tmp_path / "topology"
    path.write_text(
        samples.SMI.replace("\tNIC1\t", "\t").replace("PXB\tSYS", "PXB").replace("SYS\tPIX", "SYS")
    )
    findings = check_topology(read_topology(path), sw.cluster("baskerville"))
    assert [finding.severity for finding in findings] == ["note"]
    assert findings[0].what.startswith("GPU2, GPU3: nearest adapter at SYS")


def test_adapters_beyond_the_cpu_for_all_gpus_are_a_suspicion(found):
    (finding,) = found(near=False)
    assert finding.severity == "suspect"
    assert finding.slowdown is None


def test_a_narrow_slot_is_found(found):
    findings = found(width=4)
    assert len(findings) == 8
    assert "PCIe link of 126 Gb/s for ports of 400" in findings[0].what
    assert findings[0].slowdown is not None
    assert findings[0].slowdown > 1


def test_gpudirect_that_is_off_is_found(found):
    (finding,) = found(gdr=0)
    assert "GPUDirect RDMA is off for 8 adapters" in finding.what


def test_other_gpus_than_described_are_found(found):
    text = samples.nccl(gpus=8).replace('device="0x2330"', 'device="0x20b2"')
    assert "wrong: the GPUs are a100-sxm-80, the description says h100-sxm" in texts(found(text))


def test_a_process_on_the_far_socket_is_found(found):
    near = {0: frozenset(range(16))}
    assert found(bound=near) == ()
    (finding,) = found(bound={0: frozenset(range(32, 48))})
    assert "process of GPU0 is bound to processors 32-47, its own are 0-15" in finding.what


def test_idle_rails_are_found_and_priced(found):
    used = Used("job.log", ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"), True, "IB")
    (finding,) = found(used=used)
    assert "NCCL used 4 of 8 adapters" in finding.what
    assert finding.slowdown == slowdown(RUN, with_nics(RUN, count=4))
    assert finding.where == "job.log"
    everything = Used("job.log", tuple(f"mlx5_{i}" for i in range(8)), True, "IB")
    assert found(used=everything) == ()


def test_host_memory_in_the_way_is_found(found):
    everything = Used("job.log", tuple(f"mlx5_{i}" for i in range(8)), False, "IB")
    (finding,) = found(used=everything)
    assert "through host memory" in finding.what


def test_sockets_on_a_machine_with_rdma_are_found(found):
    findings = found(used=Used("job.log", ("eth0",), False, "Socket"))
    assert "TCP sockets" in findings[0].what
    assert findings[0].slowdown is not None
    assert findings[0].slowdown > 1


def test_what_was_used_comes_from_a_log():
    log = NcclLog(
        "job.log",
        nics=(LogNic(0, "mlx5_0", "IB"), LogNic(1, "mlx5_1", "IB")),
        nics_used={1: 8},
        net_connections=8,
        gdr_connections=8,
        transports={"NET/IB": 8},
    )
    assert used_by(log) == Used("job.log", ("mlx5_1",), True, "IB")


def test_without_a_run_nothing_is_priced(found):
    assert all(finding.slowdown is None for finding in found(links=6, speed=100_000, run=None))


def test_a_changed_machine_keeps_the_run():
    half = with_nics(RUN, count=4)
    assert half is not None
    assert half.cluster.node.nics is not None
    assert half.cluster.node.nics.count == 4
    assert (half.gpus, half.layout) == (RUN.gpus, RUN.layout)
    assert slowdown(RUN, with_nics(RUN, count=8)) == 1.0
    assert slowdown(RUN, with_scale_up(RUN, 1.0)) == 1.0
    assert with_nics(RUN, count=0) is None


def test_fewer_adapters_never_help():
    ratios = [slowdown(RUN, with_nics(RUN, count=count)) for count in (8, 4, 2, 1)]
    assert ratios == sorted(ratio for ratio in ratios if ratio is not None)


def test_devices_are_known_by_address_name_and_architecture():
    assert devices_of(Gpu(name="GPU0", pci_id="10de:2330")) == ("h100-sxm",)
    assert devices_of(Gpu(name="GPU0", model="Tesla V100-SXM3-32GB-H")) == ("v100-sxm-32",)
    assert "a100-sxm-80" in devices_of(Gpu(name="GPU0", architecture="sm80"))
    assert devices_of(Gpu(name="GPU0")) == ()


def test_the_names_of_devices_lead_to_entries_of_the_catalogue():
    from syncwall.catalogue import BUILT_IN, CatalogueKind, names
    from syncwall.documents import read_document

    table = read_document(BUILT_IN / "identities.yaml").value
    known = set(names(CatalogueKind.DEVICE))
    assert set(table["pci"].values()) | set(table["model"].values()) <= known
    built = {sw.device(name).architecture for name in known}
    assert set(table["architecture"].values()) <= built


def test_the_machine_is_recognised(tmp_path):
    path = tmp_path / "topology"
    path.write_text(samples.nccl(gpus=8))
    names = [name for name, _ in likely_cluster(read_topology(path))]
    assert "dgx-h100" in names
    assert not {"dgx-a100", "dgx-h200", "aws-p4d", "gcp-a3-high"} & set(names)


def test_uneven_fabrics_are_found(tmp_path):
    path = tmp_path / "fabric"
    path.write_text(samples.IBNET)
    findings = texts(check_fabric(read_ibnetdiscover(path)))
    assert findings[0].startswith("wrong: ")
    assert "2xNDR (200 Gb/s)" in findings[0]
    assert any("leaf-2" in text and "1 cables upwards for 2" in text for text in findings)


SOUND = [
    ("nvidia_smi_topo/gcp_a3ultra_h200.txt", "gcp-a3-ultra"),
    ("nvidia_smi_topo/dgx_a100_gpu_rows.txt", "dgx-a100"),
    ("nvidia_smi_topo/hgx_h100_12nic_gpu_rows.txt", "dgx-h100"),
    ("xml/oci_BM.GPU.H100.8.xml", "oci-h100"),
    ("xml/oci_BM.GPU.H100.8_k8s.xml", "oci-h100"),
    ("xml/aws_p4d.24xlarge.xml", "aws-p4d"),
    ("xml/aws_p4de.24xlarge.xml", "aws-p4de"),
    ("xml/azure_ndv4_a100.xml", "azure-nd-a100-v4"),
    ("xml/azure_ndv5_h100.xml", "azure-nd-h100-v5"),
    ("xml/rccl_topo_8p_940.xml", "mi300x-8"),
    ("lstopo/hwloc_nvidiaDGX2.xml", "dgx-2"),
]


@needs_shared
@pytest.mark.parametrize(("name", "cluster"), SOUND)
def test_published_topologies_fit_their_own_description(name, cluster):
    topology = read_topology(SHARED / name)
    assert check_topology(topology, sw.cluster(cluster)) == ()
    likely = likely_cluster(topology)
    fitting = [found for found, reasons in likely if len(reasons) == len(likely[0][1])]
    assert cluster in fitting


@needs_shared
def test_the_badly_placed_adapters_of_a_published_host_are_found():
    """INDEX: all NICs on one socket (bad placement example)."""
    topology = read_topology(SHARED / "nvidia_smi_topo" / "hgx_a100_4nic_asymmetric.txt")
    findings = check_topology(topology, sw.cluster("dgx-a100"))
    assert any("GPU4, GPU5, GPU6, GPU7: nearest adapter at SYS" in f.what for f in findings)
