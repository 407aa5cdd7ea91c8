"""Work and memory of layers that were counted elsewhere."""

from typing import Any

import numpy as np
import pytest

from syncwall.describe import Layout
from syncwall.work.block import StepPhase, Work
from syncwall.work.memory import step_memory
from syncwall.work.operations import Elementwise, Gemm
from syncwall.work.transformer_step import transformer_step
from tests.describe.test_stack import net

GPUS = 8
FLOPS, KEPT, TRAFFIC, PARAMETERS = 240.001e9, 444e6, 889e6, 21_000_007


def laid(**fields: Any) -> Layout:
    return Layout.model_validate({"micro_batch": 4, **fields}).resolved(GPUS)


def summed(work: Work, of: type, value: str) -> float:
    """In one rank and step."""
    (stage,) = [one for one in work.stages if one.ranks and one.parameters]
    return sum(
        float(times * getattr(operation.what, value))
        for block, times in stage.in_a_step(work.microbatches)
        for operation in block.operations
        if isinstance(operation.what, of) and operation.name != "optimizer"
    )


@pytest.mark.parametrize(("recompute", "passes"), [("none", 3), ("full", 4)])
def test_flops_are_those_stated_forward_and_twice_that_backward(recompute, passes):
    work = transformer_step(net(), laid(recompute=recompute), 1)
    assert summed(work, Gemm, "flops") == pytest.approx(passes * 4 * FLOPS)
    assert work.model_flops == pytest.approx(3 * 4 * GPUS * FLOPS)
    assert work.recompute_flops == pytest.approx((passes - 3) * 4 * GPUS * FLOPS)
    assert work.tokens == 4 * GPUS


def test_traffic_is_moved_as_stated_and_twice_in_fp32():
    narrow, wide = (
        summed(transformer_step(net(), laid(precision=one), 1), Elementwise, "bytes")
        for one in ("bf16", "fp32")
    )
    assert narrow == pytest.approx(3 * 4 * TRAFFIC)
    assert wide == pytest.approx(2 * narrow)


@pytest.mark.parametrize(("shard", "passes"), [("ddp", 0), ("fsdp", 2)])
def test_weights_are_gathered_and_gradients_summed_once(shard, passes):
    work = transformer_step(net(), laid(shard=shard), 1)
    sent: dict[str, float] = {}
    for operation, what, times in work.stages[-1].collectives(work.microbatches):
        if operation.phase != StepPhase.FINISH:
            sent[what.kind] = sent.get(what.kind, 0.0) + float(what.bytes * times)
    size = 2.0 * PARAMETERS
    assert sent.get("all-gather", 0.0) == pytest.approx(passes * size)
    reduced = sent["reduce-scatter" if passes else "all-reduce"]
    assert reduced == pytest.approx(PARAMETERS * laid(shard=shard).gradient_dtype.size_bytes)


def test_activations_are_those_stated():
    assert step_memory(net(), laid(), 1).activations == pytest.approx(4 * KEPT)
    assert step_memory(net(), laid(precision="fp32"), 1).activations == pytest.approx(8 * KEPT)


def test_recomputed_layers_keep_what_they_hand_on_and_one_is_whole():
    found = step_memory(net(), laid(recompute="full"), 1).activations
    assert found == pytest.approx(4 * (2 * 20e6 + 1e6 + (220e6 - 20e6)))


def test_what_a_layer_hands_on_may_be_kept_by_another():
    """A convolution keeps its input, and the norm behind it what it hands on."""
    stack = [{"name": "a", "parameters": 9, "flops": "1 GFLOP", "activations": "3 MB", "output": "8 MB"}]
    kept, again = (
        step_memory(net(stack=stack), laid(recompute=one), 1).activations for one in ("none", "full")
    )
    assert kept == pytest.approx(4 * 3e6)
    assert again == pytest.approx(4 * 8e6)


def test_states_are_shared_out():
    whole, shared = (step_memory(net(), laid(shard=one), 1) for one in ("ddp", "fsdp"))
    assert whole.weights == pytest.approx(GPUS * shared.weights)
    assert whole.logits == 0.0


def test_many_layouts_at_once_are_each_as_alone():
    micro = np.array([1, 2, 8])
    several = laid().model_copy(update={"micro_batch": micro, "global_batch": micro * GPUS})
    together = transformer_step(net(), several, 1)
    memory = step_memory(net(), several, 1).activations
    for index, count in enumerate(micro):
        alone = transformer_step(net(), laid(micro_batch=int(count)), 1)
        assert np.broadcast_to(together.model_flops, 3)[index] == pytest.approx(alone.model_flops)
        assert np.broadcast_to(memory, 3)[index] == pytest.approx(count * KEPT)
