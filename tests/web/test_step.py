from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.describe import Run
from syncwall.problems import InputError
from syncwall.web.answers.step import said_time, team_step
from syncwall.web.answers.step_collective import collective, pipeline
from syncwall.web.questions import AskedCollective, AskedPipeline, AskedRun, AskedStep


def small(**layout: Any) -> dict[str, Any]:
    stated = {"global_batch": 64, "micro_batch": 1, "recompute": "none"} | layout
    return {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 4, "layout": stated}


def described(run: dict[str, Any]) -> Run:
    return AskedRun.model_validate(run).run()


def team(run: dict[str, Any], **more: Any) -> dict[str, Any]:
    return team_step(AskedStep.model_validate({"run": run, **more}))


def test_the_numbers_are_those_of_the_prediction(run):
    found = team(run)
    expected = predict(described(run))
    assert found["step_s"] == expected.step_s == found["slow_step_s"]
    assert found["lost_s"] == 0
    assert sum(found["parts_s"].values()) == pytest.approx(expected.step_s, rel=1e-12)
    assert found["dp"] == expected.run.layout.dp
    assert found["workers"] == 6


@pytest.mark.parametrize(
    "layout", [{"shard": "ddp"}, {"shard": "fsdp"}, {"shard": "zero1", "tp": 2, "pp": 2}]
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(slow=st.floats(1, 5), workers=st.integers(2, 8), worker=st.integers(1, 8))
def test_what_is_drawn_keeps_order(layout, slow, workers, worker):
    found = team(small(**layout), slow=slow, workers=workers, worker=worker)
    span = found["span_s"]
    for number in range(workers):
        ends = 0.0
        for chunk in found["chunks"]:
            start, end = chunk["starts"][number], chunk["ends"][number]
            assert ends <= start < end <= span * (1 + 1e-12)
            assert chunk["computing"][number] <= (end - start) * (1 + 1e-9)
            ends = end
        marks = [found["marks"][m][number] for m in ("forward_s", "backward_s", "met_s", "end_s")]
        assert marks == sorted(marks)
        share = found["shares"][number]
        assert sum(share.values()) == pytest.approx(marks[-1])
    for flight in found["flights"]:
        assert flight["start_s"] == pytest.approx(flight["pieces"][0][0])
        assert flight["start_s"] >= max(flight["ready_s"])
    times = [event["at_s"] for event in found["events"]]
    assert times == sorted(times)
    assert times[-1] == span
    assert {event["phase"] for event in found["events"]} >= {1, 2, 3, 5}
    kind = "All-reduce" if layout["shard"] == "ddp" else "Reduce-scatter"
    assert [phase["name"] for phase in found["phases"]] == [
        "Data partitioning",
        "Forward",
        "Backward",
        f"{kind} barrier",
        "Update",
    ]


def test_no_more_pieces_than_can_be_seen(run):
    for mode in ("run", "ddp", "fsdp"):
        found = team(run, mode=mode, slow=1.5)
        for part in ("forward", "backward"):
            assert 5 < sum(chunk["part"] == part for chunk in found["chunks"]) <= 32
            for kind in ("weights", "gradients"):
                flown = [f for f in found["flights"] if (f["part"], f["kind"]) == (part, kind)]
                assert len(flown) <= 24


def test_a_slow_worker_costs_everybody_time(run):
    costs = [team(run, slow=slow)["lost_s"] for slow in (1, 1.2, 2, 5)]
    assert costs == sorted(costs)
    assert 0 == costs[0] < costs[1]
    found = team(run, slow=2, worker=4)
    assert found["worker"] == 3
    assert "Worker 4 computes 2 times slower" in found["verdict"]
    assert found["slow_step_s"] == pytest.approx(found["step_s"] + found["lost_s"])
    assert sum(found["parts_s"].values()) == pytest.approx(found["slow_step_s"], rel=1e-12)
    waiting = found["idle"][found["idle_of"][0]]
    assert {one["whom"] for one in waiting} <= {3, None}
    assert found["idle_of"].count(found["idle_of"][3]) == 1


def test_modes_are_other_shardings_of_the_same_run(run):
    ddp, fsdp = team(run, mode="ddp"), team(run, mode="fsdp")
    assert (ddp["shard"], fsdp["shard"]) == ("ddp", "fsdp")
    assert not ddp["fits"]  # drawn all the same
    assert fsdp["step_s"] == predict(described(run)).step_s
    changed = {**run, "layout": {**run["layout"], "shard": "ddp"}}
    assert ddp["step_s"] == predict(described(changed)).step_s
    assert {f["kind"] for f in ddp["flights"]} == {"gradients"}
    assert {f["kind"] for f in fsdp["flights"]} == {"weights", "gradients"}
    assert any("buckets of up to 25 MiB travel" in event["text"] for event in ddp["events"])
    for found, barrier, update in (
        (ddp, "All-reduce barrier: no worker can go on", "the same step of the optimizer"),
        (fsdp, "Reduce-scatter barrier: no worker can go on", "its own shard"),
    ):
        assert any(event["text"].startswith(barrier) for event in found["events"])
        assert any(update in event["text"] for event in found["events"])
    assert not any("all-reduce" in event["text"].lower() for event in fsdp["events"])


def test_fewer_replicas_than_asked_for():
    assert team(small(tp=8, dp=4), workers=8)["workers"] == 4
    alone = team({"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 1, "layout": {"tp": 8}})
    assert alone["workers"] == 1
    assert alone["verdict"].startswith("One worker")


def test_a_model_with_endless_layers_is_refused():
    model = {
        "name": "tall",
        "layers": 5000,
        "hidden": 64,
        "vocab": 100,
        "max_seq": 128,
        "attention": {"heads": 4},
        "mlp": {"hidden": 128},
    }
    with pytest.raises(InputError, match="layers"):
        team({"model": model, "cluster": "dgx-h100", "nodes": 1, "seq": 128})


@pytest.mark.parametrize("way", ["ring", "tree"])
def test_an_all_reduce_takes_what_the_prediction_says(run, way):
    found = collective(AskedCollective.model_validate({"run": run, "workers": 5}))
    drawn = found[way]
    assert drawn["seconds"] == pytest.approx(drawn["step_s"] * drawn["steps"])
    assert len(drawn["events"]) == drawn["steps"] + 1
    assert drawn["held"][-1] == [[5.0] * drawn["chunks"]] * 5
    assert found["chosen_s"] == min(one["seconds"] for one in found["ways"])
    assert found["ranks"] == 64


def test_small_messages_take_a_tree_and_large_ones_a_ring(run):
    small_, large = (
        collective(AskedCollective.model_validate({"run": run, "size": size})) for size in (2**14, 2**32)
    )
    assert small_["chosen"].startswith("Tree")
    assert large["chosen"].startswith("Ring")
    assert large["verdict"].startswith("4.29\u00a0GB over 64 ranks: NCCL is expected to take Ring")


def test_one_rank_has_nothing_to_sum_up():
    run = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 1, "layout": {"tp": 8}}
    found = collective(AskedCollective.model_validate({"run": run}))
    assert found["chosen"] is None
    assert found["ring"]["seconds"] is None
    assert found["by_size"] == []


@pytest.mark.parametrize(("balanced_stages", "within"), [(False, 0.01), (True, 0.05)])
def test_the_slowest_stage_has_the_bubble_of_the_prediction(balanced_stages, within):
    """Several stages are the slowest if they are balanced, and wait a little less than in full."""
    run = small(tp=4, pp=4, schedule="1f1b", virtual_stages=1, balanced_stages=balanced_stages)
    found = pipeline(AskedPipeline.model_validate({"run": run}))
    expected = predict(described(run))
    assert found["predicted_bubble_s"] == expected.ledger["pipeline bubble"]
    assert found["step_s"] == expected.step_s
    assert min(found["bubble_s"]) == pytest.approx(found["predicted_bubble_s"], rel=within)
    assert found["drawn"] == 16 < found["microbatches"] == 32
    idle = [sum(end - start for stage, start, end in found["gaps"] if stage == s) for s in range(4)]
    assert idle == pytest.approx(found["bubble_s"])


def test_a_run_without_a_pipeline_is_shown_with_four_stages(run):
    found = pipeline(AskedPipeline.model_validate({"run": run}))
    assert (found["own_pp"], found["pp"], found["run"]) == (1, 4, None)


def test_a_slow_stage_sets_the_pace(run):
    found = pipeline(AskedPipeline.model_validate({"run": run, "slow": 2, "worker": 2}))
    assert found["span_s"] > 1.5 * found["usual_s"]
    assert found["bubble_s"][1] == min(found["bubble_s"])


def test_the_run_s_own_schedule_is_named():
    run = small(tp=4, pp=4, schedule="interleaved", virtual_stages=2)
    found = pipeline(AskedPipeline.model_validate({"run": run}))
    assert found["run"]["schedule"] == "2 virtual stages"
    assert found["run"]["bubble_s"] == found["predicted_bubble_s"] < found["plain_bubble_s"]
    own, plain = map(said_time, (found["run"]["bubble_s"], found["plain_bubble_s"]))
    assert found["verdict"].startswith(f"4 stages stand still for {own} of a step")
    assert found["verdict"].endswith(f"and 2 virtual stages; plain 1F1B would have {plain}")


OWN = [
    ({"schedule": "interleaved", "virtual_stages": 2}, {"forward", "backward"}, 2, 0.05),
    ({"schedule": "zero_bubble"}, {"forward", "input", "weight"}, 1, 0.1),
    ({"schedule": "dualpipe"}, {"forward", "backward", "input", "weight"}, 1, 0.1),
    ({"schedule": "dualpipe_v"}, {"forward", "backward", "input", "weight"}, 2, 0.1),
]


@pytest.mark.parametrize(("layout", "kinds", "virtual", "within"), OWN)
def test_the_schedule_of_the_run_is_drawn(layout, kinds, virtual, within):
    """Bubbles of the prediction are those of the papers, for stages of equal length."""
    run = small(tp=4, pp=4, balanced_stages=True, **layout)
    found = pipeline(AskedPipeline.model_validate({"run": run}))
    assert found["schedule"] == found["run"]["schedule"]
    assert {which for _, which, *_ in found["slots"]} == kinds
    assert {part for *_, part in found["slots"]} == set(range(virtual))
    assert {micro for _, _, micro, *_ in found["slots"]} == set(range(found["drawn"]))
    busy_s = max(f + b for f, b in zip(found["forward_s"], found["backward_s"], strict=True))
    expected = found["drawn"] * busy_s + found["predicted_bubble_s"]
    assert found["span_s"] == pytest.approx(expected, rel=within)
    assert "as drawn" not in found["verdict"]


@pytest.mark.parametrize(
    "layout", [{"schedule": "zero_bubble_v"}, {"schedule": "dualpipe", "global_batch": 8}]
)
def test_a_schedule_without_an_order_is_drawn_as_plain(layout):
    found = pipeline(AskedPipeline.model_validate({"run": small(tp=4, pp=4, **layout)}))
    assert found["schedule"] == "1f1b" != found["run"]["schedule"]
    assert "plain 1F1B, as drawn, would have" in found["verdict"]


@pytest.mark.parametrize("path", ["step", "step/collective", "step/pipeline"])
def test_routes_answer_and_refuse(client, run, path):
    answer = client.post(f"/api/{path}", json={"run": run})
    assert answer.status_code == 200
    assert answer.json()["verdict"]
    wrong = client.post(f"/api/{path}", json={"run": {**run, "layout": {"tp": 7}}})
    assert wrong.status_code == 422
    assert "layout.tp" in {problem["where"] for problem in wrong.json()["problems"]}


@pytest.mark.parametrize(
    "more", [{"slow": 6}, {"slow": 0.5}, {"workers": 99}, {"worker": 0}, {"mode": "x"}, {"a": 1}]
)
def test_what_is_out_of_bounds_is_refused(client, run, more):
    answer = client.post("/api/step", json={"run": run, **more})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["where"] == next(iter(more))


def test_every_layer_of_a_hybrid_has_its_number():
    found = team(small() | {"model": "nemotron-h-8b"})
    forward = [one for one in found["chunks"] if one["part"] == "forward" and one["first"]]
    numbers = [n for one in forward for n in range(one["first"], one["last"] + 1)]
    assert sorted(numbers) == list(range(1, 53))
