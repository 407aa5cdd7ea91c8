"""Published times of collectives, read from measured tables.

Holds `Table`, `single_node` (aiconfigurator, 2 to 8 GPUs of a node) and `nccl_tests` (all else).
`HELD_OUT` names the sources that no fit may read: they are for validation only.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from syncwall.work.operations import CollectiveKind

HELD_OUT = (
    *(f"alps_gh200_{nodes}n_" for nodes in (4, 8, 16, 32, 64)),
    "cw_gb200_",
    "isambard_gh200_",
    "mlperf50_google_h200_8n_",
)
"""How the names of sources begin that only validate: GH200 on Slingshot, GB200 racks, repeats."""
KINDS: dict[str, CollectiveKind] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
SYSTEMS = {
    "a100_sxm": "dgx-a100", "h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "b200_sxm": "dgx-b200",
    "b300_sxm": "dgx-b300", "gb200": "gb200-nvl72", "gb300": "gb300-nvl72", "l40s": "l40s-8",
}  # fmt: skip
"""Machines of the catalogue for the systems of aiconfigurator."""
MACHINES = {
    "alps_": "alps", "cscs_gh200_2n_ar": "alps", "isambard_": "isambard-ai",
    "aws_p4de_": "aws-p4de", "aws_p5_": "aws-p5", "aws_p5en_": "aws-p5en",
    "oci_a100_": "dgx-a100-40", "oci_h100_": "oci-h100", "gcp_a3high_": "gcp-a3-high",
    "gcp_a3mega_": "gcp-a3-mega", "gcp_a3ultra_": "gcp-a3-ultra", "cw_h100_": "dgx-h100",
    "cw_gb200_": "gb200-nvl72", "mlperf50_google_h200_": "gcp-a3-ultra",
    "dgxc_h100_": "dgx-h100", "aws_batch_p5_": "aws-p5", "mlperf40_": "dgx-h100",
}  # fmt: skip
"""Machines of the catalogue by how the names of sources begin; other sources are left out."""
LEFT_OUT = ("cscs_gh200_2n_ar_bad",)
"""NCCL on TCP sockets by mistake."""
OLDEST = "2.27"
"""Version of NCCL from which rows are taken; the model is that of 2.28."""
_SINGLE, _TESTS = "aiconfigurator_nccl_single_node.csv", "nccl_tests_rows.csv"
_TORCH = "ml_engineering_all_reduce_torch.csv"


@dataclass(frozen=True)
class Table:
    """Times of one kind of collective on one group, by size."""

    source: str
    machine: str
    kind: CollectiveKind
    ranks: int
    nodes: int
    sizes: NDArray[np.float64]
    repeats: tuple[tuple[float, ...], ...]
    """Seconds of each repeat, for each size."""

    def seconds(self, share: float = 0.5) -> NDArray[np.float64]:
        """The median over repeats, or another quantile."""
        return np.array([np.quantile(times, share) for times in self.repeats])

    def between(self, least: float, most: float = np.inf) -> "Table":
        """The same with sizes from `least` to `most` bytes."""
        kept = [i for i, size in enumerate(self.sizes) if least <= size <= most]
        repeats = tuple(self.repeats[i] for i in kept)
        return Table(self.source, self.machine, self.kind, self.ranks, self.nodes,
                     self.sizes[kept], repeats)  # fmt: skip


Key = tuple[str, str, CollectiveKind, int, int]
Rows = dict[Key, dict[float, list[float]]]


def is_held_out(source: str) -> bool:
    """True for a source that only validates."""
    return source.startswith(HELD_OUT)


def single_node(directory: Path, dtype: str = "half") -> list[Table]:
    """One node: the median over versions of what stands once or repeatedly for each version."""
    found: dict[Key, dict[float, dict[str, list[float]]]] = {}
    for row in csv_rows(directory / _SINGLE):
        system, version = row["system"], row["row_version"]
        if system in SYSTEMS and row["dtype"] == dtype and version >= OLDEST:
            key = (system, SYSTEMS[system], KINDS[row["op"]], int(row["num_gpus"]), 1)
            sizes = found.setdefault(key, {})
            versions = sizes.setdefault(float(row["size_bytes"]), defaultdict(list))
            versions[version].append(float(row["latency_us"]) * 1e-6)
    rows = {
        key: {size: [median(times) for times in versions.values()] for size, versions in by.items()}
        for key, by in found.items()
    }
    return _tables(rows)


def nccl_tests(directory: Path, *, held_out: bool) -> list[Table]:
    """Sources that only validate, or all others; rows of the rest are not looked at."""
    rows: Rows = {}
    for row in csv_rows(directory / _TESTS):
        source = row["source_id"]
        if source.startswith(tuple(MACHINES)) and source not in LEFT_OUT \
                and is_held_out(source) == held_out:  # fmt: skip
            time = row["oop_time_us"] or row["ip_time_us"]
            _add(rows, _named(source), row["collective"], row, float(time))
    if not held_out:
        for row in csv_rows(directory / _TORCH):
            if row["system"].startswith("B200 P6-B200 (4 nodes"):
                named = ("ml_engineering_b200_4n", "aws-p6-b200")
                row["size_bytes"] = row["payload_bytes"]
                _add(rows, named, "all_reduce", row, float(row["derived_time_us"]))
    return _tables(rows)


def _named(source: str) -> tuple[str, str]:
    """Name under which a source is reported, repeats together, and its machine."""
    start = max((start for start in MACHINES if source.startswith(start)), key=len)
    words = {"alps_": 3, "mlperf": 4}
    kept = next((n for begin, n in words.items() if source.startswith(begin)), None)
    return "_".join(source.split("_")[:kept]), MACHINES[start]


def _add(rows: Rows, named: tuple[str, str], op: str, row: dict[str, str], time_us: float) -> None:
    key = (*named, KINDS[op], int(row["nranks"]), int(row["nodes"]))
    sizes = rows.setdefault(key, {})
    sizes.setdefault(float(row["size_bytes"]), []).append(time_us * 1e-6)


def _tables(rows: Rows) -> list[Table]:
    return [
        Table(*key, np.array(sorted(sizes)), tuple(tuple(sizes[size]) for size in sorted(sizes)))
        for key, sizes in sorted(rows.items())
    ]


def csv_rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
