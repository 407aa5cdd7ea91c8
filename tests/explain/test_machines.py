"""Files of one folder: which machine they are from, and whether they agree."""

import gzip
import json

import syncwall as sw
from tests.explain.benchmarks.samples import nccl_tests, seconds_on

SMI = "\n".join(
    ["\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity"]
    + [
        f"GPU{row}\t" + "\t".join(" X " if row == col else "NV12" for col in range(8)) + "\t0-63"
        for row in range(8)
    ]
)


def test_files_of_different_machines_are_a_finding(tmp_path):
    (tmp_path / "bench.txt").write_text(nccl_tests(seconds_on("dgx-h100", 8, 1)))
    (tmp_path / "topo.txt").write_text(SMI + "\n")
    found = sw.explain(tmp_path)
    assert found.is_bad
    first = found.findings[0].what
    assert first.startswith("the files are from different machines")
    assert "bench.txt (h100-sxm)" in first
    assert "a100-sxm-80" in first


def test_files_that_agree_are_none(tmp_path):
    text = nccl_tests(seconds_on("dgx-a100", 8, 1), device="NVIDIA A100-SXM4-80GB")
    (tmp_path / "bench.txt").write_text(text)
    (tmp_path / "topo.txt").write_text(SMI + "\n")
    found = sw.explain(tmp_path)
    assert not any("different machines" in one.what for one in found.findings)
    ((_, machine),) = found.topologies
    assert machine is not None
    assert machine.device.name == "a100-sxm-80"  # told by the benchmark


def test_a_trace_speaks_too(tmp_path):
    event = {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "ts": 1,
        "dur": 5,
        "pid": 0,
        "tid": 7,
        "args": {"stream": 7, "correlation": 1},
    }
    trace = {
        "deviceProperties": [{"id": 0, "name": "Tesla V100-DGXS-32GB"}],
        "traceEvents": [event],
    }
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    (tmp_path / "bench.txt").write_text(nccl_tests(seconds_on("dgx-h100", 8, 1)))
    found = sw.explain(tmp_path)
    assert (
        "traces (v100-pcie-16 or v100-pcie-32 or v100-sxm-16 or v100-sxm-32), bench.txt (h100-sxm)"
        in found.findings[0].what
    )
