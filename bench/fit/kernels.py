"""Fits what matrix multiplication and attention reach to tables of kernels that were timed alone.

What only training does (weight gradients, groups of experts, attention backward) is a ratio to the
forward kernels of serving, in `bench.fit.ratios`.
"""

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped,import-not-found,unused-ignore]

from bench import Dir
from bench.fit.files import update, with_block
from bench.fit.ratios import Ratios, flash_2, ratios
from syncwall.catalogue import BUILT_IN
from syncwall.cost.calibration import AttentionFit, GemmFit
from syncwall.cost.compute import attention_seconds, gemm_alone_seconds
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.describe import Device, Software, lookup
from syncwall.work.operations import CoreAttention, Gemm

Column = NDArray[np.float64]
Rows = dict[tuple[int, ...], list[float]]
LEAST_DIMENSION, LEAST_LENGTH = 256, 512
LARGE_FLOP, SMALL_WEIGHT = 20e9, 0.5
SOURCE = "aiconfigurator 095f58a"
_ATTENTION = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim")


@dataclass(frozen=True)
class Table:
    shapes: Any
    """A column for each dimension."""
    seconds: Column
    sources: dict[str, int]
    """Rows taken from each file."""
    by_framework: dict[str, "Table"]


def gemms(directory: Path, system: str) -> Table:
    def shape(row: dict[str, str]) -> tuple[int, ...] | None:
        sides = tuple(int(row[name]) for name in "mnk")
        return sides if row["gemm_dtype"] == "bfloat16" and min(sides) >= LEAST_DIMENSION else None

    return _table(directory, "gemm", system, shape, "latency_us")


def attentions(directory: Path, system: str, kernels: tuple[str, ...]) -> Table:
    """Batch, length, heads, key heads and head dimension of causal bf16 attention, forward.

    Windows, earlier context and other key-value formats are left out.
    """

    def shape(row: dict[str, str]) -> tuple[int, ...] | None:
        formats = {row["attn_dtype"], row["kv_cache_dtype"]}
        whole = row["step"] == "0" and row.get("window_size", "0") == "0"
        long = int(row["isl"]) >= LEAST_LENGTH and int(row["head_dim"]) in (64, 128)
        if row["kernel_source"] in kernels and formats == {"bfloat16"} and whole and long:
            return tuple(int(row[name]) for name in _ATTENTION)
        return None

    return _table(directory, "context_attention", system, shape, "latency")


def _table(
    directory: Path,
    what: str,
    system: str,
    shape: Callable[[dict[str, str]], tuple[int, ...] | None],
    time_us: str,
) -> Table:
    """The median over files of the median over equal rows of a file."""
    together: Rows = defaultdict(list)
    count: Counter[str] = Counter()
    by_framework = {}
    for path in sorted(directory.glob(f"aic_{what}_{system}_*.csv.gz")):
        rows: Rows = defaultdict(list)
        with gzip.open(path, "rt") as file:
            for row in csv.DictReader(file):
                if sides := shape(row):
                    rows[sides].append(float(row[time_us]) * 1e-6)
        if not rows:
            continue
        for sides, times in rows.items():
            together[sides].append(median(times))
            count[path.name] += len(times)
        framework = path.name.split(f"{system}_")[1].split("_")[0]
        by_framework[framework] = _columns(rows, {path.name: count[path.name]}, {})
    return _columns(together, dict(count), by_framework)


def _columns(rows: Rows, sources: dict[str, int], by_framework: dict[str, Table]) -> Table:
    shapes = sorted(rows)
    columns = [np.array(column, dtype=float) for column in zip(*shapes, strict=True)]
    return Table(columns, np.array([median(rows[s]) for s in shapes]), sources, by_framework)


@dataclass(frozen=True)
class Target:
    device: str
    system: str
    family: str
    tile_n: int
    attention: tuple[str, ...]
    """Kernels of the newest class that the device has: those of serving, without cache writes."""
    most_burst: float = 0.5
    """Largest gain of short kernels that is believed."""


_FLASH_3 = ("fa3", "vllm_flash_attn_fa3")
_BLACKWELL = ("trtllm_mha", "vllm_flashinfer_trtllmprefill")
TARGETS = (
    Target("a100-sxm-80", "a100_sxm", "ampere", 128, ("flash_attention", "vllm_flash_attn")),
    Target("l40s", "l40s", "ada", 128, ("flashinfer", "vllm_flash_attn_fa2")),
    Target("h100-sxm", "h100_sxm", "hopper", 256, _FLASH_3),
    Target("b200", "b200_sxm", "blackwell", 256, _BLACKWELL),
    # The chip of the B200 with more power: its best long products are 4% faster (MAMF 1822 against
    # 1745 TFLOP/s), yet its table alone would say 9% slower, and twice the gain of short ones.
    Target("gb200", "gb200", "blackwell", 256, _BLACKWELL, most_burst=0.138),
    Target("b300", "b300_sxm", "blackwell", 256, _BLACKWELL),
    Target("gb300", "gb300", "blackwell", 256, _BLACKWELL),
)
GEMM_START = (0.7, 0.1, 2.0, 80.0, 0.6, 0.2, 3.0, 0.75)
GEMM_LEAST = (0.3, 0, 0.1, 0, 0.05, 0, 0, 0.2)
ATTENTION_START = (0.6, 700.0, 1.0, 32.0, 3.0, 5.0)
ATTENTION_BOUNDS = ((0.05, 0, 0, 0, 0, 0), (1.2, 5000, 20, 1000, 30, 60))


def gemm_fit(target: Target, values: Column) -> GemmFit:
    efficiency, burst, burst_ms, half_depth, pad, wave, launch_us, memory = map(float, values)
    times = {"burst_s": burst_ms * 1e-3, "launch_s": launch_us * 1e-6}
    tiles = {"tile_m": 128, "tile_n": target.tile_n, "pad_cost": pad, "wave_cost": wave * pad}
    shape = {"half_depth": half_depth, "memory_efficiency": memory, "in_training": 1.0}
    return GemmFit(efficiency=efficiency, burst=burst, **times, **tiles, **shape)


def attention_fit(values: Column) -> AttentionFit:
    """The same of attention; the last two values are those of `seconds_of`."""
    efficiency, length, filled, overhead = map(float, values[:4])
    same = {"flash_3": efficiency, "flash_2": efficiency, "backward": 1.0}
    return AttentionFit(half_length=length, half_filled=filled, head_overhead=overhead, **same)


def fitted(seconds: Callable[[Column], Any], table: Any, free: Any) -> Iterator[float]:
    """The values that bring `seconds` nearest to `table`; large shapes count more."""
    (measured, flops), (start, bounds) = table, free
    weight = np.where(np.asarray(flops) >= LARGE_FLOP, 1.0, SMALL_WEIGHT)

    def error(values: Column) -> Column:
        return np.asarray(np.log(np.asarray(seconds(values)) / measured) * weight)

    found = least_squares(error, start, bounds=bounds, loss="soft_l1", f_scale=0.05)
    return map(rounded, np.asarray(found.x))


def rounded(value: float) -> float:
    """Three digits, more than such a fit can claim; nothing for what is next to nothing."""
    short = float(f"{value:.3g}")
    return 0.0 if short < 1e-3 else int(short) if short >= 100 else short


def residual(predicted: Any, measured: Column, flops: Any) -> str:
    error, large = 100 * abs(np.asarray(predicted) / measured - 1), np.asarray(flops) >= LARGE_FLOP
    return (
        f"error mean {error.mean():.1f}% and median {np.median(error):.1f}% of {len(error)} "
        f"shapes, {error[large].mean():.1f}% and {np.median(error[large]):.1f}% of the "
        f"{large.sum()} from {LARGE_FLOP / 1e9:.0f} GFLOP on"
    )


def reported(title: str, what: str, table: Table, found: Callable[[Table], str]) -> str:
    """Print residuals by framework and the files behind them; the text that the block carries."""
    print(f"{title}: {found(table)}")
    for framework, part in table.by_framework.items():
        print(f"  {framework}: {found(part)}")
    for name, count in table.sources.items():
        print(f"  {count} rows of {name}")
    files = ", ".join(
        f"{name.removeprefix('aic_').removesuffix('.csv.gz')} ({count} rows)"
        for name, count in table.sources.items()
    )
    return f"{SOURCE}, {what}, median of {files}: {found(table)}."


def fit_gemm(target: Target, directory: Path) -> tuple[dict[str, Any], str]:
    device, table = lookup.device(target.device), gemms(directory, target.system)
    shape = Gemm(*table.shapes)
    efficiency, burst, burst_ms, half_depth, pad, wave, launch_us, memory = fitted(
        lambda values: gemm_alone_seconds(shape, device, gemm_fit(target, values)),
        (table.seconds, shape.flops),
        (GEMM_START, (GEMM_LEAST, (1.2, target.most_burst, 20, 2000, 1, 1, 20, 1.5))),
    )
    values = {
        "efficiency": efficiency,
        "burst": burst,
        "burst_time": f"{burst_ms if burst else 0} ms",
        "half_depth": half_depth,
        "pad_cost": pad,
        "wave_cost": rounded(wave * pad),
        "tile_m": 128,
        "tile_n": target.tile_n,
        "launch": f"{launch_us} us",
        "memory_efficiency": memory,
    }

    def found(part: Table) -> str:
        shape = Gemm(*part.shapes)
        fit = GemmFit.model_validate(values | {"in_training": 1.0})
        return residual(gemm_alone_seconds(shape, device, fit), part.seconds, shape.flops)

    what = "bf16 with m, n and k from 256 on"
    return values, reported(f"{target.device} gemm bf16", what, table, found)


def fit_attention(target: Target, directory: Path, parts: Ratios) -> tuple[dict[str, Any], str]:
    device = lookup.device(target.device)
    table = attentions(directory, target.system, target.attention)
    efficiency, half_length, half_filled, overhead, passes, extra_us = fitted(
        lambda values: seconds_of(table, device, attention_fit(values), *values[4:]),
        (table.seconds, attention_of(table).flops),
        (ATTENTION_START, ATTENTION_BOUNDS),
    )
    values: dict[str, Any] = {"flash-3": efficiency, "flash-2": efficiency}
    values |= {"half_length": half_length, "half_filled": half_filled}
    if parts.backward:
        values["backward"] = parts.backward
    if 64 in table.shapes[4]:
        values["head_overhead"] = overhead
        values |= {"older_head_overhead": overhead} if target.family == "ada" else {}
    values["flash-2"], older = flash_2(directory, target.family, {"backward": 1.0} | values, device)

    def found(part: Table) -> str:
        fit = AttentionFit.model_validate({"backward": 1.0} | values)
        predicted = seconds_of(part, device, fit, passes, extra_us)
        return residual(predicted, part.seconds, attention_of(part).flops)

    what = (
        "causal forward, bf16, heads of 64 and 128, from 512 tokens on, less what serving adds "
        f"({extra_us} us, and {passes} times the keys and values through memory for its cache)"
    )
    said = reported(f"{target.device} attention bf16", what, table, found)
    return values, f"{said} {parts.said_attention} {older}"


def attention_of(table: Table) -> CoreAttention:
    batch, length, heads, kv_heads, dim = table.shapes
    return CoreAttention(batch, heads, length, length, dim, dim, kv_heads)


def seconds_of(table: Table, device: Device, fit: AttentionFit, passes: float, extra_us: float) -> Column:
    """What the formula gives for `table`, and what serving adds: filling the cache, planning."""
    batch, length, _, kv_heads, dim = table.shapes
    setting = ResolvedSoftware.of(Software(attention="flash-3"))
    cache_s = passes * 4 * batch * length * kv_heads * dim / device.memory.rate_bytes_per_s
    kernel_s = attention_seconds(attention_of(table), device, fit, setting)
    return np.asarray(kernel_s + cache_s + extra_us * 1e-6)


def regenerated(directory: Path) -> dict[Path, str]:
    gemm = {target: fit_gemm(target, directory) for target in TARGETS}
    surfaces = {
        target.family: GemmFit.model_validate(gemm[target][0] | {"in_training": 1.0})
        for target in TARGETS
        if target.device in ("a100-sxm-80", "b200")
    }
    parts = ratios(directory, surfaces)
    texts: dict[Path, str] = {}
    for target, (values, text) in gemm.items():
        part, path = parts[target.family], BUILT_IN / "calibrations" / f"{target.device}.yaml"
        more = {"group": f"{part.group_us} us", "weight_gradient": part.weight_gradient}
        said = {"kernels": f"{text} {part.said_gemm}"}
        texts[path] = with_block(path.read_text(), "gemm", values | more, said)
        attention, text_of_it = fit_attention(target, directory, part)
        texts[path] = with_block(texts[path], "attention", attention, {"kernels": text_of_it})
    return texts


def fit(directory: Dir, check: bool = False) -> int:
    """Fit the blocks `gemm` and `attention` of the calibrations to the tables of kernels in DIR.

    Values that training runs decide are left alone. Prints residuals and sources. With --check
    nothing is written: 1 if a file would change.
    """
    return update(regenerated(directory), check=check)
