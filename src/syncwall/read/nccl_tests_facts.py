"""One run of nccl-tests, as data.

Holds `NcclTests`, `Row`, `Timing` and `TestDevice`. Rates are in GB/s (10^9) as the program prints
them, times in microseconds.
"""

from dataclasses import dataclass, field

from syncwall.problems import Problem


@dataclass(frozen=True, slots=True)
class Timing:
    """One measured size, out of place or in place."""

    time_us: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    wrong: float | None = None
    """Wrong elements (older versions: largest error); None if not checked."""


@dataclass(frozen=True, slots=True)
class Row:
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
    rows: tuple[Row, ...] = ()
    average_busbw_gb_per_s: float | None = None
    out_of_bounds: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of NCCL and its like; other ones are not kept."""
    problems: tuple[Problem, ...] = ()
