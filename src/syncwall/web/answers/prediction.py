"""The numbers of the Predict page.

Holds `predicted` and `next_steps`.
"""

from typing import Any, Final

from syncwall.answer import Prediction
from syncwall.answer.improvements import improvements
from syncwall.describe import Run
from syncwall.describe.choice import Choice
from syncwall.show.prediction import assumed, evidence, why
from syncwall.web.answers.known import prediction_of
from syncwall.web.asked import AskedRun

_NEXT: Final = 5


def predicted(asked: AskedRun) -> dict[str, Any]:
    """Verdict, times, ledger, memory and what they rest on."""
    prediction = prediction_of(asked)
    run = prediction.run
    return prediction.to_dict() | {
        "why": why(prediction),
        "evidence": evidence(prediction),
        "assumed": assumed(prediction),
        "gpus": run.gpus,
        "nodes": run.nodes,
        "gpus_per_node": run.gpus_per_node,
        "seq": run.seq,
        "memory_size_bytes": float(run.cluster.device.memory.size_bytes),
        "model": run.model.title or run.model.name,
        "parameters": run.model.parameters,
        "cluster": run.cluster.title or run.cluster.name,
        "device": run.cluster.device.title or run.cluster.device.name,
        "layout": layout_fields(run),
    }


def next_steps(asked: AskedRun) -> dict[str, Any]:
    """Changes that help, each with the fields of the layout to set (null: leave open)."""
    prediction = prediction_of(asked)
    settled = _pinned(prediction)
    return {
        "step_s": prediction.step_s,
        "next": [
            {
                "change": one.change,
                "gained_s": one.gained_s,
                "memory_bytes": one.memory_bytes,
                "layout": settled | {name: plain(value) for name, value in one.fields.items()},
            }
            for one in improvements(prediction, _NEXT)
        ],
    }


def layout_fields(run: Run) -> dict[str, Any]:
    """Every field of the layout as a run file would write it."""
    fields = type(run.layout).model_fields
    return {field.alias or name: plain(getattr(run.layout, name)) for name, field in fields.items()}


def plain(value: Any) -> Any:
    """A field of a layout as text or a number."""
    if isinstance(value, Choice):
        return value.text
    return list(value) if isinstance(value, tuple) else value


def _pinned(prediction: Prediction) -> dict[str, Any]:
    """What was left open and then chosen; a change counts from there."""
    layout = prediction.run.layout
    names = [name for name in prediction.assumed if name in type(layout).model_fields]
    return {name: plain(getattr(layout, name)) for name in names}
