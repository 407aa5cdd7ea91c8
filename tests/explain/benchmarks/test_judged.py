"""Benchmarks of collectives beside the model: healthy, faulty, unsteady, of unknown machines."""

from pathlib import Path

import numpy as np
import pytest

import syncwall as sw
from syncwall.cli import main
from syncwall.explain.answer import Explanation
from tests.explain.benchmarks.samples import H100, SIZES, nccl_tests, seconds_on
from tests.read.nccl_samples import nccl_log

SMALL = np.array(SIZES) <= 64 * 2**10
FAULTS = {
    "PCIe instead of NVLink": (8, 1, np.where(SMALL, 2.0, 22.0)),
    "half of the NVLinks": (8, 1, np.where(SMALL, 1.0, 2.0)),
    "one slow rank": (8, 1, np.full(len(SIZES), 1.6)),
    "one NIC off": (16, 2, np.where(SMALL, 1.0, 1.6)),
    "TCP instead of RDMA": (32, 4, np.where(SMALL, 3.0, 15.0)),
}


def explained(tmp_path: Path, text: str, cluster: str | None = "dgx-h100") -> Explanation:
    path = tmp_path / "all_reduce.txt"
    path.write_text(text)
    return sw.explain(path, cluster=cluster)


@pytest.mark.parametrize(("ranks", "nodes"), [(8, 1), (16, 2), (512, 64)])
def test_a_healthy_benchmark_passes(tmp_path, ranks, nodes):
    seconds = seconds_on("dgx-h100", ranks, nodes) * 1.05
    found = explained(tmp_path, nccl_tests(seconds, ranks=ranks, nodes=nodes))
    (said,) = found.benchmarks.collectives
    assert not found.is_bad
    assert said.rate == pytest.approx(1.05, rel=1e-3)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(tmp_path, fault):
    ranks, nodes, slower = FAULTS[fault]
    seconds = seconds_on("dgx-h100", ranks, nodes) * slower
    found = explained(tmp_path, nccl_tests(seconds, ranks=ranks, nodes=nodes))
    assert found.is_bad
    assert found.benchmarks.collectives[0].faults[0] == fault
    assert found.findings[0].severity == "wrong"
    assert fault in found.findings[0].what


def test_twenty_gigabytes_a_second_on_nvlink_fail_loudly(tmp_path, capsys):
    """The case of a user on call: 8 H100 at 20 GB/s, where NVLink gives more than 400."""
    sizes = [2.0**20, 2.0**30, 2.0**33]
    seconds = [size * 1.75 / 20e9 for size in sizes]
    path = tmp_path / "bench.txt"
    path.write_text(nccl_tests(seconds, sizes=sizes, told=False))
    assert main(["explain", str(path), "--cluster", "dgx-h100"]) == 1
    screen = capsys.readouterr().out
    assert "20 GB/s busbw" in screen
    assert "PCIe instead of NVLink" in screen
    assert "Next      nvidia-smi topo -m" in screen


def test_single_slow_sizes_are_not_a_fault(tmp_path):
    slower = np.where(np.array(SIZES) == SIZES[-1], 3.0, 0.9)
    slower[-2] = 3.0
    sizes = [*SIZES[-8:]]
    seconds = (seconds_on("alps", 1024, 256) * slower)[-8:]
    found = explained(tmp_path, nccl_tests(seconds, ranks=1024, nodes=256, sizes=sizes), "alps")
    assert not found.is_bad


def test_small_sizes_alone_are_not_judged(tmp_path):
    sizes = SIZES[:6]
    seconds = seconds_on("dgx-h100", 8, 1, sizes=sizes) * 5
    found = explained(tmp_path, nccl_tests(seconds, sizes=sizes))
    assert found.state == "not judged"
    assert "too small" in found.not_judged[0].why


def test_the_machine_is_recognised_with_evidence_and_others_that_fit(tmp_path):
    found = explained(tmp_path, nccl_tests(seconds_on("dgx-h100", 8, 1)), cluster=None)
    guess = found.benchmarks.recognised
    assert guess is not None
    assert {"dgx-h100", "aws-p5"} <= {one.name for one in guess.machines}
    assert H100 in guess.evidence[0]
    assert not found.is_bad


def test_a_network_that_only_some_machines_have_is_a_question(tmp_path):
    """8 x H100 on 2 hosts as fast as with half of the NICs: gcp-a3-mega has no more."""
    seconds = seconds_on("gcp-a3-mega", 32, 4)
    text = nccl_tests(seconds, ranks=32, nodes=4)
    found = explained(tmp_path, text, cluster=None)
    (said,) = found.benchmarks.collectives
    assert not found.is_bad
    assert "dgx-h100" in said.slow_on
    assert explained(tmp_path, text).is_bad


def test_faster_than_the_machine_is_another_machine(tmp_path):
    found = explained(tmp_path, nccl_tests(seconds_on("dgx-h100", 8, 1)), cluster="dgx-a100")
    assert "another one" in found.findings[0].why


def test_an_unknown_device_is_said(tmp_path):
    text = nccl_tests(seconds_on("dgx-h100", 8, 1), device="Unheard Of 9000")
    found = explained(tmp_path, text, cluster=None)
    assert "no machine is known" in found.not_judged[0].why


def test_more_ranks_than_the_machine_has_are_not_judged(tmp_path):
    """Jean Zay's A100 partition has fewer nodes."""
    text = nccl_tests(seconds_on("dgx-h100", 8, 1), ranks=8, nodes=1)
    huge = text.replace("on node0", "on n")  # one host still
    assert explained(tmp_path, huge, "alps").state == "suspect"


def test_ranks_are_told_by_rates_without_a_header(tmp_path):
    text = nccl_tests(seconds_on("dgx-h100", 8, 1) * 3)
    rows = "\n".join(line for line in text.splitlines() if line[:1].isdecimal())
    found = explained(tmp_path, "# out-of-place\n" + rows + "\n")
    assert found.benchmarks.collectives[0].benchmark.ranks == 8
    assert found.is_bad


def test_results_between_the_lines_of_nccl_are_judged(tmp_path):
    table = nccl_tests(seconds_on("dgx-h100", 16, 2) * 3, ranks=16, nodes=2)
    path = tmp_path / "job.log"
    path.write_text(nccl_log(hosts=2, gpus=8) + table)
    found = sw.explain(path, cluster="dgx-h100")
    assert found.files == {"NCCL log": 1}
    assert found.benchmarks.collectives[0].is_slow


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ({"net": "NET/Socket"}, "TCP instead of RDMA"),
        ({"net": "NET/IB", "nics": 8, "used": 4}, "one NIC off"),
    ],
)
def test_the_log_of_the_job_tells_causes_apart(tmp_path, log, cause):
    (tmp_path / "nccl.log").write_text(nccl_log(**log))
    slow = nccl_tests(seconds_on("dgx-h100", 16, 2) * 9, ranks=16, nodes=2)
    (tmp_path / "all_reduce.txt").write_text(slow)
    (said,) = sw.explain(tmp_path, cluster="dgx-h100").benchmarks.collectives
    assert said.faults[0] == cause
