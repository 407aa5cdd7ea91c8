"""What a run states is never chosen otherwise, and what has nothing to act on changes nothing."""

from itertools import islice
from typing import Any

import pytest

from syncwall.answer import Prediction, predict
from syncwall.describe import Layout, Run, Software
from syncwall.describe.layout import ContextKind, Dispatcher, Schedule
from tests.describe.settings.runs import FRAMEWORKS, runs


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_is_stated_is_not_changed(name):
    for asked, prediction in islice(runs(name, seed=1), 60):
        done = prediction.run.layout
        for field in asked["layout"].model_fields_set:
            stated = getattr(asked["layout"], field)
            assert stated is None or getattr(done, field) == stated, (field, asked)


@pytest.mark.parametrize("schedule", [s for s in Schedule if s != Schedule.INTERLEAVED])
def test_a_stated_schedule_is_not_interleaved_for_speed(schedule):
    layout = Layout(pp=4, schedule=schedule, global_batch=64)
    run = Run(model="llama-3.1-8b", cluster="dgx-h100", layout=layout)
    done = predict(run).run.layout
    assert (done.schedule, done.virtual_stages) == (schedule, 1)


IDLE: dict[str, list[dict[str, Any]]] = {
    "pp": [
        *({"schedule": s} for s in Schedule if s != Schedule.INTERLEAVED),
        {"balanced_stages": True},
        {"balanced_stages": False},
        {"overlap_pp": False},
    ],
    "ep": [{"dispatcher": Dispatcher.DEEPEP}, {"overlap_ep": True}, {"ep_exposed_share": 0.9}],
    "tp": [
        {"overlap_tp": True},
        {"overlap_tp": False},
        {"async_tp": True},
        {"tp_exposed_share": 0.9},
    ],
    "cp": [{"cp_kind": kind} for kind in ContextKind],
}
"""Changes that mean something only if there are several ranks along an axis."""
OTHERS = {"tp": 2, "pp": 2, "cp": 2, "ep": 2}


def moe(framework: str, **fields: Any) -> Prediction:
    layout = Layout(**fields, global_batch=64, micro_batch=1, recompute="none", shard="fsdp")
    software = Software(framework=framework)
    return predict(Run(model="mixtral-8x7b", cluster="dgx-h100", nodes=2, layout=layout, software=software))


@pytest.mark.parametrize("framework", ["megatron-core", "torchtitan"])
@pytest.mark.parametrize(
    ("axis", "change"), [(axis, change) for axis, changes in IDLE.items() for change in changes]
)
def test_what_has_nothing_to_act_on_changes_nothing(axis, change, framework):
    fields = OTHERS | {axis: 1, "sp": axis != "tp"}
    plain, other = moe(framework, **fields), moe(framework, **fields, **change)
    assert other.step_s == pytest.approx(plain.step_s, rel=1e-9)
    assert other.memory.by_cause() == pytest.approx(plain.memory.by_cause(), rel=1e-9)
