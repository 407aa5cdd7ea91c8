"""Measured kernels, read from published tables.

Holds `gemms` and `attentions` (aiconfigurator, a row for each shape with the median over serving
frameworks) and `layouts` (SimuMax, the multiplications and attention of training). Times are in
seconds.
"""

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

LEAST_DIMENSION = 256
LEAST_LENGTH = 512
Column = NDArray[np.float64]
Rows = dict[tuple[int, ...], list[float]]


@dataclass(frozen=True)
class Table:
    """Shapes, a column for each dimension, and the time of each."""

    shapes: list[Column]
    seconds: Column
    sources: dict[str, int]
    """Rows taken from each file."""
    by_framework: dict[str, "Table"]


def gemms(directory: Path, system: str) -> Table:
    """m, n, k of bf16 multiplications on `system`."""
    found: dict[str, Rows] = {}
    for path in sorted(directory.glob(f"aic_gemm_{system}_*.csv.gz")):
        rows: Rows = defaultdict(list)
        for row in _lines(path):
            shape = (int(row["m"]), int(row["n"]), int(row["k"]))
            if row["gemm_dtype"] == "bfloat16" and min(shape) >= LEAST_DIMENSION:
                rows[shape].append(float(row["latency_us"]) * 1e-6)
        found[path.name] = rows
    return _table(found, system)


def attentions(directory: Path, system: str, kernels: tuple[str, ...]) -> Table:
    """Batch, length, heads, key heads and head dimension of causal bf16 attention, forward.

    Windows, earlier context and other key-value formats are left out.
    """
    found: dict[str, Rows] = {}
    for path in sorted(directory.glob(f"aic_context_attention_{system}_*.csv.gz")):
        rows: Rows = defaultdict(list)
        for row in _lines(path):
            if row["kernel_source"] in kernels and _is_plain(row):
                names = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim")
                shape = tuple(int(row[name]) for name in names)
                rows[shape].append(float(row["latency"]) * 1e-6)
        if rows:
            found[path.name] = rows
    return _table(found, system)


def _is_plain(row: dict[str, str]) -> bool:
    formats = {row["attn_dtype"], row["kv_cache_dtype"]}
    whole = row["step"] == "0" and row.get("window_size", "0") == "0"
    long = int(row["isl"]) >= LEAST_LENGTH and int(row["head_dim"]) in (64, 128)
    return formats == {"bfloat16"} and whole and long


@dataclass(frozen=True)
class Measured:
    """One efficiency that SimuMax measured."""

    operation: str
    shape: dict[str, str]
    efficiency: float
    peak_flop_per_s: float

    def number(self, name: str) -> float:
        """A dimension of the shape."""
        return float(self.shape[name])


def layouts(path: Path) -> Iterator[Measured]:
    """Every row of a table of SimuMax."""
    with path.open() as file:
        for row in csv.DictReader(file):
            shape = dict(part.split("=") for part in row["shape"].split(", "))
            peak = float(row["peak_tflops"]) * 1e12
            yield Measured(row["op"], shape, float(row["measured_efficiency"]), peak)


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        yield from csv.DictReader(file)


def _table(found: dict[str, Rows], system: str) -> Table:
    """The median over files of the median over equal rows of a file."""
    together: Rows = defaultdict(list)
    count: Counter[str] = Counter()
    by_framework = {}
    for name, rows in found.items():
        for shape, times in rows.items():
            together[shape].append(median(times))
            count[name] += len(times)
        framework = name.split(f"{system}_")[1].split("_")[0]
        by_framework[framework] = _columns(rows, {name: count[name]}, {})
    return _columns(together, dict(count), by_framework)


def _columns(rows: Rows, sources: dict[str, int], by_framework: dict[str, Table]) -> Table:
    shapes = sorted(rows)
    columns = [np.array(column, dtype=float) for column in zip(*shapes, strict=True)]
    return Table(columns, np.array([median(rows[s]) for s in shapes]), sources, by_framework)
