"""Every published log: ranks, GPUs, NICs, transport, algorithm as its index and its text say.

Sources of each are in INDEX.csv beside the topologies (MLPerf results by Dell and Clemson, Jean Zay
by bigscience, Isambard-AI by the Alan Turing Institute, a tuning table by eunomia-bpf).
"""

import csv

import pytest

from syncwall.explain.logs import nccl_findings
from syncwall.read.nccl_log import read_nccl_log
from syncwall.read.nccl_tests import read_nccl_tests
from tests.read.nccl_samples import MEASURED

LOGS = MEASURED / "04_nccl_logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="needs the logs in ../shared")

# version, nodes, GPUs, transport between nodes, link, NICs, NICs used, channels, GDR
FACTS = {
    "bigscience_jeanzay_all_reduce_bench-32gb-n4": ("2.10.3", 4, 16, "IB", "IB", 4, 2, 4, False),
    "bigscience_jeanzay_all_reduce_bench-a100-n4": ("2.10.3", 4, 32, "IB", "IB", 4, 2, 2, False),
    "bigscience_jeanzay_n16_32gb_all_reduce_bench": ("2.7.8", 16, 64, "IB", "IB", 4, 2, 4, False),
    "bigscience_jeanzay_n1_32gb_all_reduce_bench": ("2.7.8", 1, 4, "IB", "IB", 4, 0, 12, None),
    "isambard_gh200_10n_nccl2.19.3_ofi": ("2.19.3", 10, 40, "OFI", "OFI", 4, 4, 24, False),
    "isambard_gh200_1n_nccl2.19.3_ofi": ("2.19.3", 1, 4, "OFI", "OFI", 4, 0, 24, None),
    "isambard_gh200_50n_nccl2.19.3_ofi": ("2.19.3", 50, 200, "OFI", "OFI", 4, 4, 24, False),
    "mlperf31_dell_2x4H100_bert": ("2.18.5", 2, 8, "IBext", "IB", 4, 4, 16, True),
    "mlperf41_clemson_6x8H100_bert": ("2.18.5", 6, 48, "IBext", "IB", 8, 8, 16, True),
    "mlperf50_dell_2x8H200_bert": ("2.18.5", 2, 16, "IBext", "RoCE", 10, 8, 16, True),
    "mlperf51_dell_2x8B200_llama2_70b_lora": ("2.27.7", 2, 16, "IBext_v10", "RoCE", 12, 8, 32, True),
    "mlperf51_dell_2x8B200_llama31_8b": ("2.27.7", 2, 16, "IBext_v10", "RoCE", 8, 8, 16, True),
}


def test_every_log_of_the_index_is_here():
    with (MEASURED / "04_topology" / "INDEX.csv").open() as file:
        listed = [row["file"] for row in csv.DictReader(file)]
    names = {name.partition("/")[2].split(".log")[0] for name in listed if "nccl_logs" in name}
    assert names == FACTS.keys() | {"nccl_tuning_table_2x1_rtx5090_socket_nccl2.29.7"}


@pytest.mark.parametrize("name", FACTS)
def test_facts(name):
    log = read_nccl_log(LOGS / f"{name}.log.gz")
    version, nodes, gpus, transport, link, nics, used, channels, gdr = FACTS[name]
    world = log.world
    assert (log.version, log.inter_node, log.gdr) == (version, transport, gdr)
    assert world is not None
    assert (world.nodes, len(log.hosts), world.ranks, log.gpus) == (nodes, nodes, gpus, gpus)
    assert (world.local_ranks, world.complete) == (gpus // nodes, gpus)
    assert (log.nics[0].link, len(log.nics), len(log.nics_used)) == (link, nics, used)
    assert world.coll_channels == world.rings == world.trees == channels
    assert not log.problems
    assert not log.warnings


def test_what_single_logs_say():
    h200 = read_nccl_log(LOGS / "mlperf50_dell_2x8H200_bert.log.gz")
    assert h200.environment["NCCL_ALGO"].value == "RING"
    assert h200.environment["NCCL_NVLS_ENABLE"].value == "0"
    clemson = read_nccl_log(LOGS / "mlperf41_clemson_6x8H100_bert.log.gz")
    assert clemson.nvls is True
    assert clemson.world is not None
    assert clemson.world.nvls_channels == 16
    assert all(nic.sharp for nic in clemson.nics)
    b200 = read_nccl_log(LOGS / "mlperf51_dell_2x8B200_llama31_8b.log.gz")
    assert {nic.bits_per_s for nic in b200.nics} == {400e9}
    assert b200.pxn_connections == 64
    isambard = read_nccl_log(LOGS / "isambard_gh200_10n_nccl2.19.3_ofi.log.gz")
    assert (isambard.provider, isambard.plugin) == ("cxi", "aws-ofi-nccl 1.8.1-aws")


def test_tuning_table():
    log = read_nccl_log(LOGS / "nccl_tuning_table_2x1_rtx5090_socket_nccl2.29.7.log")
    table = {(t.collective, t.algorithm, t.protocol): (t.latency_us, t.gb_per_s) for t in log.tuning}
    assert len(table) == 5 * 7 * 3
    assert table["AllReduce", "Ring", "Simple"] == (36.4, 2.4)
    assert table["AllGather", "PAT", "Simple"] == (17.6, 3.6)
    sizes = {s.bytes: (s.algorithm, s.protocol, s.channels) for s in log.selections}
    assert sizes[16384] == ("RING", "LL", 2)
    assert sizes[67108864] == ("RING", "SIMPLE", 4)


@pytest.mark.parametrize("name", [n for n in FACTS if "jeanzay" in n and "n1_" not in n])
def test_jean_zay_is_slow_because_half_its_adapters_idle_without_gdr(name):
    """The index calls this fabric badly performing; the log shows 2 of 4 adapters and no GDR."""
    found = [f.what for f in nccl_findings(read_nccl_log(LOGS / f"{name}.log.gz"))]
    assert "2 of 4 network devices are used" in found
    assert any("GPUDirect" in what for what in found)


@pytest.mark.parametrize(
    ("nodes", "busbw"),
    [
        (1, [338.3, 342.0, 343.4, 343.1, 342.5]),
        (10, [84.7, 92.3, 91.8, 91.8, 92.7]),
        (50, [67.5, 88.8, 87.2, 85.5, 91.2]),
    ],
)
def test_published_bus_bandwidth_on_isambard(nodes, busbw):
    """Published in the report: 512 MiB to 8 GiB, out of place, GB/s."""
    (run,) = read_nccl_tests(LOGS / f"isambard_gh200_{nodes}n_nccl2.19.3_ofi.log.gz")
    assert run.ranks == 4 * nodes
    assert run.collective == "all_reduce"
    measured = [row.out_of_place.busbw_gb_per_s for row in run.rows if row.out_of_place is not None]
    assert len(measured) == len(run.rows)
    assert measured == pytest.approx(busbw, abs=0.06)


@pytest.mark.parametrize(
    ("name", "ranks"), [("all_reduce_bench-a100-n4", 32), ("n16_32gb_all_reduce_bench", 64)]
)
def test_torch_benchmark_on_jean_zay(name, ranks):
    (run,) = read_nccl_tests(LOGS / f"bigscience_jeanzay_{name}.log.gz")
    timing = run.rows[0].out_of_place
    assert (run.ranks, run.rows[0].size_bytes) == (ranks, 4_000_000_000)
    assert timing is not None
    assert timing.algbw_gb_per_s == pytest.approx(4e9 / timing.time_us / 1e3, rel=1e-3)
    ideal = 2 * (ranks - 1) / ranks * timing.algbw_gb_per_s
    assert timing.busbw_gb_per_s == pytest.approx(ideal, rel=1e-3)
