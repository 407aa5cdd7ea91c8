"""An encoder in front of a model: what goes together, and its parameters."""

from typing import Any

import pytest
from pydantic import ValidationError

from syncwall.describe import Model, Run
from tests.describe.samples import MODEL, cluster

TOWER: dict[str, Any] = {
    "layers": 24,
    "hidden": 1024,
    "patches": {"image": 336, "size": 14},
    "attention": {"heads": 16, "causal": False},
    "mlp": {"hidden": 4096, "gated": False},
    "norm": {"kind": "layer"},
    "frozen": True,
    "projector": {"hidden": 4096},
}
CROSS: dict[str, Any] = {
    "layers": 12,
    "hidden": 4096,
    "attention": {"heads": 32, "causal": False},
    "mlp": {"hidden": 11008},
    "train_seq": 1024,
}


def seeing(**changes: Any) -> Model:
    """A decoder with a vision tower in front."""
    return Model.model_validate(MODEL | {"encoder": TOWER | changes})


def crossed(**changes: Any) -> Model:
    """A decoder that attends to an encoder."""
    attention = MODEL["attention"] | {"cross": True}
    return Model.model_validate(MODEL | {"attention": attention, "encoder": CROSS | changes})


def test_parameters_are_those_of_both_and_of_the_projector():
    model, plain = seeing(), Model.model_validate(MODEL)
    assert model.encoder is not None
    projector = 4096 * (1024 + 1) + 4096 * (4096 + 1)
    assert model.parameters == plain.parameters + model.encoder.parameters + projector
    assert model.parameter_count.encoder == model.encoder.parameters + projector


def test_merged_tokens_make_a_wider_projector():
    one, four = (seeing(projector={"merge": merge, "bias": False}) for merge in (1, 4))
    assert four.parameters - one.parameters == 3 * 1024 * 4096


def test_cross_attention_doubles_that_of_a_layer():
    plain, model = Model.model_validate(MODEL), crossed()
    assert model.parameter_count.attention == 2 * plain.parameter_count.attention


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"attention": {"heads": 32, "cross": True}}, "needs an `encoder`"),
        ({"encoder": TOWER | {"projector": None}}, "either attention.cross behind it or a projec"),
        ({"encoder": CROSS | {"train_seq": None, "projector": {}}}, "an encoder needs `train_seq`"),
        ({"encoder": TOWER | {"classes": 10}}, "no cross-attention and no head"),
    ],
)
def test_what_does_not_go_together_is_refused(fields, says):
    with pytest.raises(ValidationError, match=says):
        Model.model_validate(MODEL | fields)


@pytest.mark.parametrize("axis", ["pp", "cp"])
def test_pipelines_and_context_ranks_are_refused(axis):
    with pytest.raises(ValidationError, match="with an encoder in front is described without it"):
        Run(model=crossed(), cluster=cluster(), layout={axis: 2})
