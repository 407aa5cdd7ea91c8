"""Summaries of `nsys stats`: the text it prints, or the CSV files it writes.

Holds `read_nsys_stats`, `NsysStats` and `NsysRow`. A table is known by the name of its report:
cuda_api_sum, cuda_gpu_kern_sum, nvtx_sum, osrt_sum, ... Times are given in seconds.
"""

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

from syncwall.problems import EmptyInput, Problem
from syncwall.read.limited import LogLines

_ROWS = 20_000
_TABLES = 64
_TITLE = re.compile(r"\s{0,4}\*\* .{1,128}\((\w{1,64})\):")
_DASHES = re.compile(r"\s*-{3,}(?:\s+-{3,}){3,}\s*$")
_UNIT = re.compile(r"\((ns|us|ms|s)\)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_COUNTS = ("Instances", "Num Calls", "Count")
_NAMES = ("Name", "Range", "Operation")


@dataclass(frozen=True, slots=True)
class NsysRow:
    """One kernel, call or range; seconds. `median_s` is None in old versions."""

    name: str
    count: int
    total_s: float
    mean_s: float
    median_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None


@dataclass(frozen=True)
class NsysStats:
    """The tables of one file, largest total first as nsys prints them."""

    source: str
    tables: dict[str, tuple[NsysRow, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def rows(self, table: str, containing: str = "") -> tuple[NsysRow, ...]:
        """Rows of a table whose name contains a text; none if the table is absent."""
        return tuple(row for row in self.tables.get(table, ()) if containing in row.name)

    def row(self, table: str, name: str) -> NsysRow | None:
        """The row of exactly this name; nvtx ranges also without the colon of their domain."""
        return next((r for r in self.tables.get(table, ()) if r.name.lstrip(":") == name), None)


def read_nsys_stats(path: Path | str) -> NsysStats:
    """Every time summary in the file; raises `InputError` if there is none."""
    lines = LogLines(path)
    reader = _StatsReader(Path(lines.source).name)
    for _, text in lines:
        reader.read(text)
    tables = {name: tuple(rows) for name, rows in reader.tables.items() if rows}
    if not tables:
        raise EmptyInput.of("has no table of nsys stats; run: nsys stats report.nsys-rep", file=lines.source)
    return NsysStats(lines.source, tables, lines.problems)


class _StatsReader:
    """Line by line: a title, a header, dashes under each column, rows, an empty line."""

    def __init__(self, file_name: str) -> None:
        self.tables: dict[str, list[NsysRow]] = {}
        self._file = file_name
        self._title = ""
        self._before = ""
        self._columns: list[tuple[str, int, int]] | None = None
        self._csv: list[str] | None = None

    def read(self, text: str) -> None:
        if found := _TITLE.match(text):
            self._title, self._columns, self._csv = found[1], None, None
        elif _DASHES.match(text):
            self._columns = _spans(self._before, text)
        elif text.startswith(("Time (%),", '"Time (%)",', "Time(%),")):
            self._csv = next(csv.reader([text]), [])
            self._title = _from_csv_name(self._file, self._csv) if not self._title else self._title
        elif not text.strip() or text.startswith(("Processing [", "SKIPPED")):
            self._columns = None
            if self._csv:
                self._csv, self._title = None, ""
        elif self._csv:
            self._add(dict(zip(self._csv, _csv_cells(text), strict=False)))
        elif self._columns:
            self._add({name: text[low:high].strip() for name, low, high in self._columns})
        self._before = text

    def _add(self, cells: dict[str, str]) -> None:
        row = _row(cells)
        if row is None or not (self._title in self.tables or len(self.tables) < _TABLES):
            return
        rows = self.tables.setdefault(self._title or "unnamed", [])
        if len(rows) < _ROWS:
            rows.append(row)


def _csv_cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def _spans(header: str, dashes: str) -> list[tuple[str, int, int]]:
    """Names and places of the columns; the last one runs to the end of the line."""
    found = [(m.start(), m.end()) for m in re.finditer("-+", dashes)]
    lows = [0, *(end for _, end in found[:-1])]
    highs = [*(end for _, end in found[:-1]), 1 << 16]
    return [(header[a:b].strip(), a, b) for a, b in zip(lows, highs, strict=True)]


def _from_csv_name(file: str, columns: list[str]) -> str:
    """report_cuda_api_sum.csv names its table; otherwise the columns tell it."""
    found = re.search(r"(cuda_api_sum|cuda_gpu_kern_sum|nvtx_sum|nvtx_pushpop_sum|osrt_sum)", file)
    if found:
        return found[1]
    return (
        "nvtx_sum"
        if "Range" in columns
        else ("cuda_gpu_kern_sum" if "Instances" in columns else "cuda_api_sum")
    )


def _row(cells: dict[str, str]) -> NsysRow | None:
    name = next((cells[key] for key in _NAMES if key in cells), None)
    count = next((_number(cells[key]) for key in _COUNTS if key in cells), None)
    total = _seconds(cells, "Total Time")
    if not name or count is None or total is None or count < 1:
        return None
    mean = _seconds(cells, "Avg") or total / count
    return NsysRow(
        name[:300],
        int(count),
        total,
        mean,
        _seconds(cells, "Med"),
        _seconds(cells, "Min"),
        _seconds(cells, "Max"),
    )


def _seconds(cells: dict[str, str], begins: str) -> float | None:
    for key, value in cells.items():
        unit = _UNIT.search(key) if key.startswith(begins) else None
        if unit:
            number = _number(value)
            return None if number is None else number * _SECONDS[unit[1]]
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if 0 <= value < 1e18 else None
