"""Small profiler traces, written by tests."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

MEASURED = Path(__file__).parents[3] / "shared" / "data" / "measured" / "04_traces"
needs_traces = pytest.mark.skipif(not MEASURED.is_dir(), reason="needs the traces in ../shared")


def event(
    cat: str, name: str, start_us: float, length_us: float, tid: Any = 1, **args: Any
) -> dict[str, Any]:
    """One event with a duration."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0 if cat == "kernel" else 7,
        "tid": tid,
        "ts": start_us,
        "dur": length_us,
        "args": args,
    }


def launched(
    name: str,
    call_us: float,
    start_us: float,
    length_us: float,
    number: int,
    *,
    stream: int = 7,
    cat: str = "kernel",
) -> list[dict[str, Any]]:
    """A kernel and the call of 5 us that launched it."""
    return [
        event("cuda_runtime", "cudaLaunchKernel", call_us, 5, correlation=number),
        event(cat, name, start_us, length_us, tid=stream, stream=stream, device=0, correlation=number),
    ]


def step(number: int, start_us: float, length_us: float) -> dict[str, Any]:
    """The profiler's mark of a step."""
    return event("user_annotation", f"ProfilerStep#{number}", start_us, length_us)


def written(path: Path, events: list[dict[str, Any]], **head: Any) -> Path:
    """A trace as the profiler writes it."""
    text = json.dumps({"schemaVersion": 1, **head, "traceEvents": events})
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path
