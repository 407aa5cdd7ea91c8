from typing import Any

import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.describe import Layout, Run, Software
from syncwall.timeline.step import reduction_window, slowest_of
from syncwall.work.step import transformer_step


def predicted(software: dict[str, Any] | None = None, **layout: Any) -> Prediction:
    stated = {"tp": 4, "pp": 4, "micro_batch": 1, "global_batch": 64, "recompute": "none",
              "virtual_stages": 1} | layout  # fmt: skip
    return sw.predict(
        Run(model=sw.model("llama-3.1-8b"), cluster=sw.cluster("dgx-h100"), nodes=4, seq=4096,
            layout=Layout.model_validate(stated), software=Software(**(software or {})))
    )  # fmt: skip


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
def test_chunks_are_reduced_beside_others(layout, passes):
    one = Layout.model_validate(layout).resolved(32)
    work = transformer_step(sw.model("llama-3.1-8b"), one, 4096)
    assert float(reduction_window(work)) == passes


def test_interleaved_ranks_hide_more_of_their_gradients():
    plain = predicted(global_batch=32)
    woven = predicted(global_batch=32, schedule="interleaved", virtual_stages=4)
    assert woven.ledger["exposed DP"] <= plain.ledger["exposed DP"]
    assert woven.ledger["pipeline bubble"] < plain.ledger["pipeline bubble"] / 3


def test_each_schedule_leaves_less_of_the_bubble():
    bubbles = [
        predicted(schedule=name).ledger["pipeline bubble"]
        for name in ("1f1b", "dualpipe", "zero-bubble", "zero-bubble-2p")
    ]
    assert bubbles[0] == pytest.approx(2 * bubbles[1])
    assert bubbles[0] == pytest.approx(3 * bubbles[2])
    assert bubbles[3] == 0
    times = [predicted(schedule=name).step_s for name in ("1f1b", "zero-bubble", "zero-bubble-2p")]
    assert times == sorted(times, reverse=True)


def test_gradients_of_several_micro_batches_are_added_up():
    software = {"framework": "nanotron"}
    several = predicted(software, pp=1, global_batch=64)
    one = predicted(software, pp=1, global_batch=8)
    assert one.ledger["accumulation"] == 0
    stage = several.work.stages[-1]
    each_s = float(several.prices.accumulation_s(stage.parameters))
    assert each_s > 0
    assert several.ledger["accumulation"] == pytest.approx(several.work.microbatches * each_s)
    assert predicted(software, pp=1, frozen=True).ledger["accumulation"] == 0


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
    layouts = [predicted(pp=1, tp=1, recompute=r).run.layout for r in ("none", "full")]
    many = layouts[0].model_copy(
        update={"recompute": np.array([layout.recompute for layout in layouts])}
    )
    time = one.pricing.step(one.run.model, many, one.run.seq, one.run.cluster)
    for index, layout in enumerate(layouts):
        alone = sw.predict(one.run.model_copy(update={"layout": layout}))
        found = float(np.broadcast_to(time.ledger["host"], 2)[index])
        assert found == pytest.approx(float(alone.ledger["host"]), rel=1e-9)
