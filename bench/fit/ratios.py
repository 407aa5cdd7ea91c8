"""What only training does, over the forward kernels of serving.

`ratios`: weight gradients, groups of experts and attention backward, from SimuMax's tables of A100
and B200 (only ratios are taken, no levels); `flash_2`: FlashAttention 2 on devices that have
something newer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from bench.fit.tables import csv_rows
from syncwall.cost.calibration import AttentionFit, GemmFit
from syncwall.cost.compute import gemm_seconds
from syncwall.describe import Device, lookup
from syncwall.work.operations import Gemm

PLAIN_FLOP = 20e9
FULL_BLOCKS = 1000.0
FILES = {
    "ampere": ("a100-pcie-80", "simumax_a100_pcie_measured_efficiency.csv"),
    "blackwell": ("b200", "simumax_b200_bf16_ceperm_measured_efficiency.csv"),
}
ISSUES = "flash_attention_issue_tables.csv"
STAGES = {"fwd": "TN", "bwd_grad_act": "NN", "bwd_grad_w": "NT"}


@dataclass(frozen=True)
class Measured:
    operation: str
    shape: dict[str, str]
    efficiency: float
    peak_flop_per_s: float

    def number(self, name: str) -> float:
        return float(self.shape[name])


def measured(path: Path) -> list[Measured]:
    found = []
    for row in csv_rows(path):
        shape = dict(part.split("=") for part in row["shape"].split(", "))
        peak = float(row["peak_tflops"]) * 1e12
        found.append(Measured(row["op"], shape, float(row["measured_efficiency"]), peak))
    return found


@dataclass(frozen=True)
class Ratios:
    weight_gradient: float
    group_us: float
    backward: float | None
    said_gemm: str
    said_attention: str


def ratios(directory: Path, surfaces: Mapping[str, GemmFit]) -> dict[str, Ratios]:
    """By family; a family that nobody measured takes the mean, and keeps its attention."""
    found = {family: _measured(directory, family, surfaces[family]) for family in FILES}
    both = list(found.values())
    between = Ratios(
        round(mean(one.weight_gradient for one in both), 3),
        round(mean(one.group_us for one in both), 2),
        None,
        "Weight gradients and groups as the mean of A100 and B200, which SimuMax measured.",
        "Backward is assumed.",
    )
    return found | {"hopper": between, "ada": between}


def _measured(directory: Path, family: str, surface: GemmFit) -> Ratios:
    name, file = FILES[family]
    device, rows = lookup.device(name), measured(directory / file)
    plain = {layout: _plain(rows, layout, device, surface) for layout in STAGES.values()}
    groups = [row for row in rows if row.operation == "group_matmul"]
    group_us, error = _group(groups, plain, device, surface)
    backward = _backward(rows)
    count = sum(row.operation == "matmul" for row in rows)
    said = f"SimuMax 4dcaae5, {file.removesuffix('_measured_efficiency.csv')}"
    return Ratios(
        round(plain["NT"] / plain["TN"], 3),
        round(group_us, 2),
        round(median(backward), 3),
        f"Weight gradients over forward ({said}, {count} rows; gradients of inputs are "
        f"{plain['NN'] / plain['TN']:.2f}) and groups ({len(groups)} rows, error mean "
        f"{error:.0f}%).",
        f"Backward over forward: {said}, {len(backward)} rows that fill the device, heads of 128.",
    )


def _plain(rows: list[Measured], layout: str, device: Device, surface: GemmFit) -> float:
    """Speed of large multiplications in `layout` over that of the surface."""
    found = []
    for row in rows:
        if row.operation != "matmul" or row.shape["layout"] != layout:
            continue
        m, n, k = (row.number(name) for name in "mnk")
        gemm = Gemm(m, n, k, is_weight_gradient=layout == "NT")
        if gemm.flops >= PLAIN_FLOP:
            found.append(_seconds(gemm, device, surface, 1.0) / _taken(row, gemm))
    return median(found)


def _group(
    rows: list[Measured], plain: dict[str, float], device: Device, surface: GemmFit
) -> tuple[float, float]:
    """Microseconds of each further multiplication, and the mean error in percent."""
    single, further, taken = [], [], []
    for row in rows:
        m, n, k = (row.number(name) for name in "MNK")
        layout = STAGES[row.shape["stage"]]
        shape = {"TN": (m, n, k), "NN": (m, k, n), "NT": (n, k, m)}[layout]
        gemm = Gemm(*shape, count=row.number("ng"), is_weight_gradient=layout == "NT")
        single.append(_seconds(gemm, device, surface, plain[layout]))
        further.append(gemm.count - 1)
        taken.append(_taken(row, gemm))
    alone, groups, times = (np.array(column) for column in (single, further, taken))
    each = float(np.median((times - alone) / groups))
    return each * 1e6, float(100 * abs((alone + each * groups) / times - 1).mean())


def _seconds(gemm: Gemm, device: Device, surface: GemmFit, speed: float) -> float:
    update = {"in_training": speed, "weight_gradient": 1.0, "group_s": 0.0}
    return float(gemm_seconds(gemm, device, surface.model_copy(update=update)))


def _taken(row: Measured, gemm: Gemm) -> float:
    return float(gemm.flops) / (row.peak_flop_per_s * row.efficiency)


def _backward(rows: list[Measured]) -> list[float]:
    pairs: dict[str, dict[str, float]] = {}
    for row in rows:
        if not row.operation.startswith("sdp") or row.shape["qk_head_dim"] != "128":
            continue
        if row.number("batch") * row.number("head_num") * row.number("seq_len") / 128 > FULL_BLOCKS:
            pairs.setdefault(str(row.shape), {})[row.operation] = row.efficiency
    return [pair["sdp_bwd"] / pair["sdp_fwd"] for pair in pairs.values()]


def flash_2(directory: Path, family: str, values: Mapping[str, Any], device: Device) -> tuple[float, str]:
    """Level of FlashAttention 2 where `values` are of something newer."""
    rows = [row for row in csv_rows(directory / ISSUES) if row["mode"] == "fwd"]
    if family == "hopper":
        tflops = {
            row["kernel"]: float(row["tflops"])
            for row in rows
            if row["gpu"].startswith("H20 ") and (row["head_dim"], row["causal"]) == ("128", "1")
        }
        share = tflops["FA2"] / tflops["FA3"]
        said = f"flash-2 is {share:.2f} of flash-3, as on H20 (flash-attention issue 1310, causal)."
        return round(values["flash-3"] * share, 3), said
    if family != "blackwell":
        return values["flash-3"], "flash-3 is flash-2: the device has nothing newer."
    fit = AttentionFit.model_validate(values)
    older = [row for row in rows if row["kernel"].startswith("FA2 2.7")]
    by_head = 64 / (64 + fit.older_head_overhead) * (128 + fit.older_head_overhead) / 128
    level = [float(row["tflops"]) / by_head for row in older]
    where = "flash-attention issue 1589, heads of 64, no mask"
    said = f"flash-2 after {len(older)} rows of B200 ({where})."
    return round(median(level) * 1e12 / device.sixteen_bit_flop_per_s, 3), said
