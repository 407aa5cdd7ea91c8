"""What a user leaves open is filled in, listed, and nothing else changes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.answer import settled as module
from syncwall.answer.settled import settled
from syncwall.catalogue import Kind, names
from syncwall.cost.software import framework
from syncwall.describe import Layout, Run, Software
from syncwall.describe.framework_switches import switches
from syncwall.describe.layout import Recompute, Schedule
from syncwall.describe.rules import broken_rules
from tests.answer.test_prediction import FSDP, run

PIPELINE: dict[str, Any] = {"pp": 4, "tp": 4, "global_batch": 64}


@st.composite
def described(draw: Any) -> Run:
    """A run with any of its fields left open."""
    layout: dict[str, Any] = {"tp": draw(st.sampled_from([1, 2, 4])), "global_batch": 256}
    layout["pp"] = draw(st.sampled_from([1, 2, 4]))
    optional = {
        "micro_batch": st.sampled_from([1, 2]),
        "recompute": st.sampled_from(list(Recompute)),
        "schedule": st.sampled_from([Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE]),
        "precision": st.sampled_from(["bf16", "fp8"]),
        "shard": st.sampled_from(["ddp", "zero1", "fsdp"]),
        "virtual_stages": st.just(1),
    }
    for name, values in optional.items():
        if draw(st.booleans()):
            layout[name] = draw(values)
    software = {"framework": draw(st.sampled_from(names(Kind.FRAMEWORK)))}
    if draw(st.booleans()):
        software["date"] = "2024-03"
    model = draw(st.sampled_from(["llama-3.1-8b", "mixtral-8x7b"]))
    try:
        return Run(model=sw.model(model), cluster=sw.cluster("dgx-h100"), nodes=4,
                   layout=Layout.model_validate(layout), software=Software(**software))  # fmt: skip
    except ValidationError:
        assume(False)
        raise


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
@given(described())
def test_a_stated_field_stays_and_a_choice_is_possible_and_listed(one):
    found, assumed = settled(one)
    for name in one.layout.model_fields_set:
        assert getattr(found.layout, name) == getattr(one.layout, name), name
    changed = {
        name
        for name in Layout.model_fields
        if getattr(found.layout, name) != getattr(one.layout, name)
    }
    family = framework(one.software.framework)
    usual = set(switches(family, one.software.date, one.layout.shard))
    assert changed - {"schedule"} - usual <= set(assumed)
    assert ("schedule" in changed) <= ("virtual_stages" in assumed)
    assert not broken_rules(found.model, found.layout, found.seq, found.gpus)
    for name in ("micro_batch", "recompute", "precision"):
        assert name not in one.layout.model_fields_set or name not in assumed
    assert found.software == one.software
    assert ("date" in assumed) == ("date" not in one.software.model_fields_set)


@settings(max_examples=25, suppress_health_check=[HealthCheck.filter_too_much])
@given(described())
def test_settling_twice_changes_nothing_more(one):
    once, _ = settled(one)
    twice, left = settled(once)
    assert twice.layout == once.layout
    assert set(left) <= {"precision", "framework", "date", "micro_batch", "virtual_stages"}


def test_the_fastest_that_fits_is_taken():
    one = run(nodes=8, **PIPELINE)
    best = sw.predict(one)
    assert best.fits
    for change in ({"micro_batch": 1}, {"micro_batch": 2}, {"recompute": "full"}):
        other = sw.predict(run(nodes=8, **PIPELINE, **change))
        assert best.step_s <= other.step_s * (1 + 1e-9)


def test_a_stated_schedule_is_never_woven():
    found, assumed = settled(run(nodes=8, schedule="1f1b", **PIPELINE))
    assert found.layout.virtual_stages == 1
    assert found.layout.schedule == Schedule.ONE_F_ONE_B
    assert "virtual_stages" not in assumed


def test_an_open_schedule_may_be_woven_and_says_so():
    found, assumed = settled(run(nodes=8, **PIPELINE))
    assert assumed["virtual_stages"] == str(found.layout.virtual_stages)
    assert (found.layout.virtual_stages > 1) == (found.layout.schedule == Schedule.INTERLEAVED)


def test_the_only_choice_of_a_framework_is_taken(monkeypatch):
    usual = framework("pytorch").model_copy(update={"recompute": Recompute.FULL})
    monkeypatch.setattr(module, "framework", lambda name: usual)
    found, assumed = settled(run(micro_batch=1, global_batch=512, shard="fsdp"))
    assert found.layout.recompute == Recompute.FULL
    assert assumed["recompute"] == "full"


def test_one_pass_leaves_no_choice_of_micro_batch():
    found, assumed = settled(run(shard="fsdp"))
    assert found.layout.micro_batch == 1
    assert "micro_batch" not in assumed


@pytest.mark.parametrize("stated", [{"framework": "nanotron"}, {"date": "2024-03"}, {}])
def test_software_that_nobody_states_is_listed(stated):
    one = Run(model=sw.model("llama-3.1-8b"), cluster=sw.cluster("dgx-h100"),
              software=Software(**stated))  # fmt: skip
    _, assumed = settled(one)
    left = {name: assumed[name] for name in ("framework", "date") if name in assumed}
    usual = {"framework": "megatron-core", "date": "newest"}
    assert left == {name: value for name, value in usual.items() if name not in stated}


def test_a_named_framework_brings_its_switches_unless_they_are_stated():
    def overlaps(software: Software, **layout: object) -> bool:
        described = run(**{**FSDP, **layout}).model_copy(update={"software": software})
        return bool(settled(described)[0].layout.overlap_gradients)

    assert overlaps(Software())
    assert not overlaps(Software(framework="nanotron"))
    assert overlaps(Software(framework="nanotron"), overlap_gradients=True)
