"""A first try of the same run, beside the tuned one that `predict` describes.

What nobody stated is taken as tuned runs of the framework have it; a first run usually has what the
framework does unless it is told otherwise. What data loading, logging, garbage collection and a
site's network add to a first run is in neither.
"""

from dataclasses import dataclass
from typing import Any

from syncwall.answer.prediction import Prediction
from syncwall.describe.choice import text_of
from syncwall.public import published


@published()
@dataclass(frozen=True, slots=True)
class FirstRun:
    """The same run with the defaults of its framework."""

    step_s: float
    """Predicted."""
    differences: dict[str, str]
    """Settings that nobody stated, as the framework has them by default."""


def first_run(prediction: Prediction) -> FirstRun | None:
    """The step with the framework's own defaults; None if they are what tuned runs have."""
    run, asked = prediction.run, prediction.settled.asked
    open_fields = {one.field for one in prediction.chosen}
    if asked.software.kernels is None:
        open_fields.add("kernels")
    defaults = prediction.prices.setting.framework.untuned
    found: dict[str, dict[str, Any]] = {"layout": {}, "software": {}}
    for field, value in defaults.items():
        part = "software" if field == "kernels" else "layout"
        if field in open_fields and getattr(getattr(run, part), field) != value:
            found[part][field] = value
    changed = {field: value for fields in found.values() for field, value in fields.items()}
    if not changed:
        return None
    parts = {name: getattr(run, name).model_copy(update=fields) for name, fields in found.items()}
    step_s = prediction.again(run.model_copy(update=parts)).step_s
    if step_s <= prediction.step_s:
        return None
    return FirstRun(step_s, {field: text_of(value) for field, value in changed.items()})
