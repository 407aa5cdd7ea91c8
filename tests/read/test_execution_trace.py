"""Execution traces of all known schemas."""

import io
import json
import tarfile
from typing import Any

import pytest

from syncwall.problems import InputError
from syncwall.read.execution_trace import read_execution_traces
from tests.read.traces import MEASURED, needs_traces

TENSOR = [8, 9, 0, 1000, 4, "cuda:1"]
OLD = {
    "name": "record_param_comms",
    "id": 7,
    "inputs": [TENSOR, 21, 9438, 1, "all_to_allv", [1, 1], [1, 1]],
    "input_types": ["Tensor(float)"],
    "outputs": [[8, 9, 0, 500, 4, "cuda:1"]],
}
NEW = {
    "id": 3,
    "name": "record_param_comms",
    "inputs": {
        "values": [[TENSOR], 33, ["5", "dp"], 1, "allreduce", [], [], 0, 1, 2],
        "types": ["GenericList[Tensor(float)]"],
    },
    "outputs": {"values": []},
    "attrs": [
        {"name": "dtype", "value": "BFloat16"},
        {"name": "in_msg_nelems", "value": 1000},
        {"name": "out_msg_nelems", "value": 1000},
        {"name": "pg_size", "value": 2},
    ],
}
OTHER = {"id": 4, "name": "aten::mm", "attrs": [{"name": "rf_id"}, {"name": "tid"}]}


def text(*nodes: dict[str, Any]) -> str:
    return json.dumps({"schema": "1.1.0-chakra.0.0.4", "nodes": list(nodes), "finish_ts": 2})


def test_collectives_of_both_schemas(tmp_path):
    path = tmp_path / "et.json"
    path.write_text(text(OLD, NEW, OTHER, OTHER))
    (trace,) = read_execution_traces(path)
    assert (trace.schema, trace.nodes, trace.rank) == ("1.1.0-chakra.0.0.4", 4, 1)
    assert trace.operators == {"record_param_comms": 2, "aten::mm": 2}
    assert trace.groups == ("9438", "5")
    old, new = trace.collectives
    assert (old.kind, old.bytes, old.dtype, old.ranks, old.sequence) == (
        "all-to-all",
        4000,
        "float",
        2,
        21,
    )
    assert (new.kind, new.bytes, new.dtype, new.ranks, new.group) == (
        "all-reduce",
        2000,
        "BFloat16",
        2,
        "5",
    )


def test_an_archive_gives_a_trace_for_each_file(tmp_path):
    path = tmp_path / "et.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for rank in (1, 0):
            data = text(OTHER).encode()
            entry = tarfile.TarInfo(f"folder/run_eg_{rank}.json")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    assert [trace.rank for trace in read_execution_traces(path)] == [0, 1]
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError):
        read_execution_traces(path)


@pytest.mark.parametrize(
    "broken", ["", "[]", '{"nodes": 3}', '{"nodes": [1, null, {"name": 3}]}', '{"traceEvents": []}']
)
def test_what_is_no_execution_trace(tmp_path, broken):
    path = tmp_path / "et.json"
    path.write_text(broken)
    with pytest.raises(InputError):
        read_execution_traces(path)


@pytest.mark.parametrize(
    "inputs",
    [
        5,
        None,
        [],
        ["x"],
        [[], [], [], "a"],
        [[[[[]]]], 1, 2, 3, "allreduce"],
        {"values": {"a": 1}},
        [TENSOR, -1, None, 1e999, "allreduce", 3],
    ],
)
def test_odd_records_are_no_trouble(tmp_path, inputs):
    path = tmp_path / "et.json"
    path.write_text(text({**OLD, "inputs": inputs}, OTHER))
    assert read_execution_traces(path)[0].nodes == 2


@needs_traces
@pytest.mark.parametrize(
    ("file", "ranks", "nodes", "collectives"),
    [
        ("astrasim_chakra_et_rank0of2.json.gz", [0], 4801, 7),
        ("astrasim_chakra_et_rank1of2.json.gz", [1], 4797, 7),
        ("param_resnet_2gpu_et.json.gz", [1], 14392, 21),
        ("param_dlrm_pytorch_et.tar.gz", list(range(8)), 1675, 8),
    ],
)
def test_measured_execution_traces(file, ranks, nodes, collectives):
    """Counts taken from the files with json.load."""
    found = read_execution_traces(MEASURED / file)
    assert [trace.rank for trace in found] == ranks
    assert found[0].nodes == nodes
    assert len(found[0].collectives) == collectives
    assert all(c.bytes and c.kind != "other" for t in found for c in t.collectives)
    assert all(trace.problems == () for trace in found)
