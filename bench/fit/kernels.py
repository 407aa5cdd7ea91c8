"""Fits what matrix multiplication and attention reach: `python bench/fit/kernels.py DIR [--check]`.

DIR holds the tables of measured kernels. Writes the blocks `gemm` and `attention` of the
calibrations, but for the values that training runs decide, and prints residuals and sources. With
--check nothing is written: exit code 1 names the files that would change.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped,import-not-found,unused-ignore]

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.fit.blocks import with_block
from bench.fit.kernel_report import LARGE_FLOP, report, residual, said
from bench.fit.kernel_tables import Column, Table, attentions, gemms
from bench.fit.ratios import Ratios, flash_2, ratios
from syncwall.catalogue import BUILT_IN
from syncwall.cost.calibration import AttentionFit, GemmFit
from syncwall.cost.compute import attention_seconds, gemm_alone_seconds
from syncwall.cost.software import ResolvedSoftware
from syncwall.describe import Device, Software, lookup
from syncwall.work.operations import CoreAttention, Gemm

CALIBRATIONS = BUILT_IN / "calibrations"
SMALL_WEIGHT = 0.5


@dataclass(frozen=True)
class Target:
    """A device, the name of its tables, and what its kernels are."""

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
    Target("h200-sxm", "h200_sxm", "hopper", 256, _FLASH_3),
    Target("b200", "b200_sxm", "blackwell", 256, _BLACKWELL),
    # The chip of the B200 with more power: its best long products are 4% faster (MAMF 1822 against
    # 1745 TFLOP/s), yet its table alone would say 9% slower, and twice the gain of short ones.
    Target("gb200", "gb200", "blackwell", 256, _BLACKWELL, most_burst=0.138),
    Target("b300", "b300_sxm", "blackwell", 256, _BLACKWELL),
    Target("gb300", "gb300", "blackwell", 256, _BLACKWELL),
)


def gemm_fit(target: Target, values: Column) -> GemmFit:
    """The surface with these free values."""
    efficiency, burst, burst_ms, half_depth, pad, wave, launch_us, memory = map(float, values)
    return GemmFit(
        efficiency=efficiency, burst=burst, burst_s=burst_ms * 1e-3, in_training=1.0,
        half_depth=half_depth, pad_cost=pad, wave_cost=wave * pad, tile_m=128,
        tile_n=target.tile_n, launch_s=launch_us * 1e-6, memory_efficiency=memory,
    )  # fmt: skip


GEMM_START = (0.7, 0.1, 2.0, 80.0, 0.6, 0.2, 3.0, 0.75)
GEMM_BOUNDS = ((0.3, 0, 0.1, 0, 0.05, 0, 0, 0.2), (1.2, 0.5, 20, 2000, 1, 1, 20, 1.5))


def _bounds(target: Target) -> tuple[tuple[float, ...], tuple[float, ...]]:
    least, largest = GEMM_BOUNDS
    return least, (largest[0], target.most_burst, *largest[2:])


def attention_fit(values: Column) -> AttentionFit:
    """The same of attention; the last two values are those of `seconds_of`."""
    efficiency, half_length, half_filled, overhead = map(float, values[:4])
    return AttentionFit(
        flash_3=efficiency, flash_2=efficiency, half_length=half_length, half_filled=half_filled,
        backward=1.0, head_overhead=overhead,
    )  # fmt: skip


ATTENTION_START = (0.6, 700.0, 1.0, 32.0, 3.0, 5.0)
ATTENTION_BOUNDS = ((0.05, 0, 0, 0, 0, 0), (1.2, 5000, 20, 1000, 30, 60))


def fitted(
    seconds: Callable[[Column], Column], measured: Column, flops: Column, start: Any, bounds: Any
) -> Column:
    """The values that make `seconds` nearest to `measured`; large shapes count more."""
    weight = np.where(flops >= LARGE_FLOP, 1.0, SMALL_WEIGHT)

    def error(values: Column) -> Column:
        return np.asarray(np.log(seconds(values) / measured) * weight)

    found = least_squares(error, start, bounds=bounds, loss="soft_l1", f_scale=0.05)
    return np.asarray(found.x)


def rounded(value: float) -> float:
    """Three digits, more than such a fit can claim; nothing for what is next to nothing."""
    short = float(f"{value:.3g}")
    return 0.0 if short < 1e-3 else int(short) if short >= 100 else short


def fit_gemm(target: Target, directory: Path) -> tuple[dict[str, Any], str]:
    """Values and sources of the block `gemm`, as far as forward kernels tell."""
    device, table = lookup.device(target.device), gemms(directory, target.system)
    m, n, k = table.shapes
    shape = Gemm(m, n, k)
    best = fitted(
        lambda values: np.asarray(gemm_alone_seconds(shape, device, gemm_fit(target, values))),
        table.seconds, np.asarray(shape.flops), GEMM_START, _bounds(target),
    )  # fmt: skip
    efficiency, burst, burst_ms, half_depth, pad, wave, launch_us, memory = map(rounded, best)
    values = {
        "efficiency": efficiency, "burst": burst, "burst_time": f"{burst_ms if burst else 0} ms",
        "half_depth": half_depth, "pad_cost": pad, "wave_cost": rounded(wave * pad),
        "tile_m": 128, "tile_n": target.tile_n, "launch": f"{launch_us} us",
        "memory_efficiency": memory,
    }  # fmt: skip

    def found(part: Table) -> str:
        m, n, k = part.shapes
        shape = Gemm(m, n, k)
        fit = GemmFit.model_validate(values | {"in_training": 1.0})
        predicted = np.asarray(gemm_alone_seconds(shape, device, fit))
        return residual(predicted, part.seconds, np.asarray(shape.flops))

    report(f"{target.device} gemm bf16", table, found)
    return values, said("bf16 with m, n and k from 256 on", table, found)


def fit_attention(target: Target, directory: Path, parts: Ratios) -> tuple[dict[str, Any], str]:
    """Values and sources of the block `attention`."""
    device = lookup.device(target.device)
    table = attentions(directory, target.system, target.attention)
    best = fitted(
        lambda values: seconds_of(table, device, attention_fit(values), *values[4:]),
        table.seconds, np.asarray(attention_of(table).flops), ATTENTION_START, ATTENTION_BOUNDS,
    )  # fmt: skip
    efficiency, half_length, half_filled, overhead, passes, extra_us = map(rounded, best)
    values: dict[str, Any] = {
        "flash-3": efficiency, "flash-2": efficiency, "half_length": half_length,
        "half_filled": half_filled,
    }  # fmt: skip
    if parts.backward:
        values["backward"] = parts.backward
    if 64 in table.shapes[4]:
        values["head_overhead"] = overhead
        values |= {"older_head_overhead": overhead} if target.family == "ada" else {}
    values["flash-2"], older = flash_2(directory, target.family, {"backward": 1.0} | values, device)

    def found(part: Table) -> str:
        fit = AttentionFit.model_validate({"backward": 1.0} | values)
        predicted = seconds_of(part, device, fit, passes, extra_us)
        return residual(predicted, part.seconds, np.asarray(attention_of(part).flops))

    report(f"{target.device} attention bf16", table, found)
    what = (
        "causal forward, bf16, heads of 64 and 128, from 512 tokens on, less what serving adds "
        f"({extra_us} us, and {passes} times the keys and values through memory for its cache)"
    )
    return values, said(what, table, found) + f" {parts.said_attention} {older}"


def attention_of(table: Table) -> CoreAttention:
    """The shapes of `table` as operations."""
    batch, length, heads, kv_heads, dim = table.shapes
    return CoreAttention(batch, heads, length, length, dim, dim, kv_heads)


def seconds_of(
    table: Table, device: Device, fit: AttentionFit, passes: float, extra_us: float
) -> Column:
    """What the formula gives for `table`, and what serving adds: filling the cache, planning."""
    batch, length, _, kv_heads, dim = table.shapes
    setting = ResolvedSoftware.of(Software(attention="flash-3"))
    cache_s = passes * 4 * batch * length * kv_heads * dim / device.memory.rate_bytes_per_s
    kernel_s = attention_seconds(attention_of(table), device, fit, setting)
    return np.asarray(kernel_s + cache_s + extra_us * 1e-6)


def blocks(directory: Path) -> Iterator[tuple[Target, dict[str, tuple[dict[str, Any], str]]]]:
    """By device, the values and sources of its two blocks."""
    gemm = {target: fit_gemm(target, directory) for target in TARGETS}
    surfaces = {
        target.family: GemmFit.model_validate(gemm[target][0] | {"in_training": 1.0})
        for target in TARGETS
        if target.device in ("a100-sxm-80", "b200")
    }
    parts = ratios(directory, surfaces)
    for target, (values, text) in gemm.items():
        part = parts[target.family]
        more = {"group": f"{part.group_us} us", "weight_gradient": part.weight_gradient}
        yield (
            target,
            {
                "gemm": (values | more, f"{text} {part.said_gemm}"),
                "attention": fit_attention(target, directory, part),
            },
        )


def regenerated(directory: Path) -> dict[Path, str]:
    """Text of every file that the fit writes."""
    texts: dict[Path, str] = {}
    for target, found in blocks(directory):
        path = CALIBRATIONS / f"{target.device}.yaml"
        texts[path] = path.read_text()
        for name, (values, said_of_fit) in found.items():
            texts[path] = with_block(texts[path], name, values, {"kernels": said_of_fit})
    return texts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it would")
    arguments = parser.parse_args()
    stale = []
    for path, text in regenerated(arguments.directory).items():
        if text != path.read_text():
            stale.append(path.name)
            if not arguments.check:
                path.write_text(text)
    if not arguments.check or not stale:
        return 0
    print(f"not what the tables give: {', '.join(stale)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
