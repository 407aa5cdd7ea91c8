"""The picture of a micro batch says what the clock and the ledger say."""

import json
from itertools import pairwise
from typing import Any

import pytest

import syncwall as sw
from syncwall.answer.timeline import interval_count
from syncwall.timeline.streams import Interval

WAITS = ("exposed", "host")
RUNS: dict[str, dict[str, Any]] = {
    "weights and tensors": {"tp": 8, "shard": "fsdp", "global_batch": 1024},
    "one micro batch": {"tp": 8, "shard": "fsdp", "global_batch": 64, "micro_batch": 1},
    "replicas": {"tp": 8, "shard": "ddp", "global_batch": 64, "micro_batch": 1},
    "sequence parallel": {"tp": 4, "sp": True, "shard": "zero1", "global_batch": 1024},
    "virtual stages": {
        "tp": 8,
        "pp": 8,
        "virtual_stages": 2,
        "schedule": "interleaved",
        "global_batch": 1024,
        "micro_batch": 1,
    },
}


def predicted(name: str) -> sw.Prediction:
    machine = sw.cluster("dgx-h100", nodes=64)
    layout = sw.Layout(**RUNS[name])
    return sw.predict(sw.Run(model="llama-3.1-70b", cluster=machine, layout=layout))


def summed(intervals: list[Interval]) -> float:
    return sum((one.end_s - one.start_s for one in intervals), 0.0)


@pytest.mark.parametrize("name", RUNS)
def test_computation_and_waits_fill_the_time_without_overlap(name):
    found = predicted(name).timeline()
    lane = [one for one in found.intervals if one.stream == "compute"] + found.waits
    now = 0.0
    for one in sorted(lane, key=lambda i: i.start_s):
        assert one.start_s == pytest.approx(now, abs=1e-9)
        now = one.end_s
    assert now == pytest.approx(found.end_s)
    assert max(one.end_s for one in found.intervals) <= found.end_s * (1 + 1e-12)


@pytest.mark.parametrize("name", RUNS)
def test_waits_are_those_of_the_ledger_by_cause(name):
    found = predicted(name).timeline()
    assert float(found.ledger.total) == pytest.approx(found.end_s)
    for cause, seconds in found.ledger.items():
        if cause.startswith(WAITS):
            waited = summed([one for one in found.waits if one.cause == cause])
            assert waited == pytest.approx(float(seconds), abs=1e-9), cause


@pytest.mark.parametrize("name", RUNS)
def test_operations_take_their_price_and_contention(name):
    prediction = predicted(name)
    found = prediction.timeline()
    compute = [one for one in found.intervals if one.stream == "compute"]
    priced = [prediction.prices.seconds(one.what) for one in compute if one.what]
    alone = float(sum(priced))
    assert summed(compute) - alone == pytest.approx(float(found.ledger["contention"]), abs=1e-9)
    assert interval_count(prediction) >= len(found.intervals)
    assert found.earlier_s > 0 or interval_count(prediction) == len(found.intervals)


@pytest.mark.parametrize("name", ["one micro batch", "replicas"])
def test_a_step_of_one_micro_batch_is_the_picture(name):
    """Three rounds tell the ledger of a step what every round tells the picture."""
    prediction = predicted(name)
    assert prediction.work.microbatches == 1
    found = prediction.timeline()
    for cause, seconds in prediction.ledger.items():
        if cause not in ("straggler wait", "host"):  # once a step, not in any stream
            assert float(found.ledger[cause]) == pytest.approx(float(seconds), rel=2e-3), cause


def test_weights_that_share_their_links_are_drawn_as_long_as_they_take():
    prediction = predicted("weights and tensors")
    gathers = [
        one
        for one in prediction.timeline().intervals
        if one.stream == "gather" and one.block == "dense layer"
    ]
    longer: dict[str, list[float]] = {"forward": [], "backward": []}
    for one in gathers:
        assert one.what is not None
        alone_s = float(prediction.prices.seconds(one.what))
        longer[one.phase].append((one.end_s - one.start_s) / alone_s)
    assert longer["forward"] == pytest.approx([1.0] * 80)
    assert min(longer["backward"]) > 1.5


def test_gradients_of_virtual_stages_leave_earlier_and_never_before_the_start():
    found = predicted("virtual stages").timeline()
    assert found.earlier_s > 0
    assert all(0 <= one.start_s <= one.end_s for one in found.intervals)


def test_phases_follow_each_other():
    spans = predicted("virtual stages").timeline().spans
    assert [str(span.phase) for span in spans] == ["forward", "backward", "finish"]
    assert spans[0].start_s == 0
    for before, after in pairwise(spans):
        assert before.end_s == after.start_s


def test_layers_are_numbered():
    found = predicted("weights and tensors").timeline()
    norms = [o for o in found.intervals if o.name == "MLP norm" and o.phase == "forward"]
    assert [one.round for one in norms] == list(range(80))


def test_the_trace_says_what_an_operation_does():
    prediction = predicted("weights and tensors")
    events = json.loads(json.dumps(prediction.timeline().trace()))["traceEvents"]
    drawn = [event for event in events if event["ph"] == "X"]
    gemm = next(event["args"] for event in drawn if event["name"] == "MLP up")
    assert gemm["flops"] == 2 * gemm["m"] * gemm["n"] * gemm["k"]
    assert gemm["hbm_bytes"] > 0
    assert gemm["dtype"] == "bf16"
    gather = next(event["args"] for event in drawn if event["cat"] == "exposed FSDP gather")
    assert gather["kind"] == "all-gather"
    assert gather["bytes"] > 0
    last = max(drawn, key=lambda event: event["ts"] + event["dur"])
    end_us = 1e6 * prediction.timeline().end_s
    assert last["ts"] + last["dur"] == pytest.approx(end_us, abs=2e-3)
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks == {"compute", "gather", "reduce", "tensor", "waits"}
