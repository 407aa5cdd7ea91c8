"""From an input that says too little nothing is concluded, of whatever kind of file it is."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import syncwall as sw
from syncwall.cli import main
from syncwall.explain.readers import READERS
from syncwall.explain.verdict import VerdictState
from syncwall.read.detect import FileKind
from tests.explain.benchmarks.samples import SIZES, iperf3_json, nccl_tests, perftest, result
from tests.explain.stragglers.operation_tables import COLUMNS, Shape, rows, simple, text
from tests.oncall.makers import MAKERS, table
from tests.read.nccl_samples import flight, nsys
from tests.read.test_memory_snapshot import STEP as STACK
from tests.read.test_memory_snapshot import segment

HEAD = nccl_tests(np.array([]), sizes=())
STEP = "[rank0]:[titan] 2026-03-01 00:00:01,000 - root - INFO - step:  1  loss: 10.1000  memory: 40.00GiB(50.00%)  tps: 5,000  tflops: 300.00  mfu: 40.00%\n"  # noqa: E501
GRAPH = '<graphs version="1">{}</graphs>'
CHANNEL = '<graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="20"/>'
DCGM = "| Diagnostic                | Result                                         |\n"
LITTLE: dict[str, dict[str, str | bytes]] = {
    FileKind.TRACE: {
        "no event": '{"traceEvents": []}',
        "no rank": '{"traceEvents": [], "distributedInfo": {"world_size": 8}}',
    },
    FileKind.EXECUTION: {
        "no node": '{"schema": "1.0.3-chakra.0.0.4", "nodes": []}',
        "one node": '{"schema": "1.0.3-chakra.0.0.4", "nodes": [{"name": "a", "id": 1}]}',
    },
    FileKind.OPERATIONS: {
        "headers only": ",".join(COLUMNS) + "\n",
        "one worker": text(rows(Shape(1, 1, 4, 5), simple)),
        "one step": text(rows(Shape(2, 1, 2, 1), simple)),
    },
    FileKind.NCCL_LOG: {
        "one line": "node0:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n",
        "a version": "node0:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n",
    },
    FileKind.NCCL_TESTS: {
        "headers only": HEAD,
        "one small size": nccl_tests(np.array([2e-5]), sizes=(1024.0,)),
        "one rank": nccl_tests(np.array(SIZES) / 1e12 + 1e-5, ranks=1),
        "no machine": nccl_tests(np.array(SIZES) / 1e10 + 1e-5, device="Unheard Of 9000"),
    },
    FileKind.FLIGHT: {
        "no entry": json.dumps(flight(0, 0)),
        "one rank": json.dumps(flight(0, 3)),
    },
    FileKind.MEMORY: {
        "no segment": pickle.dumps({"segments": [], "device_traces": [[]]}),
        "no failure": pickle.dumps({"segments": [segment([(1 << 30, STACK)])], "device_traces": [[]]}),
    },
    FileKind.GRAPH: {"no graph": GRAPH.format(""), "one graph": GRAPH.format(CHANNEL)},
    FileKind.TOPOLOGY: {
        "no device": '<system version="1"></system>',
        "one GPU": "\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n",
    },
    FileKind.FABRIC: {"no switch": "switches:\n", "one switch": "switches:\n  a:\n    switches: []\n"},
    FileKind.NSYS: {
        "headers only": nsys().partition(" --------")[0],
        "one range": nsys().partition(" ** CUDA API")[0],
    },
    FileKind.IPERF3: {"no machine": iperf3_json(9.4), "no bit": iperf3_json(0.0)},
    FileKind.PERFTEST: {
        "headers only": perftest(1.0).partition(" 65536")[0],
        "no machine": perftest(98.0),
    },
    FileKind.MEASURED: {
        "no row": result("matmul", {"rows": []}),
        "no link": result("links", {"rows": [], "suspects": []}),
        "no size": result("collectives", {"rows": []}),
    },
    FileKind.TRAINING_LOG: {"one step": STEP},
    FileKind.NODE_CHECK: {
        "headers only": DCGM,
        "nothing tested": f"{DCGM}| PCIe                      | Skip - All                     |\n",
        "no port": "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 0\n",
    },
}
MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "a trace of one rank of four": ("traces", {"only": (2,), "data_s": 0.0001, "transfer_s": 0.001}),
    "traces of two ranks of four": ("traces", {"only": (0, 1)}),
    "one step of one rank": ("traces", {"ranks": 1, "steps": 1, "data_s": 0.0001, "transfer_s": 0.001}),
    "one step of four ranks": ("traces", {"steps": 1}),
    "dumps of three ranks of four": (
        "dumps",
        {"counts": {0: 3, 1: 3, 2: 3}, "members": 4, "state": "completed"},
    ),
    "four steps of a training log": ("log", {"steps": 4}),
    "kernels of a device that nobody knows": ("matmul", {"device": "Unheard Of 9000"}),
}
"""Inputs that are more than one text, by what they are."""
NAMED = {(FileKind.NCCL_TESTS, "no machine"), (FileKind.TOPOLOGY, "one GPU")}
NAMED |= {(FileKind.IPERF3, "no machine"), (FileKind.PERFTEST, "no machine")}
"""What the name of a machine is enough to judge."""
CASES = [
    pytest.param(kind, name, cluster, id=f"{kind}-{name}-{cluster}")
    for kind, some in LITTLE.items()
    for name in some
    for cluster in (None, "dgx-h100")
    if cluster is None or (kind, name) not in NAMED
]


def concludes_nothing(path: Path, cluster: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Not judged, with what to give, and its exit code."""
    assert main(["explain", str(path), "--json", *(["--cluster", cluster] if cluster else [])]) == 3
    record = json.loads(capsys.readouterr().out)
    assert record["state"] == VerdictState.NOT_JUDGED
    assert record["verdict"].startswith("not judged: ")
    assert record["not_judged"]
    assert all(one["what"] and one["why"] and one["give"] for one in record["not_judged"])
    assert any(one["give"] in " ".join(record["next"]) for one in record["not_judged"])


def test_every_kind_of_file_is_here():
    assert {*map(str, FileKind)} - {*map(str, LITTLE)} == {FileKind.FAILURE}  # is one, if it is known at all
    assert {*map(str, READERS)} <= {*map(str, FileKind)}


@pytest.mark.parametrize(("kind", "name", "cluster"), CASES)
def test_too_little_is_not_judged(tmp_path, capsys, kind, name, cluster):
    path = tmp_path / "rank0_0"
    held = LITTLE[kind][name]
    path.write_bytes(held if isinstance(held, bytes) else held.encode())
    concludes_nothing(path, cluster, capsys)


@pytest.mark.parametrize("name", MADE)
def test_a_part_is_not_judged(tmp_path, capsys, name):
    maker, how = MADE[name]
    concludes_nothing(MAKERS[maker](tmp_path, **how), None, capsys)


def test_a_file_without_results_does_not_hide_the_others(tmp_path, capsys):
    (tmp_path / "killed.txt").write_text(HEAD)
    table(tmp_path, cluster="dgx-h100", cap_gb_per_s=20)
    found = sw.explain(tmp_path, cluster="dgx-h100")
    assert found.state is VerdictState.WRONG
    assert [Path(one.file).name for one in found.not_judged] == ["killed.txt"]
