"""Layers in bf16 among those in 8 or 4 bits."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.describe import Layout, Run
from syncwall.describe.choice import Dtype
from syncwall.work.layout_switches import WideCounts
from syncwall.work.operations import Gemm


def predicted(model: str = "llama-3.1-8b", precision: str = "fp8", **more: Any) -> Prediction:
    stated = {
        "precision": precision,
        "micro_batch": 1,
        "global_batch": 64,
        "recompute": "none",
        "shard": "zero1",
    } | more
    layout = Layout.model_validate(stated)
    return sw.predict(Run(model=sw.model(model), cluster=sw.cluster("dgx-b200"), nodes=4, layout=layout))


def rounds(found: Prediction, dtype: Dtype) -> float:
    """Layers of a rank, counted by their first multiplication."""
    return sum(
        float(block.rounds)
        for block in found.work.stages[-1].forward
        if block.name.endswith("layer") and block.name != "output layer"
        if next(op.what for op in block.operations if isinstance(op.what, Gemm)).dtype is dtype
    )


@pytest.mark.parametrize("precision", ["fp8", "mxfp8", "nvfp4"])
def test_all_layers_in_bf16_are_a_run_in_bf16(precision):
    """But for what the framework keeps, and how."""
    plain = predicted(precision="bf16")
    keeps = {name: getattr(plain.run.layout, name) for name in ("narrow_activations",)}
    every = predicted(precision=precision, first_layers_bf16=32, **keeps)
    assert every.step_s == pytest.approx(plain.step_s, rel=1e-9)
    assert rounds(every, Dtype.BF16) == 32


def test_each_layer_in_bf16_adds_its_own_time_and_memory():
    found = [predicted(first_layers_bf16=n, last_layers_bf16=n) for n in (0, 1, 4, 8)]
    steps, memory = [one.step_s for one in found], [one.memory.total for one in found]
    assert steps == sorted(steps)
    assert memory == sorted(memory)
    assert steps[0] < steps[1]
    each = [(one - steps[0]) / n for one, n in zip(steps[1:], (1, 4, 8), strict=True)]
    assert each == pytest.approx([each[0]] * 3, rel=0.02)


def test_only_narrow_runs_have_them():
    assert predicted(precision="bf16", last_layers_bf16=4).step_s == predicted(precision="bf16").step_s


def test_in_a_pipeline_they_stand_at_its_ends():
    plain = predicted(pp=4, virtual_stages=1)
    for end in ("first", "last"):
        more: dict[str, Any] = {f"{end}_layers_bf16": 2}
        one = predicted(pp=4, virtual_stages=1, **more)
        assert one.step_s > plain.step_s
    assert rounds(predicted(pp=4, virtual_stages=1, last_layers_bf16=2), Dtype.BF16) == 2


def test_leading_dense_layers_are_the_first():
    model = sw.model("deepseek-v3")
    layout = Layout(precision="fp8", first_layers_bf16=4, last_layers_bf16=2)
    dense, sparse = model.layer_kinds
    assert WideCounts.of(model, layout, dense) == WideCounts(3, 0)
    assert WideCounts.of(model, layout, sparse) == WideCounts(1, 2)
