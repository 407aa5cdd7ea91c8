"""Published times of collectives, read from measured tables.

`single_node`: aiconfigurator, 2 to 8 GPUs of a node; `nccl_tests`: all else. `HELD_OUT` names the
sources that no fit may read: they are for validation only.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from syncwall.work.operations import CollectiveKind

Array = NDArray[np.float64]
HELD_OUT = (
    *(f"alps_gh200_{nodes}n_" for nodes in (4, 8, 16, 32, 64)),
    *("cw_gb200_", "isambard_gh200_", "mlperf50_google_h200_8n_"),
)
"""How the names of sources begin that only validate: GH200 on Slingshot, GB200 racks, repeats."""
KINDS: dict[str, CollectiveKind] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
SYSTEMS = {
    **{f"{name}_sxm": f"dgx-{name}" for name in ("a100", "h100", "h200", "b200", "b300")},
    "gb200": "gb200-nvl72",
    "gb300": "gb300-nvl72",
    "l40s": "l40s-8",
}
"""Machines of the catalogue for the systems of aiconfigurator."""
_MACHINES = """
alps_ alps; cscs_gh200_2n_ar alps; isambard_ isambard-ai; aws_p4de_ aws-p4de; aws_p5_ aws-p5;
aws_p5en_ aws-p5en; oci_a100_ dgx-a100-40; oci_h100_ oci-h100; gcp_a3high_ gcp-a3-high;
gcp_a3mega_ gcp-a3-mega; gcp_a3ultra_ gcp-a3-ultra; cw_h100_ dgx-h100; cw_gb200_ gb200-nvl72;
mlperf50_google_h200_ gcp-a3-ultra; dgxc_h100_ dgx-h100; aws_batch_p5_ aws-p5; mlperf40_ dgx-h100
"""
MACHINES: dict[str, str] = {(w := one.split())[0]: w[1] for one in _MACHINES.split(";")}
"""Machines of the catalogue by how the names of sources begin; other sources are left out."""
LEFT_OUT = ("cscs_gh200_2n_ar_bad",)
"""NCCL on TCP sockets by mistake, says its source."""
OLDEST = "2.27"
"""Version of NCCL from which rows are taken; the model is that of 2.28."""
Key = tuple[str, str, CollectiveKind, int, int]


@dataclass(frozen=True)
class Table:
    source: str
    machine: str
    kind: CollectiveKind
    ranks: int
    nodes: int
    sizes: Array
    repeats: tuple[tuple[float, ...], ...]
    """Seconds of each repeat, for each size."""

    def seconds(self, share: float = 0.5) -> Array:
        return np.array([np.quantile(times, share) for times in self.repeats])

    def between(self, least: float, most: float = np.inf) -> "Table":
        kept = [i for i, size in enumerate(self.sizes) if least <= size <= most]
        return replace(self, sizes=self.sizes[kept], repeats=tuple(self.repeats[i] for i in kept))


def is_held_out(source: str) -> bool:
    return source.startswith(HELD_OUT)


def single_node(directory: Path, dtype: str = "half") -> list[Table]:
    """One node: the median over versions of what stands once or repeatedly for each version."""
    found: dict[Key, dict[float, dict[str, list[float]]]] = {}
    for row in csv_rows(directory / "aiconfigurator_nccl_single_node.csv"):
        system, version = row["system"], row["row_version"]
        if system in SYSTEMS and row["dtype"] == dtype and version >= OLDEST:
            key = (system, SYSTEMS[system], KINDS[row["op"]], int(row["num_gpus"]), 1)
            sizes = found.setdefault(key, {})
            versions = sizes.setdefault(float(row["size_bytes"]), defaultdict(list))
            versions[version].append(float(row["latency_us"]) * 1e-6)
    return _tables(
        {
            key: {size: [median(times) for times in each.values()] for size, each in by.items()}
            for key, by in found.items()
        }
    )


def nccl_tests(directory: Path, *, held_out: bool) -> list[Table]:
    """Sources that only validate, or all others; rows of the rest are not looked at."""
    rows: dict[Key, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(source: str, machine: str, op: str, row: dict[str, str], size: str, us: str) -> None:
        key = (source, machine, KINDS[op], int(row["nranks"]), int(row["nodes"]))
        rows[key][float(row[size])].append(float(us) * 1e-6)

    for row in csv_rows(directory / "nccl_tests_rows.csv"):
        source = row["source_id"]
        known = source.startswith(tuple(MACHINES)) and source not in LEFT_OUT
        if known and is_held_out(source) == held_out:
            machine = MACHINES[max((m for m in MACHINES if source.startswith(m)), key=len)]
            words = {"alps_": 3, "mlperf": 4}  # repeats are reported together
            kept = next((n for begin, n in words.items() if source.startswith(begin)), None)
            name, time = "_".join(source.split("_")[:kept]), row["oop_time_us"] or row["ip_time_us"]
            add(name, machine, row["collective"], row, "size_bytes", time)
    for row in [] if held_out else csv_rows(directory / "ml_engineering_all_reduce_torch.csv"):
        if row["system"].startswith("B200 P6-B200 (4 nodes"):
            name, time = "ml_engineering_b200_4n", row["derived_time_us"]
            add(name, "aws-p6-b200", "all_reduce", row, "payload_bytes", time)
    return _tables(rows)


def _tables(rows: dict[Key, dict[float, list[float]]]) -> list[Table]:
    return [
        Table(*key, np.array(sorted(sizes)), tuple(tuple(sizes[size]) for size in sorted(sizes)))
        for key, sizes in sorted(rows.items())
    ]


def csv_rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
