"""FSDP inside a pipeline: weights are kept until the step ends, or gathered for every micro batch.

torchtitan's `fsdp_reshard_after_forward: default` keeps them where there is a pipeline, MaxText's
`pipeline_fsdp_ag_once: false` and Megatron's FSDP do not.
"""

from typing import Any

import pytest

from syncwall.answer import Prediction, predict
from syncwall.describe import Layout, Run, Software
from syncwall.work.block import Work

KEPT, GATHERED = ("torchtitan", "pytorch"), ("maxtext", "megatron-core", "megatron-bridge", "unknown")


def predicted(framework: str = "torchtitan", **fields: Any) -> Prediction:
    fields = {"pp": 4, "schedule": "1f1b", "shard": "fsdp", "recompute": "none", **fields}
    layout = Layout(micro_batch=1, global_batch=256, **fields)
    software = Software(framework=framework)
    return predict(Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=8, layout=layout, software=software))


def gathered_bytes(work: Work) -> float:
    """Weights that the last rank gathers in a step."""
    stage = work.stages[-1]
    found = (
        (what, float(times))
        for _, what, times in stage.collectives(work.microbatches)
        if what.kind == "all-gather" and what.axis == "shard"
    )
    return sum(float(what.bytes) * times for what, times in found)


def test_weights_are_gathered_once_a_step_or_for_both_passes_of_every_micro_batch():
    kept = predicted(reshard_after_forward=False)
    again = predicted(reshard_after_forward=True)
    held = 2.0 * float(kept.work.stages[-1].parameters)  # in 16 bits
    assert gathered_bytes(kept.work) == pytest.approx(held, rel=0.02)
    passes = 2 * kept.run.layout.microbatches
    assert gathered_bytes(again.work) == pytest.approx(passes * held, rel=0.02)
    assert again.step_s > 1.02 * kept.step_s


@pytest.mark.parametrize("framework", [*KEPT, *GATHERED])
def test_a_framework_does_what_its_default_says(framework):
    usual = predicted(framework)
    stated = predicted(framework, reshard_after_forward=framework in GATHERED)
    assert usual.step_s == stated.step_s
    assert usual.memory_by_cause == stated.memory_by_cause
    other = predicted(framework, reshard_after_forward=framework in KEPT)
    assert (other.step_s > usual.step_s) == (framework in KEPT)


def test_kept_weights_fill_memory_with_all_of_a_stage():
    kept, again = (predicted(reshard_after_forward=again).memory for again in (False, True))
    own = kept.weights / 4.0 * 16  # fp32, shared by 16 ranks
    assert kept.unsharded_weights == pytest.approx(2.0 * own * 15 / 16, rel=1e-6)
    assert again.unsharded_weights < 0.5 * kept.unsharded_weights
    assert again.weights == kept.weights


def test_copies_for_a_node_gather_inside_of_it():
    whole, few = predicted("maxtext"), predicted("maxtext", shard_degree=8)
    assert gathered_bytes(few.work) == pytest.approx(gathered_bytes(whole.work))
    assert whole.ledger.exposed_s - few.ledger.exposed_s > 0
    assert few.step_s < whole.step_s
    assert few.memory_bytes > whole.memory_bytes


def test_no_two_ways_to_share_take_equally_long_in_a_pipeline():
    ways: tuple[dict[str, Any], ...] = (
        {"shard": "ddp"},
        {"shard": "zero1"},
        {"shard": "fsdp"},
        {"shard": "fsdp", "shard_degree": 8},
    )
    steps = [predicted("megatron-core", **way).step_s for way in ways]
    assert all(abs(a / b - 1) > 1e-3 for i, a in enumerate(steps) for b in steps[:i])
    assert max(steps) == steps[2]  # all ranks share every gather
