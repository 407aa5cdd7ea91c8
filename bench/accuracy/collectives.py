"""Accuracy of collective times, by sets of measured tables; NCCL's own model stands beside."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import syncwall as sw
from bench import Dir
from bench.fit.collectives import neighbours, priced_on
from bench.fit.tables import Table, nccl_tests, single_node
from syncwall.work.operations import Collective

MIB = 2.0**20
HOLD_OUT_SETS = {
    "Alps GH200, 4-64 nodes": ("alps_", MIB),
    "Isambard GH200": ("isambard_", MIB),
    "GB200 racks": ("cw_gb200_", MIB),
    "H200 8-node repeats": ("mlperf50_google_h200_8n", MIB),
}
"""Sources of each set, and the least size that counts."""


@dataclass(frozen=True)
class Line:
    """One set of the report; errors are means of |predicted / measured - 1|."""

    name: str
    role: str
    rows: int
    error: float
    median_ratio: float
    nccl_error: float

    @classmethod
    def of(cls, name: str, role: str, tables: list[Table]) -> "Line":
        found, plain = (
            np.concatenate([ratios(table, corrected=mine) for table in tables]) for mine in (True, False)
        )
        error, nccl = (float(np.mean(np.abs(one - 1.0))) for one in (found, plain))
        return cls(name, role, len(found), error, float(np.median(found)), nccl)


def report(directory: Path) -> list[Line]:
    lines = []
    tables = single_node(directory)
    for system in dict.fromkeys(table.source for table in tables):
        own = [table for table in tables if table.source == system]
        most = max(table.ranks for table in own)
        whole = [t for t in own if t.ranks == most]
        for kind in dict.fromkeys(table.kind for table in own):
            chosen = [t for t in whole if t.kind == kind]
            lines.append(Line.of(f"{system} {kind}, {most} GPUs", "fitted", chosen))
        lines.append(Line.of(f"{system}, all kinds, {most} GPUs", "fitted", whole))
        fewer = [t for t in own if t.ranks < most]
        lines.append(Line.of(f"{system}, all kinds, fewer GPUs", "fitted", fewer))
    for table in nccl_tests(directory, held_out=False):
        role = "fitted" if table.nodes > 1 else "not fitted"
        large = table.between(MIB)
        if len(large.sizes):
            lines.append(Line.of(f"{table.source} {table.kind}, from 1 MiB", role, [large]))
    held = nccl_tests(directory, held_out=True)
    for name, (start, least) in HOLD_OUT_SETS.items():
        chosen = [t.between(least) for t in held if t.source.startswith(start)]
        if start == "alps_":
            lines += [Line.of(f"{t.source}, from 1 MiB", "hold-out", [t]) for t in chosen]
        lines.append(Line.of(name, "hold-out", chosen))
    return lines


def ratios(table: Table, *, corrected: bool = True) -> NDArray[np.float64]:
    """Predicted over measured time, by size; NCCL's own prediction if not `corrected`."""
    nodes = -(-table.ranks // sw.cluster(table.machine).node.gpus)
    network, path = priced_on(sw.cluster(table.machine, nodes=nodes), table.ranks)
    if corrected:
        asked = Collective(table.kind, table.sizes, neighbours(table.ranks))
        return np.asarray(network.collective_seconds(asked) / table.seconds(), dtype=float)
    graph = network.graph(path)
    factors = network.factors(table.kind, table.sizes, path, graph)
    best = np.full(len(table.sizes), np.inf)
    for name, (latency_us, rate) in network.choices(table.kind, path, graph).items():
        slower, faster = factors.get(name, (1.0, 1.0))
        if np.all(np.asarray(rate) > 0):
            taken = latency_us * 1e-6 * slower + table.sizes / (rate * faster)
            best = np.minimum(best, taken)
    return best / table.seconds()


def collectives(directory: Dir) -> None:
    """Errors of collective times by set of the measured tables in DIR.

    Prices come from the public interface with the calibrations as they are. Sets that a fit has
    read are marked `fitted`, sets that none has read `hold-out`, and the rest `not fitted`.
    """
    print(f"{'set':44s} {'role':11s} {'rows':>5s} {'error':>7s} {'pred/meas':>9s} {'NCCL':>7s}")
    for line in report(directory):
        print(
            f"{line.name:44s} {line.role:11s} {line.rows:5d} {line.error:7.1%}"
            f" {line.median_ratio:9.2f} {line.nccl_error:7.1%}"
        )
