from typing import Any

import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.describe import Layout, Run, Software
from syncwall.describe.layout import Recompute
from syncwall.timeline.segments import segments
from syncwall.timeline.step import reduction_window, slowest_of
from syncwall.work.operations import Gemm
from syncwall.work.transformer_step import transformer_step


def predicted(software: dict[str, Any] | None = None, **layout: Any) -> Prediction:
    stated = {
        "tp": 4,
        "pp": 4,
        "micro_batch": 1,
        "global_batch": 64,
        "recompute": "none",
        "virtual_stages": 1,
    } | layout
    return sw.predict(
        Run(
            model=sw.model("llama-3.1-8b"),
            cluster=sw.cluster("dgx-h100"),
            nodes=4,
            seq=4096,
            layout=Layout.model_validate(stated),
            software=Software(**(software or {})),
        )
    )


@pytest.mark.parametrize(("ranks", "expected"), [(1, 0.0), (2, 0.564), (8, 1.424), (1000, 3.241)])
def test_the_slowest_of_many(ranks, expected):
    """Expected maxima of normal samples, as tabulated."""
    assert float(slowest_of(ranks)) == pytest.approx(expected, abs=0.03)


def test_more_ranks_have_a_slower_slowest():
    found = slowest_of(np.array([1, 2, 8, 64, 1024, 16_384, 1_000_000]))
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize(
    ("layout", "passes"),
    [
        ({}, 0),
        ({"pp": 4, "global_batch": 64}, 0),
        ({"pp": 4, "virtual_stages": 2, "global_batch": 64}, 4 * 1 / 2),
        ({"pp": 4, "virtual_stages": 4, "global_batch": 64}, 4 * 3 / 4),
        ({"pp": 8, "virtual_stages": 2, "global_batch": 32}, 4),
        ({"pp": 4, "virtual_stages": 4, "global_batch": 64, "overlap_gradients": False}, 0),
    ],
)
def test_virtual_stages_are_reduced_beside_others(layout, passes):
    one = Layout.model_validate(layout).resolved(32)
    work = transformer_step(sw.model("llama-3.1-8b"), one, 4096)
    assert float(reduction_window(work)) == passes


def test_interleaved_ranks_hide_more_of_their_gradients():
    plain = predicted(global_batch=32)
    interleaved = predicted(global_batch=32, schedule="interleaved", virtual_stages=4)
    assert interleaved.ledger["exposed DP"] <= plain.ledger["exposed DP"]
    assert interleaved.ledger["pipeline bubble"] < plain.ledger["pipeline bubble"] / 3


def test_each_schedule_leaves_less_of_the_bubble():
    names = ("1f1b", "zero-bubble", "dualpipe", "dualpipe-v", "zero-bubble-v", "zero-bubble-2p")
    bubbles = {name: predicted(schedule=name).ledger["pipeline bubble"] for name in names}
    assert bubbles["zero-bubble"] < 0.7 * bubbles["1f1b"]
    assert bubbles["dualpipe"] < bubbles["dualpipe-v"] < 0.9 * bubbles["1f1b"]
    assert bubbles["zero-bubble-2p"] < bubbles["zero-bubble-v"] < bubbles["zero-bubble"]
    times = [predicted(schedule=name).step_s for name in ("1f1b", "zero-bubble", "zero-bubble-2p")]
    assert times == sorted(times, reverse=True)


def test_weight_gradients_are_the_gemms_that_contract_over_tokens():
    one = predicted(schedule="zero-bubble", balanced_stages=False)
    body = one.work.stages[0]
    own = sum(
        float(one.prices.seconds(operation.what) * block.rounds)
        for block in body.backward
        for operation in block.operations
        if isinstance(operation.what, Gemm) and operation.what.is_weight_gradient
    )
    assert 0.1 < own / float(one.step_s / one.work.microbatches) < 0.35


def test_dualpipe_shares_the_head_with_the_rank_at_the_other_end():
    """The last rank is the first one for every second micro batch."""
    last, shared = (
        predicted(schedule=name, balanced_stages=False).ledger["output layer"]
        for name in ("1f1b", "dualpipe")
    )
    assert shared == pytest.approx(last / 2)


def test_the_last_rank_waits_for_one_neighbour():
    slow = predicted({"framework": "megatron-lm"}, overlap_pp=False)
    body, last = slow.work.stages
    assert (body.crossings, last.crossings) == (2, 1)


def test_gradients_of_several_micro_batches_are_added_up():
    software = {"framework": "nanotron"}
    several = predicted(software, pp=1, global_batch=64)
    one = predicted(software, pp=1, global_batch=8)
    assert one.ledger["accumulation"] == 0
    stage = several.work.stages[-1]
    each_s = float(several.prices.accumulation_s(stage.parameters))
    assert each_s > 0
    assert several.ledger["accumulation"] == pytest.approx(several.work.microbatches * each_s)
    assert predicted(software, pp=1, frozen_weights=True).ledger["accumulation"] == 0


def test_the_host_has_something_to_do_once_a_step():
    found = predicted({"graphs": "full"})
    assert found.ledger["host"] == pytest.approx(found.prices.setting.framework.host.per_step_s)
    double = predicted({"graphs": "full"}, global_batch=128)
    assert double.ledger["host"] == pytest.approx(found.ledger["host"])


def test_a_host_that_issues_slowly_is_waited_for():
    slow, quick = (predicted({"kernels": kernels}) for kernels in ("eager", "fused"))
    assert slow.ledger["host"] > quick.ledger["host"]


def test_arrays_of_recomputation_issue_what_each_layout_issues():
    one = predicted(pp=1, tp=1)
    layouts = [one.run.layout.model_copy(update={"recompute": r}) for r in (Recompute.NONE, Recompute.FULL)]
    many = layouts[0].model_copy(update={"recompute": np.array([layout.recompute for layout in layouts])})
    time = one.pricing.step(one.run.model, many, one.run.seq, one.run.cluster)
    for index, layout in enumerate(layouts):
        alone = sw.predict(one.run.model_copy(update={"layout": layout}))
        found = float(np.broadcast_to(time.ledger["host"], 2)[index])
        assert found == pytest.approx(float(alone.ledger["host"]), rel=1e-9)


def experts(software: dict[str, Any], model: str = "mixtral-8x7b", **layout: Any) -> Prediction:
    stated = {"micro_batch": 1, "global_batch": 8, "recompute": "none"} | layout
    return sw.predict(
        Run(
            model=sw.model(model),
            cluster=sw.cluster("dgx-h100"),
            nodes=1,
            seq=2048,
            layout=Layout.model_validate(stated),
            software=Software(**software),
        )
    )


def test_a_loop_over_experts_keeps_the_host_in_step():
    """Weights of the next layer are asked for only when this one is computed, and each expert is
    issued by itself; with many experts of few tokens the host sets the pace.
    """
    grouped, loop = (
        experts({"framework": "pytorch", "expert_kernels": kernels}, shard="fsdp")
        for kernels in ("grouped", "loop")
    )
    exposed = "exposed FSDP gather"
    assert loop.ledger[exposed] > grouped.ledger[exposed]
    assert loop.ledger["host"] > grouped.ledger["host"]
    assert loop.step_s > 1.1 * grouped.step_s
    many = [
        experts({"framework": "pytorch", "expert_kernels": kernels}, "qwen3-30b-a3b", shard="fsdp")
        for kernels in ("grouped", "loop")
    ]
    assert many[1].step_s > 2 * many[0].step_s


@pytest.mark.parametrize("graphs", ["none", "full"])
def test_the_host_issues_each_local_expert(graphs):
    """Megatron-Core: 16 experts a rank cost its host 6 x 15 launches a layer more than one."""
    software = {"framework": "megatron-core", "graphs": graphs}
    many, few = (experts(software, "qwen3-30b-a3b", ep=ep, shard="zero1", global_batch=64) for ep in (2, 8))
    blocks = [
        next(block for block in one.work.stages[-1].forward if block.name == "expert layer")
        for one in (many, few)
    ]
    more_s, less_s = (
        segments(block, one.prices).host_s for block, one in zip(blocks, (many, few), strict=True)
    )
    host = many.prices.setting.framework.host
    expected = 2 * (64 - 16) * host.per_expert_s if graphs == "none" else 0
    assert more_s - less_s == pytest.approx(expected)


def test_graphs_take_away_what_they_hold():
    times = []
    for graphs in ("none", "router", "attention"):
        one = experts({"graphs": graphs}, "qwen3-30b-a3b", ep=8, shard="zero1")
        block = next(b for b in one.work.stages[-1].forward if b.name == "expert layer")
        times.append(float(segments(block, one.prices).host_s))
    assert times[0] > times[1] > times[2] > 0


def test_computation_loses_only_while_communication_runs_beside_it():
    """As many bytes cost as much of the computation beside them, however long that is."""
    lost = [
        predicted(
            {"framework": "pytorch"}, tp=1, pp=1, shard="fsdp", micro_batch=each, global_batch=32 * each
        ).ledger[Cause.CONTENTION]
        for each in (2, 4, 8)
    ]
    assert lost == pytest.approx([lost[0]] * 3, rel=0.05)
    assert lost[0] > 0


def test_each_expert_of_a_loop_fills_the_device_alone():
    one = experts({"framework": "pytorch", "expert_kernels": "loop"}, shard="fsdp")
    single, several = Gemm(512, 4096, 4096), Gemm(512, 4096, 4096, count=8)
    assert one.prices.seconds(several) == pytest.approx(8 * one.prices.seconds(single))
    counts = Gemm(512, 4096, 4096, count=np.array([0.5, 1, 8]))
    singly = [one.prices.seconds(Gemm(512, 4096, 4096, count=count)) for count in (0.5, 1, 8)]
    assert np.asarray(one.prices.seconds(counts)) == pytest.approx(singly)


def test_fused_accumulation_reads_the_sum():
    """A gradient of few rows is limited by memory: 8 bytes an element and not 4."""
    small = Gemm(8192, 8192, 64, is_weight_gradient=True)
    core, torch = (
        experts({"framework": name}, ep=8).prices.seconds(small) for name in ("megatron-core", "torchtitan")
    )
    assert core > 1.3 * torch
