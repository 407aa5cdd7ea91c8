"""Seconds of computation: measured kernels, laws, and the special cases of training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.catalogue import CatalogueKind
from syncwall.cost.calibration import AttentionFit, Calibration, GemmFit
from syncwall.cost.compute import attention_seconds, gemm_alone_seconds, gemm_seconds
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.describe import Device, Software, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.names import load
from syncwall.describe.software import AttentionKernel
from syncwall.work.operations import CoreAttention, Gemm

# Microseconds of bf16 multiplications alone: medians over sglang, TensorRT-LLM and vLLM in the
# tables of aiconfigurator, commit 095f58a, gemm_perf of each device.
MEASURED_GEMMS = [
    ("a100-sxm-80", 8192, 8192, 8192, 4188.5),
    ("a100-sxm-80", 8192, 16384, 5120, 5332.7),
    ("h100-sxm", 8192, 8192, 8192, 1541.7),
    ("h100-sxm", 16384, 6144, 4096, 1112.9),
    ("h200-sxm", 4096, 12288, 12288, 1703.0),
    ("b200", 8192, 8192, 8192, 699.7),
    ("b200", 8192, 16384, 5120, 848.2),
    ("gb200", 16384, 6144, 4096, 471.6),
    ("b300", 8192, 16384, 5120, 840.8),
    ("gb300", 4096, 12288, 12288, 603.3),
]
# TFLOP/s of causal attention forward, half of the square counted. B200: FlashAttention 4,
# Dao-AILab/flash-attention pull request 2605. A100 PCIe: SimuMax, commit 4dcaae5, whose
# efficiencies count the whole square.
MEASURED_ATTENTION = [
    ("b200", CoreAttention(16, 16, 2048, 2048, 128, 128, 16), 927),
    ("b200", CoreAttention(8, 16, 4096, 4096, 128, 128, 16), 1090),
    ("a100-pcie-80", CoreAttention(1, 64, 4096, 4096, 128, 128, 8), 312 * 1.187 / 2),
    ("a100-pcie-80", CoreAttention(1, 16, 4096, 4096, 128, 128, 4), 312 * 0.991 / 2),
]
sizes = st.integers(1, 40000)
factors = st.floats(1, 16)


def of(device: str) -> Calibration:
    return load(CatalogueKind.CALIBRATION, Calibration, device)


def setting(kernel: AttentionKernel) -> ResolvedSoftware:
    return ResolvedSoftware.of(Software(attention=kernel))


def faster(device: Device, peak: float = 1.0, memory: float = 1.0) -> Device:
    rate = device.memory.rate_bytes_per_s * memory
    return device.model_copy(
        update={
            "peak_flop_per_s": {k: v * peak for k, v in device.peak_flop_per_s.items()},
            "memory": device.memory.model_copy(update={"rate_bytes_per_s": rate}),
        }
    )


H100 = lookup.device("h100-sxm")
GEMM = of("h100-sxm").gemm
ATTENTION = of("h100-sxm").attention
CAUSAL = CoreAttention(4, 32, 4096, 4096, 128, 128, 8)


@pytest.mark.parametrize(("device", "m", "n", "k", "us"), MEASURED_GEMMS)
def test_measured_multiplications_are_reproduced(device, m, n, k, us):
    seconds = gemm_alone_seconds(Gemm(m, n, k), lookup.device(device), of(device).gemm)
    assert seconds * 1e6 == pytest.approx(us, rel=0.09)


@pytest.mark.parametrize(("device", "attention", "tflops"), MEASURED_ATTENTION)
def test_measured_attention_is_reproduced(device, attention, tflops):
    fit = of(device).attention
    seconds = attention_seconds(attention, lookup.device(device), fit, setting("flash-3"))
    assert attention.flops / seconds / 1e12 == pytest.approx(tflops, rel=0.06)


def test_a_short_kernel_alone_is_faster_than_in_training():
    gemm, surface = Gemm(2048, 4096, 4096), GEMM.model_copy(update={"in_training": 1.0})
    assert gemm_alone_seconds(gemm, H100, surface) < 0.9 * gemm_seconds(gemm, H100, surface)
    gemm = Gemm(32768, 65536, 65536)
    alone, steady = (price(gemm, H100, surface) for price in (gemm_alone_seconds, gemm_seconds))
    assert alone == pytest.approx(steady, rel=0.01)


@given(sizes, sizes, sizes, factors, factors)
def test_a_faster_device_never_multiplies_slower(m, n, k, peak, memory):
    gemm = Gemm(m, n, k)
    for price in (gemm_seconds, gemm_alone_seconds):
        assert price(gemm, faster(H100, peak, memory), GEMM) <= price(gemm, H100, GEMM)


@given(sizes, sizes, sizes, st.integers(1, 64), st.sampled_from(["m", "n", "count"]))
def test_more_work_never_takes_less_time(m, n, k, count, grown):
    shape = {"m": m, "n": n, "k": k, "count": count}
    more = shape | {grown: shape[grown] + 8}
    seconds = [
        gemm_seconds(Gemm(**{**s, "n": s["n"] * 8, "k": s["k"] * 8}), H100, GEMM) for s in (shape, more)
    ]
    assert seconds[0] <= seconds[1] * (1 + 1e-12)


@given(st.integers(1, 64), st.integers(1, 128), st.integers(1, 40000), factors, factors)
def test_a_faster_device_never_attends_slower(batch, heads, length, peak, memory):
    attention = CoreAttention(batch, heads, length, length, 128, 128, 1)
    for kernel in ("flash-3", "flash-2", "flash-1", "unfused"):
        quick = attention_seconds(attention, faster(H100, peak, memory), ATTENTION, setting(kernel))
        assert quick <= attention_seconds(attention, H100, ATTENTION, setting(kernel)) * (1 + 1e-12)


def test_arrays_give_what_single_shapes_give():
    m, count = np.array([1.0, 100.0, 4096.0]), np.array([1.0, 4.0, 0.5])
    together = gemm_seconds(Gemm(m, 4096, 1024, count=count), H100, GEMM)
    each = [gemm_seconds(Gemm(a, 4096, 1024, count=b), H100, GEMM) for a, b in zip(m, count, strict=True)]
    assert together == pytest.approx(each, rel=1e-12)


def test_nothing_to_do_takes_no_time():
    assert gemm_seconds(Gemm(64, 4096, 4096, count=0), H100, GEMM) == 0


def test_every_further_expert_costs_a_launch():
    def seconds(fit: GemmFit) -> float:
        return float(gemm_seconds(Gemm(1024, 4096, 4096, count=8), H100, fit))

    single = GEMM.model_copy(update={"group_s": 0.0})
    assert seconds(GEMM) - seconds(single) == pytest.approx(7 * GEMM.group_s)


def test_a_weight_gradient_is_slower_than_the_same_shape_forward():
    forward, gradient = (Gemm(8192, 8192, 8192, is_weight_gradient=w) for w in (False, True))
    ratio = gemm_seconds(forward, H100, GEMM) / gemm_seconds(gradient, H100, GEMM)
    assert ratio == pytest.approx(GEMM.weight_gradient, rel=0.005)


def test_each_generation_of_attention_is_faster():
    times = [
        float(attention_seconds(CAUSAL, H100, ATTENTION, setting(kernel)))
        for kernel in ("flash-3", "flash-2", "flash-1", "unfused")
    ]
    assert times == sorted(times)
    assert times[1] / times[2] == pytest.approx(ATTENTION.flash_1_ratio)


def test_backward_attention_takes_two_and_a_half_times_the_work_at_less_speed():
    forward, backward = (
        attention_seconds(one, H100, ATTENTION, setting("flash-3")) for one in (CAUSAL, CAUSAL.backward)
    )
    assert backward / forward == pytest.approx(2.5 / ATTENTION.backward)


def test_unfused_attention_computes_the_square_and_moves_every_score():
    """0.42 x d / (d + 32) of the peak, and 15 bytes a score, forward and again backward."""
    fit = AttentionFit(flash_3=0.7, flash_2=0.4, half_length=700, backward=0.8)
    one = CoreAttention(4, 32, 2048, 2048, 96, 96, 32)
    scores = 4 * 32 * 2048 * 2048
    for attention, products in ((one, 2), (one.backward, 4)):
        arithmetic_s = 2 * products * scores * 96 / (989.4e12 * 0.42 * 96 / (96 + 32))
        memory_s = (attention.hbm_bytes + 15 * scores) / 3.35e12
        seconds = attention_seconds(attention, H100, fit, setting("unfused"))
        assert seconds == pytest.approx(arithmetic_s + memory_s, rel=1e-3)


def test_odd_heads_slow_only_unfused_attention():
    """BLOOM's trials with 150 dimensions a head: about 0.03 of the peak."""
    even, odd = (CoreAttention(4, 32, 2048, 2048, d, d, 32) for d in (152, 150))

    def ratio(kernel: AttentionKernel) -> float:
        slow, quick = (attention_seconds(one, H100, ATTENTION, setting(kernel)) for one in (odd, even))
        return float(slow / quick)

    assert ratio("unfused") > 3
    assert ratio("flash-2") == pytest.approx(150 / 152)


def test_pieces_of_a_ring_start_more_often_and_are_no_slower_when_long():
    """Published runs of Megatron-Core with cp 2 at 8,192 tokens lose next to nothing."""
    device, fit = lookup.device("h100-sxm"), of("h100-sxm").attention

    def seconds(length: int, pieces: int) -> float:
        part = CoreAttention(1, 32, length / pieces, length, 128, 128, 8, pieces=pieces)
        whole = CoreAttention(1, 32, length, length, 128, 128, 8)
        took, alone = (
            float(attention_seconds(one, device, fit, setting("flash-3"))) for one in (part, whole)
        )
        return took * pieces / alone

    assert seconds(8192, 2) == pytest.approx(1.07, abs=0.05)
    assert seconds(8192, 2) < seconds(8192, 4) < seconds(8192, 8)
    assert seconds(1_048_576, 8) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("dtype", "expected"), [("mxfp8", 1.84), ("nvfp4", 3.5)])
def test_narrow_formats_of_a_layer_on_b300(dtype, expected):
    """Twelve multiplications of a 5B model with quantised inputs, over bf16: Transformer Engine.

    "GEMM Speedups Across Precisions" and NVIDIA's blog of June 2026: 12.5 ms in bf16, 6.81 in
    mxfp8, 3.48 to 3.55 times as fast in nvfp4.
    """
    device, fit = lookup.device("b300"), of("b300").gemm
    tokens, hidden, wide = 31 * 512, 4096, 16384

    def seconds(dtype: Dtype) -> float:
        shapes = [(3 * hidden, hidden), (hidden, hidden), (wide, hidden), (hidden, wide)]
        gemms = [Gemm(tokens, n, k, dtype) for n, k in shapes]
        every = [one for g in gemms for one in (g, g.for_input, g.for_weight)]
        return sum(float(gemm_seconds(one, device, fit)) for one in every)

    assert seconds(Dtype.BF16) == pytest.approx(12.5e-3, rel=0.1)
    assert seconds(Dtype.BF16) / seconds(Dtype(dtype)) == pytest.approx(expected, rel=0.1)
