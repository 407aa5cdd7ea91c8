"""Seconds of computation: the longer of arithmetic and memory traffic, and the launch.

Holds `gemm_seconds`, `attention_seconds` and `elementwise_seconds`; one shape, or arrays of them.
Source: roofline (Williams 2009) with tile and wave quantisation; see docs/explanation/compute.md.
"""

from typing import Any

import numpy as np

from syncwall.cost.calibration import AttentionFit, ElementwiseFit, GemmFit
from syncwall.describe.choice import Dtype
from syncwall.describe.device import Device
from syncwall.describe.software import Software
from syncwall.work.operations import Attention, Elementwise, Gemm

DEFAULT_MULTIPROCESSORS = 100


def gemm_seconds(gemm: Gemm, device: Device, fit: GemmFit) -> Any:
    """Time of `gemm` on `device`, all of its `count` multiplications together."""
    tiles = np.ceil(gemm.m / fit.tile_m) * np.ceil(gemm.n / fit.tile_n)
    padded = tiles * (fit.tile_m * fit.tile_n) / np.maximum(gemm.m * gemm.n, 1.0)
    waves = tiles * gemm.count / (device.multiprocessors or DEFAULT_MULTIPROCESSORS)
    full = np.ceil(waves) / np.maximum(waves, 1e-9)
    rate: Any = _rate(gemm.dtype, device, fit) * fit.efficiency * fit.in_training
    rate = rate * (fit.weight_gradient if gemm.is_weight_gradient else 1.0)
    rate = rate * np.where(_aligned(gemm), 1.0, fit.misaligned)
    depth = 1.0 + fit.half_depth / np.maximum(gemm.k, 1.0)
    uneven = 1.0 + fit.wave_cost * (full - 1.0)
    compute_s = gemm.flops / rate * padded * uneven * depth
    memory_s = gemm.hbm_bytes / (device.memory.rate_bytes_per_s * fit.memory_efficiency)
    done = gemm.flops > 0
    return smooth_max(compute_s, memory_s) + fit.launch_s * done


def attention_seconds(
    attention: Attention, device: Device, fit: AttentionFit, software: Software
) -> Any:
    """Time of attention; short sequences and few heads leave the device half empty.

    Unfused kernels compute the whole square and move every score through memory.
    """
    window = attention.kv_len if attention.window is None else attention.window
    length = np.minimum(attention.kv_len, window)
    best = fit.flash_3 if software.attention == "flash-3" else fit.flash_2
    efficiency = best * length / (length + fit.half_length)
    efficiency = efficiency * (fit.backward if attention.is_backward else 1.0)
    efficiency = efficiency * _by_head(attention.head_dim, fit)
    efficiency = efficiency * np.where(attention.q_len < attention.kv_len, fit.context, 1.0)
    blocks = attention.batch * attention.heads * np.ceil(attention.q_len / 128.0)
    filled = np.minimum(1.0, blocks / (device.multiprocessors or DEFAULT_MULTIPROCESSORS))
    peak = device.sixteen_bit_flop_per_s
    flops, moved = attention.flops, attention.hbm_bytes
    if software.attention == "unfused":
        flops = attention.square_flops
        scores = attention.batch * attention.heads * attention.q_len * attention.kv_len
        moved = moved + fit.unfused_score_bytes * scores
        efficiency = best * fit.backward * _by_head(attention.head_dim, fit)
    compute_s = flops / (peak * efficiency * np.maximum(filled, 1e-3))
    memory_s = moved / device.memory.rate_bytes_per_s
    if software.attention == "unfused":
        return compute_s + memory_s
    return np.maximum(compute_s, memory_s)


def _by_head(head_dim: int, fit: AttentionFit) -> float:
    """Small heads leave more work beside the products; odd ones misfit the matrix units."""
    small = min(1.0, head_dim / (head_dim + fit.head_overhead) * (128 + fit.head_overhead) / 128)
    return small * (1.0 if head_dim % 8 == 0 else fit.misaligned)


def elementwise_seconds(
    elementwise: Elementwise, device: Device, fit: ElementwiseFit, software: Software
) -> Any:
    """Time of memory-bound kernels."""
    rate = device.memory.rate_bytes_per_s * fit.efficiency
    if elementwise.is_fused:
        return elementwise.bytes / rate + fit.launch_s * elementwise.kernels
    once = elementwise.bytes * fit.traffic / rate + fit.launch_s * elementwise.kernels
    return once * (fit.eager if software.kernels == "eager" else 1.0)


def _rate(dtype: Dtype, device: Device, fit: GemmFit) -> float:
    """The peak in `dtype`, less what narrow formats lose in training."""
    if dtype in (Dtype.BF16, Dtype.FP16):
        return device.sixteen_bit_flop_per_s
    narrow = Dtype.FP8 if dtype is Dtype.MXFP8 and dtype not in device.peak_flop_per_s else dtype
    return device.flop_per_s(narrow) * fit.low_precision.get(dtype, 1.0)


def _aligned(gemm: Gemm) -> Any:
    n, k = gemm.n / 8.0, gemm.k / 8.0
    return (np.floor(n) == n) & (np.floor(k) == k)


def smooth_max(first: Any, second: Any) -> Any:
    """(a^4 + b^4)^(1/4): nearly the larger of two times; by square roots, which are quick."""
    larger = np.maximum(first, second)
    ratio = np.minimum(first, second) / np.maximum(larger, 1e-300)
    square = ratio * ratio
    return larger * np.sqrt(np.sqrt(1.0 + square * square))
