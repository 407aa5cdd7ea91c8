"""Published runs predicted with what their authors measured of single kernels on the same machine.

Holds `measured_figures`: the error of a source as it is, with one measured GEMM rate, and with all
of them. The one is the forward multiplication with most FLOPs: whoever measures one measures a
large one.
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.cost.measured import GemmPoint, MachineMeasurements
from syncwall.validate.evaluation import ValidatedRun, outcomes

TABLES: Final = {
    "simumax-b200": "03_gemm_attention/simumax_b200_bf16_ceperm_measured_efficiency.csv"
}
"""Tables of measured efficiencies by source of runs; SimuMax publishes both (docs/b200)."""
_FORWARD, _WEIGHT_GRADIENT = "TN", "NT"


def measured_figures(sure: Sequence[ValidatedRun], directory: Path) -> list[dict[str, Any]]:
    """A line for every source and amount measured; `directory` holds measured tables."""
    lines = []
    for source, table in TABLES.items():
        cases = [one.case for one in sure if one.case.row.source == source]
        if not cases or not (directory / table).exists():
            continue
        forward, every = _points(directory / table)
        largest = max(forward, key=lambda one: one.m * one.n * one.k)
        for name, points in (("one GEMM", (largest,)), ("all GEMMs", tuple(every))):
            ratios = np.array(
                [one.ratio for one in outcomes(cases, measured=MachineMeasurements(gemm=points))]
            )
            lines.append(
                {
                    "name": f"{source}, {name}",
                    "n": len(ratios),
                    "points": len(points),
                    "mape": float(np.abs(ratios - 1).mean()),
                    "ratio_median": float(np.median(ratios)),
                }
            )
    return lines


def _points(path: Path) -> tuple[list[GemmPoint], list[GemmPoint]]:
    """Forward multiplications, and all of them."""
    forward: list[GemmPoint] = []
    every: list[GemmPoint] = []
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["op"] == "matmul"]
    for row in rows:
        shape = dict(re.findall(r"(\w+)=(\w+)", row["shape"]))
        if shape["b"] != "1":
            continue
        m, n, k = (int(shape[side]) for side in ("m", "n", "k"))
        rate = float(row["peak_tflops"]) * 1e12 * float(row["measured_efficiency"])
        point = GemmPoint(
            m=m, n=n, k=k, dtype="bf16", seconds=2.0 * m * n * k / rate,
            is_weight_gradient=shape["layout"] == _WEIGHT_GRADIENT,
        )  # fmt: skip
        every.append(point)
        if shape["layout"] == _FORWARD:
            forward.append(point)
    return forward, every
