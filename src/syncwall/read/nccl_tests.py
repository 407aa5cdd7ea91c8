"""Outputs of nccl-tests and rccl-tests (text or JSON) and of simple torch all-reduce benchmarks.

Keys as in version 2 of that file (nccl-tests 2.17 and later, src/util.cu). Rates are in GB/s (10^9)
as the program prints them, times in microseconds.

The text may stand inside a log, with a rank before each line; one file may hold several runs. Each
rank prints its duration, "algo throughput: N bps" and "busbw: N Gbps" for each trial, with "data
size: N GB" at the start. Its throughput counts every byte twice: the algorithm bandwidth of nccl-
tests is half of it, the bus bandwidth is the same.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.read.limited import LogLines, open_limited, plain_text, whole_json, without_launcher


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

    @property
    def corrupt_sizes(self) -> tuple[int, ...]:
        """Sizes in bytes with wrong results; old versions print the largest error, mostly below 1."""
        return tuple(
            row.size_bytes
            for row in self.rows
            if any(one and (one.wrong or 0.0) >= 1.0 for one in (row.out_of_place, row.in_place))
        )


_JSON_BYTES = 64 << 20
_VARIABLES = ("NCCL_", "CUDA_", "UCX_", "FI_", "SHARP_", "OMP_")
_KNOWN = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "sendrecv",
    "reduce",
    "gather",
    "scatter",
    "hypercube",
)


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
        [plain_text(item, 4096).partition("=") for item in value[:_ROWS]] if isinstance(value, list) else []
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


_LIMIT = 200_000
_DURATION = re.compile(r"\s*duration: (\d{1,9}(?:\.\d{1,9})?) sec")
_ALGORITHM = re.compile(r"\s*algo throughput: (\d{1,18}(?:\.\d{1,9})?) bps")
_BUS = re.compile(r"\s*busbw: (\d{1,9}(?:\.\d{1,9})?)\s{1,4}Gbps")
_SIZE = re.compile(r"(\d{1,7}) data size: (\d{1,6}(?:\.\d{1,6})?) GB")


class TorchBench:
    """Takes in lines; the median over ranks and trials is robust against interleaved output."""

    def __init__(self) -> None:
        self._durations: list[float] = []
        self._algorithm: list[float] = []
        self._bus: list[float] = []
        self._ranks: set[int] = set()
        self._size_gb: float | None = None

    def read(self, text: str) -> None:
        """Take in one line."""
        if len(self._bus) >= _LIMIT:
            return
        if found := _DURATION.match(text):
            self._durations.append(float(found[1]))
        elif found := _ALGORITHM.match(text):
            self._algorithm.append(float(found[1]) / 16e9)
        elif found := _BUS.match(text):
            self._bus.append(float(found[1]) / 8.0)
        elif found := _SIZE.match(text):
            self._ranks.add(int(found[1]))
            self._size_gb = float(found[2])

    def result(self) -> tuple[int | None, int, float, float, float] | None:
        """Ranks, bytes, microseconds, algorithm and bus bandwidth in GB/s (bytes); None if nothing.

        The size is what was printed; without it, duration times throughput.
        """
        if not (self._durations and self._algorithm and self._bus):
            return None
        time_s, algorithm = median(self._durations), median(self._algorithm)
        size = self._bytes(time_s, algorithm)
        return len(self._ranks) or None, size, time_s * 1e6, algorithm, median(self._bus)

    def _bytes(self, time_s: float, algorithm: float) -> int:
        if self._size_gb is not None:
            return int(self._size_gb * 1e9)
        return int(time_s * algorithm * 1e9)


_ROWS = 100_000
_RUNS = 1_000
_BEGINNINGS = ("# nccl-tests version", "# Collective test starting", "# nThread")
_VERSION = re.compile(r"# nccl-tests version (\S{1,32})(?:.{0,64}nccl-library=(\d{1,6}))?")
_START = re.compile(r"# Collective test starting: (\w{1,64})")
_CONFIG = re.compile(r"#\s{1,4}nThreads?:? (\d{1,4}) nGpus:? (\d{1,4})")
_DEVICE = re.compile(
    r"#\s{1,4}Rank\s{1,8}(\d{1,7})(?: Group\s{1,4}-?\d{1,7})? Pid\s{1,8}\d{1,10}"
    r" on\s{1,32}(\S{1,255}) device\s{1,4}(\d{1,4}) \[(\S{1,16})\] (.{1,128}?)\s*$"
)
# Words of one measurement by words of both: without #wrong, one column only, per-iteration columns.
_WIDTHS = {6: 3, 3: 3, 16: 8}
_INTEGER = re.compile(r"-?\d{1,7}")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s{1,8}: ([\d.eE+-]{1,24})")
_BOUNDS = re.compile(r"# Out of bounds values\s{1,8}: (\d{1,12})")


def read_nccl_tests(path: Path | str) -> tuple[NcclTests, ...]:
    """Every run in the file; raises `InputError` if there is none."""
    with open_limited(path) as stream:
        is_json = stream.peek(64).lstrip()[:1] == b"{"
    runs = [read_json_run(path)] if is_json else _from_text(path)
    if not any(run.rows for run in runs):
        raise EmptyInput.of(
            "has no nccl-tests results: give the output of all_reduce_perf or a sibling",
            file=str(path),
        )
    return tuple(run for run in runs if run.rows)


def _from_text(path: Path | str) -> list[NcclTests]:
    lines = LogLines(path)
    runs = [_Run(lines.source, 0)]
    bench = TorchBench()
    for at, raw in lines:
        text = without_launcher(raw).strip()
        if text.startswith(_BEGINNINGS) and runs[-1].ended and len(runs) < _RUNS:
            runs.append(_Run(lines.source, at))
        if text.startswith("#"):
            runs[-1].header(text)
        elif row := _row(text):
            runs[-1].add(row)
        else:
            bench.read(raw)
    results = [run.result() for run in runs]
    if not any(run.rows for run in results) and (result := bench.result()):
        ranks, size, time_us, algbw, busbw = result
        row = SizeRow(size, size // 4, "float", "sum", None, Timing(time_us, algbw, busbw), None)
        results = [NcclTests(lines.source, collective="all_reduce", ranks=ranks, rows=(row,))]
    return [replace(run, problems=lines.problems) for run in results]


class _Run:
    """One run while it is read."""

    def __init__(self, source: str, line: int) -> None:
        self._found = NcclTests(source, line=line)
        self._rows: list[SizeRow] = []
        self._devices: list[TestDevice] = []

    @property
    def ended(self) -> bool:
        """Results have been seen: the next header belongs to another run."""
        return bool(self._rows) or self._found.average_busbw_gb_per_s is not None

    def add(self, row: SizeRow) -> None:
        """Keep one line of results."""
        if len(self._rows) < _ROWS:
            self._rows.append(row)

    def header(self, text: str) -> None:
        """Keep what one comment line says."""
        if found := _DEVICE.match(text):
            if len(self._devices) < _ROWS:
                rank, host, device, bus, name = found.groups()
                self._devices.append(TestDevice(int(rank), host, int(device), bus, name))
        elif found := _CONFIG.match(text):
            self._set(threads=int(found[1]), gpus_per_thread=int(found[2]))
        elif found := _VERSION.match(text):
            library = library_version(int(found[2])) if found[2] else None
            self._set(version=found[1], nccl_version=library)
        elif found := _START.match(text):
            self._set(collective=collective_name(found[1]))
        elif found := _AVERAGE.match(text):
            self._set(average_busbw_gb_per_s=number(found[1]))
        elif found := _BOUNDS.match(text):
            self._set(out_of_bounds=int(found[1]))

    def _set(self, **values: Any) -> None:
        self._found = replace(self._found, **values)

    def result(self) -> NcclTests:
        """All that was kept."""
        devices = tuple(self._devices)
        return replace(self._found, rows=tuple(self._rows), devices=devices, ranks=len(devices) or None)


def _row(text: str) -> SizeRow | None:
    """A line of: size count type [redop] [root], then time algbw busbw [wrong] once or twice."""
    words = text.split() if text[:1].isdecimal() and len(text) < 1000 else []
    if len(words) < 6 or not (words[0].isdecimal() and words[1].isdecimal()) or len(words[0]) > 18:
        return None
    redop = "none" if _INTEGER.fullmatch(words[3]) or number(words[3]) is not None else words[3]
    at = 3 if redop == "none" and words[3] != "none" else 4
    root = int(words[at]) if _is_root(words, at) else None
    rest = words[at + (root is not None) :]
    width = _WIDTHS.get(len(rest), 4)
    first, second = timing(rest[:width]), timing(rest[width : 2 * width])
    if first is None:
        return None
    return SizeRow(int(words[0]), int(words[1][:18]), words[2][:16], redop[:16], root, first, second)


def _is_root(words: list[str], at: int) -> bool:
    """An integer before a time and two rates; a time may be an integer too, rates never are."""
    if len(words) < at + 4 or not _INTEGER.fullmatch(words[at]):
        return False
    return words[at].startswith("-") or "." in words[at + 3]
