"""JSON that nccl-tests writes with `-J`, and the numbers it shares with the text output.

Holds `read_json_run`, `collective_name`, `library_version`, `timing` and `number`. Keys as in
version 2 of that file (nccl-tests 2.17 and later, src/util.cu). `NcclTests`, `SizeRow`, `Timing`
and `TestDevice`: one run of nccl-tests, as data. Rates are in GB/s (10^9) as the program prints
them, times in microseconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syncwall.problems import InputError, Problem
from syncwall.read.limited import open_limited
from syncwall.read.whole_json import plain_text, whole_json


@dataclass(frozen=True, slots=True)
class Timing:
    """One measured size, out of place or in place."""

    time_us: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    wrong: float | None = None
    """Wrong elements (older versions: largest error); None if not checked."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One size; `in_place` is None where a benchmark has one time only."""

    size_bytes: int
    count: int
    dtype: str
    redop: str
    root: int | None
    out_of_place: Timing | None
    in_place: Timing | None


@dataclass(frozen=True, slots=True)
class TestDevice:
    """The GPU of one rank."""

    rank: int
    host: str
    device: int
    bus: str
    name: str


@dataclass(frozen=True)
class NcclTests:
    """One run of one benchmark."""

    source: str
    line: int = 0
    """Where it begins."""
    collective: str | None = None
    """all_reduce, all_gather, ...; None if the file does not say."""
    version: str | None = None
    """Of nccl-tests."""
    nccl_version: str | None = None
    """Of the library: 2.19.3."""
    threads: int | None = None
    gpus_per_thread: int | None = None
    ranks: int | None = None
    devices: tuple[TestDevice, ...] = ()
    rows: tuple[SizeRow, ...] = ()
    average_busbw_gb_per_s: float | None = None
    out_of_bounds: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of NCCL and related libraries; others are not kept."""
    problems: tuple[Problem, ...] = ()


_ROWS = 100_000
_JSON_BYTES = 64 << 20
_VARIABLES = ("NCCL_", "CUDA_", "UCX_", "FI_", "SHARP_", "OMP_")
_KNOWN = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv",
          "reduce", "gather", "scatter", "hypercube")  # fmt: skip


def collective_name(program: str) -> str:
    """Of all_reduce_perf: all_reduce."""
    known = (name for name in _KNOWN if program.startswith(name))
    return next(known, program.removesuffix("_perf"))


def library_version(code: int | None) -> str | None:
    """NCCL_VERSION_CODE as text: 21903 is 2.19.3; before 2.9 the code was 2,708 for 2.7.8."""
    if code is None or not 1000 <= code < 1_000_000:
        return None
    if code < 10_000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10_000}.{code // 100 % 100}.{code % 100}"


def timing(words: Sequence[Any]) -> Timing | None:
    """A time, two rates and perhaps the count of wrong elements."""
    values = [number(word) for word in words[:3]]
    if len(values) < 3 or values[0] is None or values[1] is None or values[2] is None:
        return None
    return Timing(values[0], values[1], values[2], number(words[3]) if len(words) > 3 else None)


def number(word: Any) -> float | None:
    """A finite number, or None."""
    try:
        value = float(word)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) and abs(value) < 1e18 else None


def read_json_run(path: Path | str) -> NcclTests:
    """The run in a file written with `-J`; raises `InputError` if it is not whole JSON."""
    with open_limited(path) as stream:
        raw = stream.read(_JSON_BYTES + 1)
    if len(raw) > _JSON_BYTES:
        raise InputError.of("is larger than any output of nccl-tests (64 MiB)", file=str(path))
    return _json_run(str(path), _dict(whole_json(raw, str(path), "a run of nccl-tests")))


def _json_run(source: str, root: dict[str, Any]) -> NcclTests:
    config, arguments = _dict(root.get("config")), root.get("args")
    program = plain_text(arguments[0], 4096) if isinstance(arguments, list) and arguments else ""
    devices = tuple(_json_device(d) for d in _dicts(config.get("devices", root.get("devices"))))
    rows = (_json_row(row) for row in _dicts(root.get("results")))
    return NcclTests(
        source=source,
        collective=collective_name(program.rpartition("/")[2]) or None,
        nccl_version=library_version(_int(root.get("nccl_version"))),
        environment=_environment(root.get("env")),
        threads=_int(config.get("nthreads")),
        gpus_per_thread=_int(config.get("ngpus")),
        ranks=len(devices) or None,
        devices=devices,
        rows=tuple(row for row in rows if row),
        average_busbw_gb_per_s=number(_dict(root.get("average_bus_bandwidth")).get("bandwidth")),
        out_of_bounds=_int(_dict(root.get("out_of_bounds")).get("count")),
    )


def _environment(value: Any) -> dict[str, str]:
    items = (
        [plain_text(item, 4096).partition("=") for item in value[:_ROWS]]
        if isinstance(value, list)
        else []
    )
    return {name: text[:256] for name, _, text in items if name.startswith(_VARIABLES)}


def _json_row(row: dict[str, Any]) -> SizeRow | None:
    size = _int(row.get("size"))
    if size is None:
        return None
    first, second = (_json_timing(_dict(row.get(key))) for key in ("out_of_place", "in_place"))
    return SizeRow(
        size,
        _int(row.get("count")) or 0,
        plain_text(row.get("type"), 16),
        plain_text(row.get("redop"), 16),
        _int(row.get("root")),
        first,
        second,
    )


def _json_timing(body: dict[str, Any]) -> Timing | None:
    words = [
        body.get("time", body.get("cpu_time")),
        body.get("alg_bw"),
        body.get("bus_bw"),
        body.get("nwrong"),
    ]
    return timing(words)


def _json_device(body: dict[str, Any]) -> TestDevice:
    keys = ("hostname", "device_hex", "device_info")
    host, bus, name = (plain_text(body.get(key), 255) for key in keys)
    return TestDevice(_int(body.get("rank")) or 0, host, _int(body.get("device")) or 0, bus, name)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    items = value[:_ROWS] if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def _int(value: Any) -> int | None:
    found = number(value)
    return int(found) if found is not None else None
