"""Accuracy of collective times: `python bench/collectives.py DIR [--json]`.

DIR holds the measured tables of collectives. Prices come from the public interface with the
calibrations as they are; NCCL's own model stands beside them. Sets that a fit has read are marked
`fitted`, sets that none has read `hold-out`, and the rest `not fitted`.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import syncwall as sw
from bench.fit.collective_tables import Table, nccl_tests, single_node
from bench.fit.domains import neighbours, priced_on
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of collective times.")
    parser.add_argument("directory", type=Path, help="measured tables of collectives")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    lines = report(arguments.directory)
    if arguments.json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
        return
    print(f"{'set':44s} {'role':11s} {'rows':>5s} {'error':>7s} {'pred/meas':>9s} {'NCCL':>7s}")
    for line in lines:
        print(
            f"{line.name:44s} {line.role:11s} {line.rows:5d} {line.error:7.1%}"
            f" {line.median_ratio:9.2f} {line.nccl_error:7.1%}"
        )


def report(directory: Path) -> list[Line]:
    """One line for each set."""
    lines = []
    tables = single_node(directory)
    for system in dict.fromkeys(table.source for table in tables):
        own = [table for table in tables if table.source == system]
        most = max(table.ranks for table in own)
        for kind in dict.fromkeys(table.kind for table in own):
            chosen = [t for t in own if t.kind == kind and t.ranks == most]
            lines.append(_line(f"{system} {kind}, {most} GPUs", "fitted", chosen))
        lines.append(_line(f"{system}, all kinds, {most} GPUs", "fitted",
                           [t for t in own if t.ranks == most]))  # fmt: skip
        fewer = [t for t in own if t.ranks < most]
        lines.append(_line(f"{system}, all kinds, fewer GPUs", "fitted", fewer))
    for table in nccl_tests(directory, held_out=False):
        role = "fitted" if table.nodes > 1 else "not fitted"
        large = table.between(MIB)
        if len(large.sizes):
            lines.append(_line(f"{table.source} {table.kind}, from 1 MiB", role, [large]))
    held = nccl_tests(directory, held_out=True)
    for name, (start, least) in HOLD_OUT_SETS.items():
        chosen = [t.between(least) for t in held if t.source.startswith(start)]
        if start == "alps_":
            lines += [_line(f"{t.source}, from 1 MiB", "hold-out", [t]) for t in chosen]
        lines.append(_line(name, "hold-out", chosen))
    return lines


def ratios(table: Table, *, corrected: bool = True) -> NDArray[np.float64]:
    """Predicted over measured time, by size; NCCL's own prediction if not `corrected`."""
    nodes = -(-table.ranks // sw.cluster(table.machine).node.gpus)
    network, path = priced_on(sw.cluster(table.machine, nodes=nodes), table.ranks)
    if corrected:
        found = network.collective_seconds(
            Collective(table.kind, table.sizes, neighbours(table.ranks))
        )
        return np.asarray(found / table.seconds(), dtype=float)
    graph = network.graph(path)
    factors = network.factors(table.kind, table.sizes, path, graph)
    best = np.full(len(table.sizes), np.inf)
    for name, (latency_us, rate) in network.choices(table.kind, path, graph).items():
        slower, faster = factors.get(name, (1.0, 1.0))
        if np.all(np.asarray(rate) > 0):
            taken = latency_us * 1e-6 * slower + table.sizes / (rate * faster)
            best = np.minimum(best, taken)
    return best / table.seconds()


def _line(name: str, role: str, tables: list[Table]) -> Line:
    found = np.concatenate([ratios(table) for table in tables])
    plain = np.concatenate([ratios(table, corrected=False) for table in tables])
    return Line(name, role, len(found), float(np.mean(np.abs(found - 1.0))),
                float(np.median(found)), float(np.mean(np.abs(plain - 1.0))))  # fmt: skip


if __name__ == "__main__":
    main()
