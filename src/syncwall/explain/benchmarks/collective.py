"""A benchmark of one collective, whatever program timed it.

Holds `CollectiveBenchmark`, `of_nccl_tests` and `of_measured`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from syncwall.cost.measured import CollectiveTable, MachineMeasurements
from syncwall.cost.nccl import bus_factor
from syncwall.public import Numbers
from syncwall.read.nccl_tests import NcclTests
from syncwall.work.operations import CollectiveKind

KINDS: Final[dict[str, CollectiveKind]] = {
    "all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all", "broadcast": "broadcast", "reduce": "reduce",
}  # fmt: skip
"""Of what nccl-tests calls them."""
UNPRICED: Final = ("sendrecv", "gather", "scatter", "hypercube")
"""The rest, which the cost model does not price."""
_LARGE: Final = 1 << 20
"""Bytes from which printed rates have digits enough to tell the ranks from their ratio."""
_FEW: Final = 64
"""Most ranks that this ratio tells for sure."""
_ONE: Final = 0.9999
"""Bus over algorithm bandwidth: an all-reduce of 2 ranks has 1, a reduce-scatter less."""


@dataclass(frozen=True)
class CollectiveBenchmark:
    """Seconds of one collective by size."""

    source: str
    """The file."""
    kind: CollectiveKind
    ranks: int
    nodes: int | None
    """None if the file does not name the hosts."""
    sizes: Numbers
    """Bytes, growing, as nccl-tests counts them."""
    seconds: Numbers
    device: str = ""
    """Name of the first GPU, as the file has it."""
    hosts: tuple[str, ...] = ()

    def busbw(self, seconds: Any) -> Any:
        """Bytes/s on each link, as nccl-tests counts them, if the sizes took `seconds`."""
        return self.sizes * bus_factor(self.kind, self.ranks) / seconds


def of_nccl_tests(run: NcclTests) -> CollectiveBenchmark | None:
    """The times of `run`; None if its collective has no price, or its ranks are not known."""
    name = run.collective or _told_by_columns(run)
    kind, ranks = KINDS.get(name or ""), run.ranks or _told_by_rates(run, name)
    points = {
        float(row.size_bytes): best.time_us * 1e-6
        for row in run.rows
        if (best := row.out_of_place or row.in_place) and row.size_bytes > 0 and best.time_us > 0
    }
    if kind is None or ranks is None or ranks < 2 or not points:
        return None
    hosts = tuple(dict.fromkeys(device.host for device in run.devices))
    sizes = sorted(points)
    return CollectiveBenchmark(
        source=run.source, kind=kind, ranks=ranks, nodes=len(hosts) or None,
        sizes=np.array(sizes), seconds=np.array([points[size] for size in sizes]),
        device=run.devices[0].name if run.devices else "", hosts=hosts,
    )  # fmt: skip


def of_measured(found: MachineMeasurements) -> Iterator[CollectiveBenchmark]:
    """Every table that `syncwall measure collectives` made."""
    for table in found.collectives:
        yield _of_table(table, found)


def _of_table(table: CollectiveTable, found: MachineMeasurements) -> CollectiveBenchmark:
    sizes, seconds = zip(*sorted(table.points), strict=True)
    return CollectiveBenchmark(
        source=", ".join(found.sources), kind=table.kind, ranks=table.ranks, nodes=table.nodes,
        sizes=np.array(sizes), seconds=np.array(seconds), device=found.device, hosts=found.hosts,
    )  # fmt: skip


def _told_by_columns(run: NcclTests) -> str | None:
    """The collective of an output whose last lines are lost, and of versions before 2.17.

    All-reduce and reduce-scatter have an operation and no root, but another bus bandwidth;
    all-gather and all-to-all differ in nothing but what the file may be called.
    """
    row, told = run.rows[-1], _bus_over_algorithm(run)
    rooted = row.root is not None and row.root >= 0
    if told is None:
        return None
    if row.redop != "none":
        if rooted:
            return "reduce"
        return "all_reduce" if told > _ONE else "reduce_scatter"
    called = re.sub(r"[^a-z]", "", Path(run.source).name.lower())
    names = {"alltoall": "alltoall", "allgather": "all_gather"}
    return "broadcast" if rooted else next((names[n] for n in names if n in called), None)


def _told_by_rates(run: NcclTests, name: str | None) -> int | None:
    """Ranks from bus over algorithm bandwidth, in an output whose header is lost."""
    told = _bus_over_algorithm(run)
    most = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0}
    whole = most.get(name or "")
    if told is None or whole is None or not 0 < told < whole:
        return None
    ranks = round(whole / (whole - told))
    return ranks if 1 < ranks <= _FEW else None


def _bus_over_algorithm(run: NcclTests) -> float | None:
    timed = [one for row in run.rows if row.size_bytes >= _LARGE and (one := row.out_of_place)]
    ratios = [one.busbw_gb_per_s / one.algbw_gb_per_s for one in timed if one.algbw_gb_per_s > 0]
    return median(ratios) if ratios else None
