"""Outputs of nccl-tests and rccl-tests (text or JSON) and of simple torch all-reduce benchmarks.

Holds `read_nccl_tests`. The text may stand inside a log, with a rank before each line; one file may
hold several runs. `TorchBench`: output of the small torch all-reduce benchmark that many users
copy. Each rank prints its duration, "algo throughput: N bps" and "busbw: N Gbps" for each trial,
with "data size: N GB" at the start. Its throughput counts every byte twice: the algorithm bandwidth
of nccl-tests is half of it, the bus bandwidth is the same.
"""

import re
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from syncwall.problems import InputError
from syncwall.read.limited import LogLines, open_limited, without_launcher
from syncwall.read.nccl_tests_json import (
    NcclTests,
    SizeRow,
    TestDevice,
    Timing,
    collective_name,
    library_version,
    number,
    read_json_run,
    timing,
)

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
        raise InputError.of(
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
        return replace(
            self._found, rows=tuple(self._rows), devices=devices, ranks=len(devices) or None
        )


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
    return SizeRow(
        int(words[0]), int(words[1][:18]), words[2][:16], redop[:16], root, first, second
    )


def _is_root(words: list[str], at: int) -> bool:
    """An integer before a time and two rates; a time may be an integer too, rates never are."""
    if len(words) < at + 4 or not _INTEGER.fullmatch(words[at]):
        return False
    return words[at].startswith("-") or "." in words[at + 3]
