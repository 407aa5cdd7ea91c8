"""Profiler traces become columns, whatever state the file is in."""

import csv
import json
import random
import time
from typing import Any

import numpy as np
import pytest

from syncwall.problems import InputError
from syncwall.read.kineto import EventColumns, read_trace
from syncwall.read.trace import Category, Trace
from tests.read.traces import MEASURED, event, launched, needs_traces, step, written

META = {
    "Collective name": "_allgather_base",
    "In msg nelems": 100,
    "Out msg nelems": 800,
    "dtype": "BFloat16",
    "Group size": 8,
    "Process Group Name": "3",
    "Seq": 12,
}


def small() -> list[dict[str, Any]]:
    return [
        step(4, 1000, 500),
        event("cpu_op", "aten::mm", 1010.5, 20.25),
        *launched("volta_sgemm_128x32_nt", 1015, 1030, 40, 11),
        event(
            "kernel",
            "ncclDevKernel_AllGather_RING_LL",
            1050,
            30,
            tid=9,
            stream=9,
            correlation=12,
            **META,
        ),
        {"ph": "i", "name": "mark", "ts": 1100, "pid": "", "tid": ""},
        step(5, 1500, 480),
    ]


def test_events_become_columns_in_order_of_their_start(tmp_path):
    trace = read_trace(
        written(
            tmp_path / "host-3_77.123.pt.trace.json.gz",
            small(),
            baseTimeNanoseconds=5_000_000_000,
            deviceProperties=[{"id": 0, "name": "NVIDIA H100"}],
            distributedInfo={
                "rank": 3,
                "world_size": 8,
                "backend": "nccl",
                "pg_config": [{"pg_name": "3", "pg_desc": "mesh_dp", "ranks": [0, 1]}],
            },
        )
    )
    assert (trace.rank, trace.world_size, trace.device) == (3, 8, "NVIDIA H100")
    assert (trace.host, trace.facts["events"], len(trace)) == ("host-3", 7, 6)
    assert trace.facts["groups"] == {"3": ("mesh_dp", (0, 1))}
    assert trace.base_ns == 5_000_000_000 + 1_000_000
    assert list(trace.start_ns) == [0, 10_500, 15_000, 30_000, 50_000, 500_000]
    assert trace.duration_ns[1] == 20_250
    assert trace.end_ns[1] == 30_750
    assert [trace.names[i] for i in trace.name][1] == "aten::mm"
    assert list(trace.category) == [
        Category.ANNOTATION,
        Category.OPERATOR,
        Category.RUNTIME,
        Category.KERNEL,
        Category.KERNEL,
        Category.ANNOTATION,
    ]
    assert list(trace.stream) == [-1, -1, -1, 7, 9, -1]
    assert [(s.number, s.start_ns, s.end_ns) for s in trace.steps] == [
        (4, 0, 500_000),
        (5, 500_000, 980_000),
    ]
    assert trace.problems == ()


def test_a_collective_is_described_by_its_metadata(tmp_path):
    trace = read_trace(written(tmp_path / "t.json", small()))
    (told,) = trace.collectives.values()
    assert told.kind == "all-gather"
    assert told.bytes == 1600
    assert told.dtype == "BFloat16"
    assert (told.group, told.ranks, told.sequence) == ("3", 8, 12)


def test_the_host_tells_what_a_send_receive_kernel_is(tmp_path):
    """PyTorch's all-to-all on NCCL is a kernel named SendRecv; only the call says more."""
    call = event("user_annotation", "nccl:all_to_all", 900, 100)
    trace = read_trace(
        written(
            tmp_path / "t.json",
            [
                call,
                *launched("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 950, 1000, 50, 5),
                *launched("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 1200, 1300, 50, 6),
            ],
        )
    )
    kinds = {
        int(trace.start_ns[i]) // 1000 + 900: c.kind
        for i, c in trace.collectives.items()
        if trace.category[i] == Category.KERNEL
    }
    assert kinds == {1000: "all-to-all", 1300: "send-receive"}


def test_times_of_day_in_microseconds_keep_their_precision(tmp_path):
    base = 1_661_203_462_598_738
    trace = read_trace(
        written(tmp_path / "t.json", [event("cpu_op", "a", base, 3), event("cpu_op", "b", base + 7, 1)])
    )
    assert list(trace.start_ns) == [0, 7000]
    assert trace.base_ns == base * 1000


def test_a_bare_list_of_events_and_old_category_names(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps([event("Kernel", "gemm", 1, 2, stream=3), event("Operator", "aten::mm", 0, 2)])
    )
    assert list(read_trace(path).category) == [Category.OPERATOR, Category.KERNEL]


def test_a_rank_in_the_file_name_is_taken_if_the_file_does_not_say(tmp_path):
    assert read_trace(written(tmp_path / "run_rank12.json", small())).rank == 12


def many(count: int) -> list[dict[str, Any]]:
    return [event("cpu_op", f"aten::op_{i % 50}", 10 * i, 5, Stack="x" * (i % 300)) for i in range(count)]


def test_long_files_come_through_in_batches(tmp_path):
    trace = read_trace(written(tmp_path / "t.json.gz", many(30_000), tail=[{"name": "not one"}]))
    assert len(trace) == 30_000
    assert len(trace.names) == 50
    assert np.array_equal(trace.start_ns, np.arange(30_000) * 10_000)


def test_a_file_that_ends_early_gives_what_is_there(tmp_path):
    path = written(tmp_path / "t.json", many(20_000))
    path.write_bytes(path.read_bytes()[:-700_000])
    trace = read_trace(path)
    assert 10_000 < len(trace) < 20_000
    assert "missing" in " ".join(p.message for p in trace.problems)


def test_a_damaged_event_is_skipped(tmp_path):
    path = written(tmp_path / "t.json", many(20_000))
    text = path.read_text()
    at = text.index('"ts": 100000,')
    path.write_text(text[:at] + '"ts": 1"0' + text[at + 8 :])
    trace = read_trace(path)
    assert 19_990 <= len(trace) < 20_000
    assert trace.problems


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "{",
        "[]",
        "{}",
        '{"traceEvents": []}',
        '{"traceEvents": 5}',
        '{"nodes": []}',
        '{"traceEvents": [1, null, "x", [], {}, {"ph": "X"}]}',
        "[" * 100_000,
        '{"a":' * 50_000,
        '{"traceEvents": [{"ph": "X", "name": "a", "ts": ' + "9" * 5000 + "}]}",
    ],
)
def test_what_is_no_trace_is_refused_in_words(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(InputError):
        read_trace(path)


@pytest.mark.parametrize("value", ["1e999", "NaN", "-1", '"x"', "null", "[]", "1" * 400])
def test_impossible_numbers_cost_one_event(tmp_path, value):
    path = written(tmp_path / "t.json", small())
    path.write_text(path.read_text().replace("20.25", value))
    trace = read_trace(path)
    assert len(trace) == 5
    assert "aten::mm" not in [trace.names[i] for i in trace.name]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Cut, flipped, repeated, or with something foreign in it."""
    text = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) or 1)
        kind = chance.randrange(5)
        if kind == 0:
            text = text[:at]
        elif kind == 1 and text:
            text[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            text[at:at] = chance.choice(
                [
                    b"9" * 6000,
                    b"[" * 3000,
                    b'"',
                    b"\\",
                    b"}",
                    b'{"ph":"X"',
                    b"\0",
                    b"1e400",
                    b'{"a":' * 2000,
                    b"\xff\xfe",
                    b"]",
                ]
            )
        elif kind == 3:
            text[at:at] = text[at : at + chance.randint(1, 400)]
        else:
            del text[at : at + chance.randint(1, 200)]
    return bytes(text)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_mutated_files_give_a_trace_or_an_error_in_words(tmp_path, packed):
    chance = random.Random(20 + packed)
    sample = written(
        tmp_path / ("t.json" + ".gz" * packed),
        small() + many(40),
        x={"a": [1, 2]},
        distributedInfo={"rank": 1, "world_size": 2, "pg_config": [{"pg_name": 1}]},
    )
    data, path = sample.read_bytes(), tmp_path / "mutated"
    read = 0
    for _ in range(400):
        path.write_bytes(mutated(data, chance))
        began = time.process_time()
        try:
            trace = read_trace(path)
        except InputError:
            continue
        finally:
            assert time.process_time() - began < 2
        assert isinstance(trace, Trace)
        assert len(trace) > 0
        assert np.all(np.diff(trace.start_ns) >= 0)
        assert np.all(trace.duration_ns >= 0)
        read += 1
    assert read > (10 if packed else 100)


def index() -> list[dict[str, str]]:
    if not MEASURED.is_dir():
        return []
    with (MEASURED / "INDEX.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["events"] and "/" not in row["file"]]


@pytest.mark.slow
@needs_traces
@pytest.mark.parametrize("row", index(), ids=lambda row: row["file"])
def test_the_facts_of_measured_traces(row):
    """Facts of INDEX.csv; its span is from the first to the last start of any event."""
    trace = read_trace(MEASURED / row["file"])
    kernels = trace.name[trace.category == Category.KERNEL]
    assert trace.facts["events"] == int(row["events"])
    assert len(kernels) == int(row["gpu_kernels"])
    nccl = sum("nccl" in trace.names[i].lower() for i in kernels)
    assert nccl == int(row["nccl_kernels"])
    assert f"{np.ptp(trace.start_ns) / 1e6:.1f}" == row["span_ms"]
    assert len(trace.steps) == int(row["profiler_steps"])
    assert (trace.device or "") == row["gpu"]
    assert ("" if trace.rank is None else str(trace.rank)) == row["rank"]
    assert ("" if trace.world_size is None else str(trace.world_size)) == row["world_size"]
    assert trace.facts.get("nccl_version", "") == row["nccl_version"]
    told = any(c.bytes is not None for i, c in trace.collectives.items() if trace.stream[i] >= 0)
    assert told == (row["collective_metadata"] == "True")
    assert trace.problems == ()


def pretty(events: list[dict[str, Any]]) -> str:
    """Line breaks as Kineto writes them."""
    return json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=2)


@pytest.mark.parametrize("text", [json.dumps, pretty], ids=["compact", "indented"])
def test_the_shortcut_gives_the_same_as_decoding(tmp_path, monkeypatch, text):
    """Long enough that most of the file passes in bulk; names with all that JSON must escape."""
    events = [
        e
        for i in range(1500)
        for e in (
            event("cpu_op", f'odd "name" \\ {{}} , é {i % 7}', 10 * i + 0.125, 5.25, tid=f"t{i % 3}"),
            *launched(f"kernel<{i % 5}>", 10 * i + 1, 10 * i + 3, 2, i + 1, stream=7 + i % 2),
            event("kernel", "ncclDevKernel_AllGather", 10 * i + 6, 3, stream=9, **META),
            {"ph": "s", "id": i, "pid": 7, "tid": 1, "ts": 10 * i, "cat": "ac2g", "name": "ac2g"},
            {"name": "late", "ph": "i", "ts": i, "pid": 1, "tid": 2},
            {
                "ph": "X",
                "cat": "Trace",
                "ts": 10 * i,
                "dur": 3,
                "pid": "Spans",
                "tid": "P",
                "name": "other order",
            },
        )
    ]
    path = tmp_path / "t.json"
    path.write_text(text(events))
    taken = []
    quick = EventColumns.add_text

    def watched(self: EventColumns, part: Any) -> Any:
        taken.append(quick(self, part))
        return taken[-1]

    monkeypatch.setattr(EventColumns, "add_text", watched)
    fast = read_trace(path)
    assert any(taken)
    monkeypatch.setattr(EventColumns, "add_text", lambda self, part: False)
    slow = read_trace(path)
    assert rows(fast) == rows(slow)
    assert fast.facts == slow.facts
    assert len(fast) == 7500
    assert fast.base_ns == slow.base_ns


def rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Events as plain values; those that start at once are in no order."""
    return sorted(
        (
            int(trace.start_ns[i]),
            trace.names[trace.name[i]],
            int(trace.category[i]),
            int(trace.duration_ns[i]),
            int(trace.stream[i]),
            int(trace.correlation[i]),
            str(trace.collectives.get(i)),
        )
        for i in range(len(trace))
    )
