from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.describe import Layout, Run
from syncwall.timeline.segments import segments
from syncwall.timeline.step import reduction_window
from syncwall.timeline.streams import Clock, Record
from syncwall.web.lessons.team import (
    last_micro_batch,
    pass_seconds,
    share_of,
    team_idle,
    team_seconds,
)
from syncwall.work.block import Stream

LAYOUTS: dict[str, dict[str, Any]] = {
    "ddp": {"global_batch": 64},
    "ddp without overlap": {"global_batch": 64, "overlap_gradients": False},
    "zero1": {"shard": "zero1", "global_batch": 64, "overlap_parameters": False},
    "fsdp": {"shard": "fsdp", "tp": 2, "global_batch": 64},
    "hsdp": {"shard": "fsdp", "shard_degree": 8, "global_batch": 64},
    "fsdp without prefetch": {"shard": "fsdp", "global_batch": 64, "overlap_parameters": False},
    "interleaved": {
        "tp": 4,
        "pp": 4,
        "global_batch": 64,
        "virtual_stages": 4,
        "schedule": "interleaved",
    },
    "pipeline": {"tp": 4, "pp": 4, "global_batch": 64, "virtual_stages": 1, "schedule": "1f1b"},
}


def predicted(name: str, model: str = "llama-3.1-8b") -> Prediction:
    stated = {"micro_batch": 1, "recompute": "none", "balanced_stages": False} | LAYOUTS[name]
    layout = Layout.model_validate(stated)
    return sw.predict(
        Run(model=sw.model(model), cluster=sw.cluster("dgx-h100"), nodes=4, seq=4096, layout=layout)
    )


PREDICTED = {name: predicted(name) for name in LAYOUTS}


def alone(prediction: Prediction) -> float:
    """The end of the last micro batch and update on the predictor's own clock."""
    clock, stage = Clock(record=Record()), prediction.work.stages[-1]
    for block in (*stage.forward, *stage.last_backward):
        clock.run(segments(block, prediction.prices), block.rounds)
    clock.join()
    for block in stage.finish:
        clock.run(segments(block, prediction.prices), block.rounds)
    return float(clock.join())


@pytest.mark.parametrize("name", LAYOUTS)
def test_equal_workers_are_the_predicted_one(name):
    one = PREDICTED[name]
    seen = last_micro_batch(one.work.stages[-1], one.prices, [1.0] * 5)
    assert (seen.end_s == alone(one)).all()
    for worker in range(5):
        idle = team_idle(seen, worker)
        assert not [piece for piece in idle if piece.why == "worker"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_step_of_equal_workers_is_the_predicted_step(name):
    one = PREDICTED[name]
    window = float(reduction_window(one.work))
    found = team_seconds(one.work.stages[-1], one.prices, [1.0] * 3, window)
    micro = float(one.work.microbatches)
    not_here = ("pipeline bubble", "exposed PP", "straggler wait")
    expected = sum(float(s) for cause, s in one.ledger.items() if cause not in not_here)
    once = one.prices.setting.framework.host.per_step_s
    assert found.of_step(micro) == pytest.approx(expected - once, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(LAYOUTS)),
    slowness=st.lists(st.floats(1, 5), min_size=2, max_size=8),
    further=st.floats(1, 3),
)
def test_laws_of_a_team(name, slowness, further):
    one = PREDICTED[name]
    stage, prices = one.work.stages[-1], one.prices
    seen = last_micro_batch(stage, prices, slowness)
    slower = last_micro_batch(stage, prices, [slowness[0] * further, *slowness[1:]])
    assert (slower.end_s >= seen.end_s * (1 - 1e-12)).all()
    assert seen.end_s.max() >= alone(one) * (1 - 1e-12)
    for done in seen.done:
        if done.segment.stream in (Stream.REDUCE, Stream.GATHER):
            assert np.ptp(done.starts) == 0  # nobody begins before the last is ready
            assert done.starts[0] == done.ready.max()
    for worker in range(len(slowness)):
        idle = team_idle(seen, worker)
        ends = [0.0, *(piece.end_s for piece in idle)]
        starts = [*(piece.start_s for piece in idle), seen.end_s[worker]]
        assert all(b >= a for a, b in zip(ends, starts, strict=True))  # one after the other
        share = share_of(seen, worker, idle)
        parts = (share.computing_s, share.inside_s, share.wires_s, share.worker_s, share.host_s)
        assert sum(parts) == pytest.approx(float(seen.end_s[worker]))
        assert min(parts) >= -1e-9


@pytest.mark.parametrize("name", LAYOUTS)
def test_others_wait_for_the_slow_worker_and_it_for_nobody(name):
    one = PREDICTED[name]
    stage = one.work.stages[-1]
    waited = []
    for slow in (1.0, 1.5, 3.0):
        seen = last_micro_batch(stage, one.prices, [1.0, slow, 1.0])
        shares = [share_of(seen, worker, team_idle(seen, worker)) for worker in range(3)]
        waited.append(shares[0].worker_s)
        assert shares[0] == shares[2]
        assert shares[1].worker_s == pytest.approx(0, abs=1e-12)
        named = {piece.whom for piece in team_idle(seen, 0) if piece.why == "worker"}
        assert named <= {1}
    assert waited == sorted(waited)
    assert waited[0] == 0 < waited[2]


@pytest.mark.parametrize("name", LAYOUTS)
def test_passes_of_a_micro_batch_add_up_to_it(name):
    one = PREDICTED[name]
    stage = one.work.stages[-1]
    forward_s, backward_s = pass_seconds(stage, one.prices)
    assert 0 < forward_s < backward_s
    micro_s = team_seconds(stage, one.prices, [1.0]).micro_s
    assert forward_s + backward_s == pytest.approx(micro_s, rel=1e-12)


def test_experts_make_workers_meet_in_every_layer():
    layout = Layout.model_validate({"ep": 8, "shard": "fsdp", "global_batch": 32, "micro_batch": 1})
    model, cluster = sw.model("mixtral-8x7b"), sw.cluster("dgx-h100")
    one = sw.predict(Run(model=model, cluster=cluster, nodes=4, layout=layout))
    seen = last_micro_batch(one.work.stages[-1], one.prices, [1.0, 2.0, 1.0, 1.0])
    exchanged = [done for done in seen.done if done.segment.stream is Stream.EXPERT]
    assert exchanged
    assert all(np.ptp(done.starts) == 0 for done in exchanged)
