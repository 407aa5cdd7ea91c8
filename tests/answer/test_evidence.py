"""What a wait is blamed on: the collectives that take most of its time, not the longest call."""

from typing import Any

import pytest
from hypothesis import given, settings

import syncwall as sw
from syncwall.answer.evidence import Heaviest, heaviest
from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.describe import Layout, Run
from syncwall.show.prediction import why
from tests.answer.runs import runs


def predicted(model: str, nodes: int, cluster: str = "dgx-h100", **layout: Any) -> Prediction:
    fields = Layout.model_validate(layout)
    return sw.predict(Run(model=model, cluster=cluster, nodes=nodes, layout=fields))


def blamed(prediction: Prediction, cause: Cause) -> Heaviest:
    found = heaviest(prediction, cause)
    assert found is not None
    return found


@pytest.mark.parametrize("batches", [4, 8, 16])
def test_tensor_parallel_waits_are_those_of_the_layers(batches):
    """The embedding's sum takes as long as one of theirs, but is done once a micro batch."""
    found = predicted(
        "llama-3.1-70b",
        64,
        tp=8,
        sp=False,
        shard="zero1",
        recompute="none",
        micro_batch=1,
        global_batch=64 * batches,
        overlap_tp=False,
    )
    named = blamed(found, Cause.EXPOSED_TP)
    assert (named.of, named.block) == (("attention", "MLP"), "dense layer")
    assert (named.kind, named.ranks, named.domains) == ("all-reduce", 8, 1)
    assert named.calls == 80 * 4 * batches  # two forward and two backward
    assert named.bytes == 2 * 8192 * 8192
    assert named.each_s * named.calls == pytest.approx(named.total_s)
    said = f"{named.calls:,.0f} all-reduces of attention and MLP (dense layer), 128 MiB among 8"
    assert said in why(found)


def test_weights_are_gathered_forward_and_backward():
    found = predicted("llama-2-13b", 8, "gcp-a2", shard="fsdp", micro_batch=1, global_batch=128)
    named = blamed(found, Cause.EXPOSED_GATHER)
    assert (named.of, named.kind, named.ranks) == (("weights",), "all-gather", 64)
    assert named.calls == 2 * 40 * 2
    assert "all-gathers of weights (dense layer)" in why(found)


def test_buckets_are_single_calls():
    found = predicted("llama-3.1-8b", 8, shard="ddp", micro_batch=1, global_batch=64)
    named = blamed(found, Cause.EXPOSED_DP)
    assert named.bytes == pytest.approx(found.run.layout.bucket_bytes)
    assert "partly hidden" in why(found)


def test_waits_that_are_not_communication_have_no_collective():
    found = predicted("llama-3.1-8b", 1, shard="fsdp", global_batch=64)
    assert all(heaviest(found, cause) is None for cause in Cause if not cause.is_exposed)


@settings(max_examples=40, deadline=None)
@given(runs())
def test_no_operation_of_the_step_takes_longer_than_what_is_named(run):
    found = sw.predict(run)
    for cause in found.ledger:
        if cause.is_exposed and cause is not Cause.EXPOSED_PP:
            named = blamed(found, cause)
            for stage in found.work.stages:
                for block, times in stage.in_a_step(found.work.microbatches):
                    for operation in block.operations:
                        if operation.cause is cause and stage.ranks > 0:
                            seconds = float(found.prices.seconds(operation.what) * times)
                            assert seconds <= named.total_s * (1 + 1e-12)
