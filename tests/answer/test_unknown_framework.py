"""Software that nobody has described: half-way between compiled and eager, until a run says which."""

from math import sqrt
from typing import Any

import pytest

from syncwall.answer import Prediction, predict
from syncwall.cause import Cause
from syncwall.describe import Layout, Run, Software


def predicted(framework: str = "unknown", kernels: str | None = None, model: str = "gpt2") -> Prediction:
    software: dict[str, Any] = {"framework": framework, "kernels": kernels}
    layout = Layout(micro_batch=8, shard="ddp", recompute="none")
    run = Run(model=model, cluster="dgx-a100", seq=1024, layout=layout, software=Software(**software))
    return predict(run)


def elementwise_s(prediction: Prediction) -> float:
    return float(prediction.ledger[Cause.ELEMENTWISE])


@pytest.mark.parametrize("model", ["gpt2", "llama-3.2-1b"])
def test_unsaid_kernels_are_half_way_between_fused_and_eager(model):
    ways = ("fused", None, "eager")
    fused, unsaid, eager = (elementwise_s(predicted(kernels=one, model=model)) for one in ways)
    assert fused < unsaid < eager
    assert unsaid == pytest.approx(sqrt(fused * eager), rel=0.1)


@pytest.mark.parametrize(("model", "least"), [("gpt2", 0.05), ("llama-3.2-1b", 0.05), ("llama-3.1-8b", 0.02)])
def test_the_switch_acts_on_the_step_the_more_the_narrower_the_model(model, least):
    fused, unsaid, eager = (predicted(kernels=one, model=model).step_s for one in ("fused", None, "eager"))
    assert fused < (1 - least) * unsaid
    assert unsaid < (1 - least) * eager


def test_between_compiled_and_eager_frameworks():
    compiled, eager = (elementwise_s(predicted(name)) for name in ("torchtitan", "pytorch"))
    assert compiled < elementwise_s(predicted()) < eager
    assert elementwise_s(predicted(kernels="fused")) == pytest.approx(compiled, rel=0.1)
    assert elementwise_s(predicted(kernels="eager")) == pytest.approx(eager, rel=0.1)


def test_the_switch_acts_on_memory():
    ways = ("fused", None, "eager")
    fused, unsaid, eager = (predicted(kernels=one, model="llama-3.2-1b").memory for one in ways)
    assert fused.logits == unsaid.logits / 2  # a fused loss has no 32-bit copy
    assert eager.logits >= unsaid.logits
    assert fused.activations == unsaid.activations < eager.activations
    assert fused.total < unsaid.total < eager.total


def test_a_known_framework_is_as_fused_as_it_says():
    for name, kernels in (("megatron-core", "fused"), ("pytorch", "eager")):
        assert elementwise_s(predicted(name)) == elementwise_s(predicted(name, kernels))
