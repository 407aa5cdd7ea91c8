"""Words for operations: amounts are those of the work, rates those of the prices."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.cost.compute import SCAN_REACHED
from syncwall.cost.measured import CollectiveTable, GemmPoint, MachineMeasurements
from syncwall.describe.choice import Dtype
from syncwall.show.operation_words import Wording, shape
from syncwall.work.operations import (
    Collective,
    CoreAttention,
    Elementwise,
    Gemm,
    Group,
    Scan,
    Transfer,
)

TP = Group("tp", 8)
SHARD = Group("shard", 8, 8)


def predicted(cluster: str = "dgx-h100", *, measured: Any = None, **layout: Any) -> sw.Prediction:
    fields = {"tp": 8, "shard": "fsdp", "global_batch": 256} | layout
    machine = sw.cluster(cluster, nodes=8)
    run = sw.Run(model="llama-3.1-70b", cluster=machine, layout=sw.Layout(**fields))
    return sw.predict(run, measured=measured)


@pytest.fixture(scope="module")
def wording() -> Wording:
    return Wording(predicted())


def test_a_multiplication(wording):
    said = wording.of(Gemm(8192, 28672, 8192))
    assert said.shape == "8,192 x 28,672 x 8,192 bf16"
    assert said.flops == 2 * 8192 * 28672 * 8192
    assert said.rate == pytest.approx(said.flops / said.seconds)
    assert said.rate_unit == "FLOP/s"
    assert 0.3 < said.of_peak < 1
    assert "t_c = 2 × area × (k + 147)" in said.formula
    assert "weight gradient" not in said.formula
    assert said.source.startswith("fitted to aiconfigurator")
    assert "NVIDIA H100 SXM" in said.source


def test_roles_of_multiplications(wording):
    assert "weight gradient" in wording.of(Gemm(64, 64, 64).for_weight).formula
    assert wording.of(Gemm(64, 64, 64, count=4)).shape == "4 of 64 x 64 x 64 bf16"
    assert " in fp8" in wording.of(Gemm(64, 64, 64, Dtype.FP8)).formula


def test_attention(wording):
    forward = CoreAttention(1, 8, 8192, 8192, 128, 128, kv_heads=1)
    said = wording.of(forward)
    assert "8 heads of 128" in said.shape
    assert "8,192 queries x 8,192 keys" in said.shape
    assert "flash-3" in said.formula
    assert "backward" in wording.of(forward.backward).formula
    assert "window 512" in shape(CoreAttention(1, 8, 8192, 8192, 128, 128, window=512))


def test_a_scan_is_limited_by_small_products_or_by_memory(wording):
    small_products = Scan(flops=1e13, bytes=1.0, tokens=8192, chunk=128, heads=64)
    said = wording.of(small_products)
    assert said.shape == "64 heads, 8,192 tokens in chunks of 128"
    assert said.of_peak == pytest.approx(SCAN_REACHED, rel=0.01)
    assert f"× {SCAN_REACHED:.3g}" in said.formula
    assert wording.of(Scan(1.0, 1e10, 8192, 128, 64)).seconds > 1e10 / 3.35e12


def test_memory_bound_work_reaches_bytes(wording):
    said = wording.of(Elementwise(1e9, kind="norm"))
    assert (said.shape, said.flops, said.hbm_bytes) == ("norm, 1 kernel", 0.0, 1e9)
    assert said.rate_unit == "B/s of memory"
    assert said.source.startswith("assumed")


def test_collectives_say_ranks_and_busbw_as_nccl_tests(wording):
    inside = wording.of(Collective("all-reduce", 1e8, TP))
    assert inside.shape == "all-reduce over 8 ranks in one scale-up domain"
    assert inside.sent_bytes == pytest.approx(2 * 7 / 8 * 1e8)
    assert inside.rate == pytest.approx(inside.sent_bytes / inside.seconds)
    across = wording.of(Collective("all-gather", 1e9, SHARD, calls=4))
    assert across.shape == "all-gather over 8 ranks in 8 nodes, 4 calls"
    assert "reached in training" in across.formula
    assert across.of_peak is None
    assert "tuning.cc" in across.source


def test_messages_and_exchanges():
    wording = Wording(predicted(pp=2, global_batch=64))
    message = wording.of(Transfer(1e6, Group("pp", 2, 32)))
    assert message.sent_bytes == 1e6
    assert message.shape.startswith("message to the next stage in 2")
    assert "links" in wording.of(Collective("all-to-all", 1e6, TP)).formula


def test_nothing_takes_no_time(wording):
    said = wording.of(Collective("all-gather", 0.0, SHARD))
    assert (said.seconds, said.rate, said.sent_bytes) == (0.0, 0.0, 0.0)


def test_a_device_without_tables_says_assumed():
    said = Wording(predicted("isambard-ai", tp=4)).of(Gemm(64, 64, 64))
    assert said.source.startswith("assumed, no table of its own")


def test_what_was_measured_comes_first():
    table = CollectiveTable(kind="all-reduce", ranks=8, nodes=1, points=((1e6, 1e-4),))
    point = GemmPoint(m=64, n=64, k=64, dtype=Dtype.BF16, seconds=1e-5)
    wording = Wording(predicted(measured=MachineMeasurements(gemm=(point,), collectives=(table,))))
    assert wording.of(Gemm(64, 64, 64)).source.startswith("measured on this machine")
    assert "nearest shapes" in wording.of(Gemm(64, 64, 64)).formula
    said = wording.of(Collective("all-reduce", 1e6, TP))
    assert said.source.startswith("measured on this machine")
    assert said.seconds == pytest.approx(1e-4)
