"""Seconds of computation: the longer of arithmetic and memory traffic, and the launch.

Holds `gemm_seconds`, `gemm_alone_seconds`, `convolution_seconds`, `attention_seconds`,
`elementwise_seconds`, `kernel_seconds` and `scan_seconds`; one shape, or arrays of them.
Source: roofline (Williams 2009) with tile and wave quantisation; see docs/explanation/compute.md.
"""

from typing import Final

from syncwall.cost.calibration import AttentionFit, ElementwiseFit, GemmFit
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.describe.choice import Dtype
from syncwall.describe.device import Device
from syncwall.work.number import Number, Truth, least, most, rounded_up, where
from syncwall.work.operations import Convolution, CoreAttention, Eager, Elementwise, Gemm, Kernel, Scan

DEFAULT_MULTIPROCESSORS = 100
SUM_BYTES = 4.0
"""Of one element of a weight gradient, summed over micro batches in 32 bits."""
ATTENTION_ROWS = 128.0
"""Queries that a block of a fused attention kernel works on."""
PIECES_AT_ONCE = 2.0
"""Pieces of a ring that run side by side: Transformer Engine puts them on two streams in turn."""


def gemm_seconds(gemm: Gemm, device: Device, fit: GemmFit, *, accumulating: bool = False) -> Number:
    """Time of `gemm` inside a training step, all of its `count` multiplications together.

    A weight gradient that is `accumulating` also reads the sum that it adds to.
    """
    compute_s = _arithmetic_seconds(gemm, device, fit) * (1.0 / fit.in_training)
    read = SUM_BYTES * gemm.m * gemm.n * gemm.count * (accumulating and gemm.is_weight_gradient)
    return _with_memory(gemm, device, fit, compute_s, read)


def gemm_alone_seconds(gemm: Gemm, device: Device, fit: GemmFit) -> Number:
    """Time of `gemm` alone on a device that has rested, as benchmarks of kernels measure it.

    The power limit acts after milliseconds: short kernels run at a clock no training step holds.
    """
    compute_s = _arithmetic_seconds(gemm, device, fit)
    compute_s = compute_s * (1.0 - fit.burst * fit.burst_s / (compute_s + fit.burst_s + 1e-12))
    return _with_memory(gemm, device, fit, compute_s)


def _arithmetic_seconds(gemm: Gemm, device: Device, fit: GemmFit) -> Number:
    """Time of the matrix units: the output, partly rounded up to tiles and to waves of tiles."""
    units = device.multiprocessors or DEFAULT_MULTIPROCESSORS
    tiles = rounded_up(gemm.m / fit.tile_m) * rounded_up(gemm.n / fit.tile_n) * gemm.count
    waves = rounded_up(tiles * (1.0 / units))
    rate: Number = _rate(gemm.dtype, device, fit) * fit.efficiency
    rate = rate * (fit.weight_gradient if gemm.is_weight_gradient else 1.0)
    rate = rate * where(_aligned(gemm), 1.0, fit.misaligned)
    tile, wave = fit.tile_m * fit.tile_n, fit.tile_m * fit.tile_n * units
    exact = (1.0 - fit.pad_cost) * gemm.m * gemm.n * gemm.count
    area = exact + (fit.pad_cost - fit.wave_cost) * tile * tiles + fit.wave_cost * wave * waves
    return 2.0 * area * (gemm.k + fit.half_depth) / rate


def _with_memory(gemm: Gemm, device: Device, fit: GemmFit, compute_s: Number, read: Number = 0.0) -> Number:
    memory_s = (gemm.hbm_bytes + read) / (device.memory.rate_bytes_per_s * fit.memory_efficiency)
    started = 0.0 if gemm.is_batched else most(gemm.count - 1.0, 0.0)
    launch_s = fit.launch_s + fit.group_s * started
    return smooth_max(compute_s, memory_s) + launch_s * (gemm.flops > 0)


NARROWEST_CHANNELS = 16
"""Channels of a group from which matrix units are of use; below, as in depthwise convolutions, the
plain ones multiply."""


def convolution_seconds(
    convolution: Convolution, device: Device, fit: GemmFit, elementwise: ElementwiseFit
) -> Number:
    """Time of a convolution, as the multiplication without its unfolded input in memory.

    Assumed to reach what a multiplication of the same shape reaches.
    """
    c = convolution
    if c.n < NARROWEST_CHANNELS:
        plain = Dtype.FP32 if Dtype.FP32 in device.peak_flop_per_s else c.dtype
        return kernel_seconds(Kernel(c.flops, c.bytes, plain), device, fit, elementwise)
    compute_s = _arithmetic_seconds(Gemm(c.m, c.n, c.k, c.dtype, c.groups), device, fit)
    memory_s = c.bytes / (device.memory.rate_bytes_per_s * fit.memory_efficiency)
    return smooth_max(compute_s / fit.in_training, memory_s) + fit.launch_s


def kernel_seconds(kernel: Kernel, device: Device, gemm: GemmFit, fit: ElementwiseFit) -> Number:
    """Time of a kernel of which only FLOP and bytes are known."""
    compute_s = kernel.flops / (_rate(kernel.dtype, device, gemm) * gemm.efficiency)
    memory_s = kernel.bytes / (device.memory.rate_bytes_per_s * fit.efficiency)
    return most(compute_s / gemm.in_training, memory_s) + fit.launch_s


SCAN_REACHED = 0.20
"""Of the dense 16-bit peak that the products of a scan reach. A tuned forward kernel of Mamba-2 at
80 heads of 64 with a state of 128 and chunks of 256 takes 1.28 ms for 65,536 tokens on an H800: 202
TFLOP/s with whole chunks counted (benchmark/mamba2 of tilelang, October 2025). Assumed for backward
kernels, other devices and other kinds of scans."""


BY_TOKEN_REACHED = 0.25
"""Of the 32-bit peak of vector units in a scan token by token: an exponential for each element of
the state, of which Nvidia's multiprocessors do 16 a clock beside 128 multiply-adds, while four FLOP
are counted for it. Assumed: no kernel of Mamba-1 was measured, nor other devices' exponentials."""


def scan_seconds(scan: Scan, device: Device, fit: ElementwiseFit) -> Number:
    """Time of a scan: small products that keep matrix units half idle, or memory traffic."""
    rate = device.sixteen_bit_flop_per_s * SCAN_REACHED
    if scan.by_token:
        vectors = device.peak_flop_per_s.get(Dtype.FP32, device.sixteen_bit_flop_per_s)
        rate = vectors * BY_TOKEN_REACHED
    compute_s = scan.flops / rate
    memory_s = scan.bytes / (device.memory.rate_bytes_per_s * fit.efficiency)
    return smooth_max(compute_s, memory_s) + fit.launch_s


def attention_seconds(
    attention: CoreAttention, device: Device, fit: AttentionFit, setting: ResolvedSoftware
) -> Number:
    """Time of attention; short sequences and few heads leave the device half empty.

    A ring computes piece by piece, two at a time, and every piece is short.
    """
    if setting.attention == "unfused":
        return _unfused_seconds(attention, device, fit)
    window = attention.kv_len if attention.window is None else attention.window
    length = least(attention.kv_len / _shorter(attention.pieces), window)
    units = device.multiprocessors or DEFAULT_MULTIPROCESSORS
    blocks = attention.batch * attention.heads * attention.q_len / ATTENTION_ROWS
    blocks = blocks * least(attention.pieces, PIECES_AT_ONCE)
    rate = device.sixteen_bit_flop_per_s * _fused_efficiency(attention, fit, setting)
    starting = 1.0 + fit.half_length / most(length, 1.0)
    filling = 1.0 + fit.half_filled * units / most(blocks, 1e-3)
    compute_s = attention.flops / rate * starting * filling
    memory_s = attention.hbm_bytes / device.memory.rate_bytes_per_s
    return most(compute_s, memory_s)


def _shorter(pieces: Number) -> Number:
    """How much shorter the pieces of a ring are than the sequence, as far as start-up goes.

    A rank's first piece is its own part under the causal mask, 1/p of the sequence. In the others
    all queries see half of another part, or half of them all of it, without a mask: they do as much
    for each start-up as causal ones of 1/p and 2/p of it.
    """
    return 0.25 + 0.75 * pieces


def _fused_efficiency(attention: CoreAttention, fit: AttentionFit, setting: ResolvedSoftware) -> Number:
    """Of the peak, for long sequences and many heads, by generation of the kernel."""
    backward = fit.backward if attention.is_backward else 1.0
    if setting.attention == "flash-3":
        return fit.flash_3 * backward * _by_head(attention.head_dim, fit.head_overhead)
    older = fit.flash_1_ratio if setting.attention == "flash-1" else 1.0
    by_head = _by_head(attention.head_dim, fit.older_head_overhead)
    return fit.flash_2 * older * backward * by_head


def _by_head(head_dim: Number, overhead: float) -> Number:
    """Small heads leave more work beside the products; 1 from 128 dimensions on."""
    return least(1.0, head_dim / (head_dim + overhead) * ((128 + overhead) / 128))


def _unfused_seconds(attention: CoreAttention, device: Device, fit: AttentionFit) -> Number:
    """Batched multiplications over the whole square, and every score moved through memory."""
    head = attention.head_dim
    efficiency = fit.unfused * head / (head + fit.unfused_head_overhead)
    efficiency = where(head % 8 == 0, efficiency, fit.unfused_misaligned)
    scores = attention.batch * attention.heads * attention.q_len * attention.kv_len
    moved = attention.hbm_bytes + fit.unfused_score_bytes * scores
    compute_s = attention.square_flops / (device.sixteen_bit_flop_per_s * efficiency)
    return compute_s + moved / device.memory.rate_bytes_per_s


def elementwise_seconds(
    elementwise: Elementwise, device: Device, fit: ElementwiseFit, setting: ResolvedSoftware
) -> Number:
    """Time of memory-bound kernels."""
    rate = device.memory.rate_bytes_per_s * fit.efficiency
    more = unfused_cost(elementwise, fit, setting)
    if elementwise.is_fused:
        return elementwise.bytes * more.traffic / rate + fit.launch_s * elementwise.kernels * more.kernels
    traffic = setting.traffic(elementwise.kind, fit.traffic)
    traffic = traffic * (fit.cast if elementwise.kind.startswith("cast") else 1.0)
    launch_s = fit.launch_s * elementwise.kernels * (traffic > 0)
    return elementwise.bytes * traffic * more.traffic / rate + launch_s * more.kernels


_AS_FUSED = Eager(1.0, 1.0)


def unfused_cost(elementwise: Elementwise, fit: ElementwiseFit, setting: ResolvedSoftware) -> Eager:
    """Traffic and kernels of `elementwise` as this software runs it, over those of the fused kernel."""
    if elementwise.is_fused:
        return _AS_FUSED if setting.fused_optimizer else elementwise.eager or _AS_FUSED
    if not setting.unfused:
        return _AS_FUSED
    eager = elementwise.eager or Eager(fit.eager, fit.eager)
    return Eager(eager.traffic**setting.unfused, eager.kernels**setting.unfused)


_INSTEAD: Final = {Dtype.MXFP8: Dtype.FP8, Dtype.TF32: Dtype.FP32}
"""What devices without a format multiply in."""


def _rate(dtype: Dtype, device: Device, fit: GemmFit) -> float:
    """The peak in `dtype`, less what narrow formats lose in training."""
    if dtype in (Dtype.BF16, Dtype.FP16):
        return device.sixteen_bit_flop_per_s
    instead = dtype if dtype in device.peak_flop_per_s else _INSTEAD.get(dtype, dtype)
    return device.flop_per_s(instead) * fit.low_precision.get(dtype, 1.0)


def _aligned(gemm: Gemm) -> Truth:
    n, k = gemm.n / 8.0, gemm.k / 8.0
    aligned: Truth = (rounded_up(n) == n) & (rounded_up(k) == k)
    return aligned


def smooth_max(first: Number, second: Number) -> Number:
    """(a^4 + b^4)^(1/4): nearly the larger of two times; by square roots, which are quick."""
    larger = most(first, second)
    ratio = least(first, second) / most(larger, 1e-300)
    square = ratio * ratio
    return larger * ((1.0 + square * square) ** 0.5) ** 0.5
