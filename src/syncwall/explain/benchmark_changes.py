"""Benchmarks and links of two days: what was timed on both, and how much longer it takes.

Holds `TimedBenchmark`, `BenchmarkChange`, `timed_benchmarks` and `changed_benchmarks`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.explain.collective_benchmarks import of_measured, of_nccl_tests, seconds_by_size
from syncwall.read.detect import FileKind
from syncwall.read.link_rates import LinkReading

_LARGE_BYTES: Final = 2**20
_BENCHMARK: Final = 1.08
"""Median ratio of two tables from which they differ: repeats on one node agree within 2%."""


@dataclass(frozen=True, slots=True)
class TimedBenchmark:
    """Seconds of anything that can be measured again: a collective by size, a link."""

    name: str
    """What was measured: the same on both days."""
    kind: str
    """Of file."""
    ranks: int
    """0 if the file does not say."""
    seconds: Mapping[float, float]
    """By size in bytes; of a link, of one byte at its rate."""


@dataclass(frozen=True, slots=True)
class BenchmarkChange:
    """A benchmark that was run on both days."""

    kind: str
    """What was measured."""
    ranks: int
    ratio: float
    """Median of its time now over that before, at sizes from 1 MiB on."""
    sizes: tuple[float, float]
    """From and to which size it changed most; one byte for links."""

    @property
    def is_slower(self) -> bool:
        """True if it is slower than repeats differ."""
        return self.ratio > _BENCHMARK

    @property
    def is_changed(self) -> bool:
        """True if it is slower or faster."""
        return self.is_slower or self.ratio < 1 / _BENCHMARK


def timed_benchmarks(read: Mapping[str, Sequence[Any]]) -> Iterator[TimedBenchmark]:
    """Everything in files that was timed, by a name that is the same on another day."""
    for one in read.get(FileKind.NCCL_TESTS, ()):
        table = of_nccl_tests(one.what)
        name, ranks = (table.kind, table.ranks) if table else (one.what.collective, one.what.ranks or 0)
        if name:
            yield TimedBenchmark(name, FileKind.NCCL_TESTS, ranks, seconds_by_size(one.what))
    for one in read.get(FileKind.MEASURED, ()):
        for table in of_measured(one.what.times):
            by_size = dict(zip(table.sizes.tolist(), table.seconds.tolist(), strict=True))
            yield TimedBenchmark(table.kind, FileKind.MEASURED, table.ranks, by_size)
        for row in one.what.links:
            name = f"link from rank {row.source} to {row.target}"
            yield TimedBenchmark(name, FileKind.MEASURED, 2, {1.0: 1.0 / row.rate_bytes_per_s})
        for gemm in one.what.times.gemm:
            name = f"GEMM {gemm.m} x {gemm.n} x {gemm.k} {gemm.dtype}"
            yield TimedBenchmark(name, FileKind.MEASURED, 1, {1.0: gemm.seconds})
    for kind in (FileKind.IPERF3, FileKind.PERFTEST):
        rates: dict[str, list[float]] = {}
        for one in read.get(kind, ()):
            rates.setdefault(_link(one.what), []).append(one.what.bytes_per_s)
        for name, each in rates.items():
            yield TimedBenchmark(name, kind, 2, {1.0: 1.0 / float(np.median(each))})


def _link(reading: LinkReading) -> str:
    ends = f" {reading.local} – {reading.remote}" if reading.local and reading.remote else ""
    return f"{reading.tool}{f' {reading.device}' * bool(reading.device)}{ends}"


def changed_benchmarks(
    now: Sequence[TimedBenchmark], before: Sequence[TimedBenchmark]
) -> Iterator[BenchmarkChange]:
    """Each of `now` beside the fastest of the same name and ranks before, changed or not."""
    for one in now:
        found = [each for other in before if (each := _beside(one, other)) is not None]
        if found:
            yield max(found, key=lambda each: each.ratio)


def _beside(one: TimedBenchmark, other: TimedBenchmark) -> BenchmarkChange | None:
    if (one.name, one.ranks) != (other.name, other.ranks):
        return None
    sizes = np.array(sorted(one.seconds.keys() & other.seconds.keys()))
    large = sizes >= min(_LARGE_BYTES, sizes[-1]) if len(sizes) else sizes
    if not len(sizes):
        return None
    ratio = np.array([one.seconds[size] / other.seconds[size] for size in sizes])[large]
    middle = float(np.median(ratio))
    moved = sizes[large][np.abs(np.log(ratio)) >= min(abs(np.log(middle)), np.log(_BENCHMARK))]
    ends = (float(moved[0]), float(moved[-1])) if len(moved) else (0.0, 0.0)
    return BenchmarkChange(one.name, one.ranks, middle, ends)
