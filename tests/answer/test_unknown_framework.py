"""Software that nobody has described: half-way between compiled and eager, until a run says which."""

from math import sqrt
from typing import Any

import pytest

from syncwall.answer import Prediction, predict
from syncwall.cause import Cause
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Run, Software

EAGER = 3.0
"""Traffic and kernels without fusion over with it, as fitted (`calibration.ElementwiseFit`)."""


def predicted(framework: str = "unknown", kernels: str | None = None, model: str = "gpt2") -> Prediction:
    software: dict[str, Any] = {"framework": framework, "kernels": kernels}
    layout = Layout(micro_batch=8, shard="ddp", recompute="none")
    run = Run(model=model, cluster="dgx-a100", seq=1024, layout=layout, software=Software(**software))
    return predict(run)


def elementwise_s(prediction: Prediction) -> float:
    return float(prediction.ledger[Cause.ELEMENTWISE])


def test_its_constants_are_half_way_between_compiled_and_eager_software():
    unknown, compiled, eager = map(framework_or_default, ("unknown", "torchtitan", "pytorch"))
    between = sqrt(compiled.traffic * EAGER * eager.traffic)
    assert unknown.traffic == pytest.approx(between, rel=0.01)
    between_s = sqrt(compiled.host.per_operation_s * EAGER * eager.host.per_operation_s)
    assert unknown.host.per_operation_s == pytest.approx(between_s, rel=0.01)


def test_unsaid_kernels_are_between_fused_and_eager():
    fused, unsaid, eager = (elementwise_s(predicted(kernels=one)) for one in ("fused", None, "eager"))
    assert unsaid / fused == pytest.approx(sqrt(EAGER), rel=1e-6)
    assert eager / unsaid == pytest.approx(EAGER, rel=1e-6)


@pytest.mark.parametrize(("model", "least"), [("gpt2", 0.05), ("llama-3.2-1b", 0.05), ("llama-3.1-8b", 0.02)])
def test_the_switch_acts_on_the_step_the_more_the_narrower_the_model(model, least):
    fused, unsaid, eager = (predicted(kernels=one, model=model).step_s for one in ("fused", None, "eager"))
    assert fused < (1 - least) * unsaid
    assert unsaid < (1 - least) * eager


def test_between_compiled_and_eager_frameworks():
    compiled, eager = (elementwise_s(predicted(name)) for name in ("torchtitan", "pytorch"))
    assert compiled < elementwise_s(predicted()) < eager
    assert elementwise_s(predicted(kernels="fused")) < 1.1 * compiled
    assert elementwise_s(predicted(kernels="eager")) > eager


def test_the_switch_acts_on_memory():
    ways = ("fused", None, "eager")
    fused, unsaid, eager = (predicted(kernels=one, model="llama-3.2-1b").memory for one in ways)
    assert fused.logits == unsaid.logits / 2  # a fused loss has no 32-bit copy
    assert eager.logits == unsaid.logits
    assert fused.activations == unsaid.activations < eager.activations
    assert fused.total < unsaid.total < eager.total


def test_a_known_framework_is_as_fused_as_before():
    for name, factor in (("megatron-core", 1.0), ("pytorch", EAGER)):
        unsaid, fused = predicted(name), predicted(name, "fused")
        assert elementwise_s(unsaid) / elementwise_s(fused) == pytest.approx(factor, rel=1e-6)
