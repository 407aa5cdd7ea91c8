"""What would explain that a run is not as fast as predicted."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.gap import SUSPECTS, UNPRICED, Gap, gap, gap_of, is_wrong
from syncwall.answer.prediction import Prediction
from syncwall.catalogue import BUILT_IN
from syncwall.describe import Layout, Run, Software
from syncwall.describe.run import MeasuredSpeed
from syncwall.documents import read_document
from tests.answer.runs import runs

FSDP: dict[str, Any] = {"shard": "fsdp", "micro_batch": 1, "global_batch": 256, "recompute": "none"}


@cache
def predicted(framework: str = "torchtitan", nodes: int = 16) -> Prediction:
    run = Run(
        model="llama-3.1-8b",
        cluster="dgx-h100",
        nodes=nodes,
        layout=Layout.model_validate(FSDP),
        software=Software(framework=framework),
    )
    return sw.predict(run)


def measured(times: float) -> Gap:
    found = predicted()
    return gap(found, MeasuredSpeed(step_s=found.step_s * times))


@settings(max_examples=4, deadline=None)
@given(runs(), st.sampled_from([0.6, 1.25, 2.0, 20.0]))
def test_the_price_of_a_suspect_is_the_prediction_of_its_run(run, times):
    prediction = sw.predict(run)
    found = gap(prediction, MeasuredSpeed(step_s=prediction.step_s * times))
    for one in found.suspects:
        assert one.run is not None
        assert sw.predict(one.run).step_s == one.step_s
        assert 0 < found.explained(one) < float("inf")  # it goes the way of the gap


def test_every_suspect_has_its_words_and_every_word_its_suspect():
    table = read_document(BUILT_IN / "validation" / "suspects.yaml").value
    assert set(table) == {*SUSPECTS, *UNPRICED}
    for one in table.values():
        assert set(one) == {"what", "often", "seen", "tell"}
        assert one["often"] in (1, 2, 3)


@pytest.mark.parametrize("key", ["tcp", "kernels", "recompute", "power", "overlap", "adapters"])
def test_a_gap_of_its_own_size_makes_a_thing_a_suspect(key):
    """The step that a change is predicted to take, given as measured, is explained by it wholly."""
    found = next(one for one in measured(1.3).suspects if one.key == key)
    again = gap(predicted(), MeasuredSpeed(step_s=found.step_s))
    mine = next(one for one in again.suspects if one.key == key)
    assert mine.detail == found.detail or again.explained(mine) == pytest.approx(1, abs=0.2)


def test_a_step_many_times_too_long_is_the_network():
    found = measured(25)
    assert found.is_wrong
    assert found.suspects[0].key == "tcp"
    assert "adapter" in found.suspects[0].detail


def test_on_one_node_no_adapter_is_suspected():
    alone = predicted(nodes=1)
    keys = {one.key for one in gap(alone, MeasuredSpeed(step_s=alone.step_s * 3)).suspects}
    assert not keys & {"tcp", "adapters", "gpu-direct"}
    assert "power" in keys


def test_faster_than_predicted_is_explained_by_what_is_faster():
    found = measured(0.6)
    assert found.suspects[0].key in ("precision", "no-accumulation")
    assert all(one.step_s < found.predicted.step_s for one in found.suspects)
    assert found.unpriced == ()


@pytest.mark.parametrize(
    ("times", "usual", "wrong"),
    [
        (1.05, True, False),
        (0.95, True, False),
        (1.29, False, False),
        (1.31, False, True),
        (0.76, False, True),
    ],
)
def test_from_thirty_percent_on_description_or_machine_is_wrong(times, usual, wrong):
    found = measured(times)
    assert (found.is_usual, found.is_wrong) == (usual, wrong)
    assert is_wrong(times) == wrong
    assert ("description or machine is wrong" in str(found)) == wrong
    assert ("nothing to explain" in str(found)) == usual


def test_what_could_not_run_is_no_suspect():
    """With scores of every head kept, or twice the micro batch, 131,072 tokens do not fit."""
    layout = Layout.model_validate({"shard": "fsdp", "cp": 4, "recompute": "full"})
    run = Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1, layout=layout, seq=131072)
    found = sw.gap(run, "100 tok/s/gpu")
    assert all("unfused" not in one.detail for one in found.suspects)


def test_a_run_that_says_how_fast_it_was_is_explained_by_itself():
    run = predicted().run.model_copy(update={"measured": MeasuredSpeed(tokens_per_s_per_gpu=300)})
    found = gap_of(sw.predict(run))
    assert found is not None
    assert found.suspects[0].key == sw.gap(predicted(), "300 tok/s/gpu").suspects[0].key
    assert gap_of(predicted()) is None
    record = sw.predict(run).to_dict()["gap"]
    assert record["measured_s"] == pytest.approx(found.measured_s)
    assert [one["key"] for one in record["suspects"]] == [one.key for one in found.suspects]
    assert {one["key"] for one in record["unpriced"]} == set(UNPRICED)


def test_launches_that_block_cost_what_the_host_takes():
    """CUDA_LAUNCH_BLOCKING=1 adds the time to issue kernels to that of the kernels."""
    run = predicted().run
    blocking = run.software.model_copy(update={"launch_blocking": True})
    slower = sw.predict(run.model_copy(update={"software": blocking}))
    assert slower.step_s > predicted().step_s
    assert slower.ledger["host"] > predicted().ledger["host"]
    assert sum(slower.ledger.values()) == pytest.approx(slower.step_s)


def test_a_gap_of_a_third_starts_with_the_machine_the_data_and_compilation():
    """5,100 instead of 7,600 tokens/s/GPU with torchtitan: what happens there, likeliest first."""
    layout = Layout.model_validate({"shard": "fsdp", "micro_batch": 1, "recompute": "operations"})
    software = Software(framework="torchtitan")
    run = Run(model="llama-3.1-8b", cluster="dgx-h100", gpus=64, layout=layout, software=software)
    found = sw.gap(run, 5100)
    assert {one.key for one in found.ranked[:4]} == {"slow-rank", "data", "kernels", "power"}
    chances = [one.probability for one in found.ranked]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) < 1
    screen = str(found)
    assert f"{found.ranked[0].probability:.0%} likely" in screen
    assert "Tell" not in screen


@pytest.mark.parametrize(
    ("framework", "unfused", "eager"),
    [("torchtitan", False, True), ("megatron-core", False, False), ("pytorch", True, False)],
)
def test_suspects_are_possible_in_their_framework(framework, unfused, eager):
    """FlashAttention cannot be left out of torchtitan; kernels of Megatron do not need torch.compile."""
    run = predicted(framework).run
    details = {detail for key in ("attention", "kernels") for detail, _ in SUSPECTS[key](run)}
    assert ("attention unfused" in details) == unfused
    assert ("kernels eager" in details) == eager


def test_what_contradicts_the_description_is_less_likely_than_what_was_left_open():
    def chance(**layout: Any) -> float:
        layouts = Layout.model_validate({"shard": "fsdp", "micro_batch": 1, **layout})
        run = Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=8, layout=layouts)
        found = sw.predict(run)
        seen = gap(found, MeasuredSpeed(step_s=found.step_s * 1.3)).suspects
        assert found.run.layout.recompute.text == "none"
        return next(one.probability for one in seen if one.key == "recompute")

    assert chance(recompute="none") < chance()


def test_the_exit_code_is_that_of_the_gap():
    found = predicted()
    for times, code in ((1.0, 0), (0.99, 0), (20.0, 1), (0.05, 1)):
        run = found.run.model_copy(update={"measured": MeasuredSpeed(step_s=found.step_s * times)})
        assert sw.predict(run).exit_code == code
    between = next(one for one in (measured(1 + 0.01 * n) for n in range(100)) if not one.is_usual)
    assert between.exit_code == (1 if between.is_wrong else 3)
