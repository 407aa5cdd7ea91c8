"""What a user leaves open is filled in, listed, and nothing else changes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.answer.settled import FASTEST, SettledRun, settle
from syncwall.catalogue import CatalogueKind, names
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Run, Software
from syncwall.describe.base import is_open
from syncwall.describe.layout import Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules
from syncwall.describe.software import switches
from tests.answer.test_prediction import FSDP, run

PIPELINE: dict[str, Any] = {"pp": 4, "tp": 4, "global_batch": 64}


def settled(run: Run) -> SettledRun:
    return settle(run, Pricing.of(run))


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
    software = {"framework": draw(st.sampled_from(names(CatalogueKind.FRAMEWORK)))}
    if draw(st.booleans()):
        software["date"] = "2024-03"
    model = draw(st.sampled_from(["llama-3.1-8b", "mixtral-8x7b"]))
    try:
        return Run(
            model=sw.model(model),
            cluster=sw.cluster("dgx-h100"),
            nodes=4,
            layout=Layout.model_validate(layout),
            software=Software(**software),
        )
    except ValidationError:
        assume(False)
        raise


FOLLOWING = ("recompute_layers", "recompute_modules")
"""Fields that are never open, but chosen with others or as the framework does if nobody states them."""
NONE_MEANS_SOMETHING = (
    "first_stage_layers",
    "last_stage_layers",
    "recompute_layers",
    "outer_every",
    "document_tokens",
    "reshard_after_forward",
    "gather_dtype",
    "lora",
    "images",
)
"""Fields of a layout that are never open: without a value they say that all is as usual."""


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
@given(described())
def test_a_stated_field_stays_and_a_choice_is_possible_and_listed(one):
    found = settled(one)
    layout, listed = found.run.layout, {each.field for each in found.chosen}
    for name in Layout.model_fields:
        if (
            name in ("recompute_layers", "recompute_modules", "sp", "shard_degree")
            and name not in one.layout.model_fields_set
        ):
            continue
        if not is_open(one.layout, name):
            assert getattr(layout, name) == getattr(one.layout, name), name
            assert name not in listed
        elif name not in NONE_MEANS_SOMETHING:
            assert not is_open(layout, name), name
    assert not broken_rules(found.run.model, layout, found.run.seq, found.run.gpus)
    family = framework_or_default(one.software.framework)
    usual = switches(family, one.software.date, layout.shard)
    for each in found.chosen:
        if each.follows and each.field in usual:
            alone = each.field in family.needs and not getattr(layout, family.needs[each.field])
            assert getattr(layout, each.field) == (False if alone else usual[each.field])
    assert found.run.software == one.software
    assert ("date" in found.guessed) == (one.software.date is None)


@settings(max_examples=25, suppress_health_check=[HealthCheck.filter_too_much])
@given(described())
def test_settling_twice_changes_nothing_more(one):
    once = settled(one)
    twice = settled(once.run)
    assert twice.run == once.run
    assert set(twice.guessed) <= {"date"}


def test_the_fastest_that_fits_is_taken():
    one = run(nodes=8, **PIPELINE)
    best = sw.predict(one)
    assert best.fits
    assert {each.why for each in best.chosen if each.field == "micro_batch"} == {FASTEST}
    for change in ({"micro_batch": 1}, {"micro_batch": 2}, {"recompute": "full"}):
        other = sw.predict(run(nodes=8, **PIPELINE, **change))
        assert best.step_s <= other.step_s * (1 + 1e-9)


@pytest.mark.parametrize(("framework", "shard"), [("megatron-core", Shard.ZERO1), ("torchtitan", Shard.FSDP)])
def test_of_equally_fast_shards_the_usual_one_is_taken_then_the_smallest(framework, shard):
    small = Run(
        model=sw.model("gpt2-xl"),
        cluster=sw.cluster("dgx-h100"),
        nodes=2,
        seq=1024,
        software=Software(framework=framework),
    )
    assert settled(small).run.layout.shard == shard


def test_a_stated_schedule_is_never_interleaved():
    found = settled(run(nodes=8, schedule="1f1b", **PIPELINE))
    assert found.run.layout.virtual_stages == 1
    assert found.run.layout.schedule == Schedule.ONE_F_ONE_B
    assert "virtual_stages" not in found.guessed


def test_stated_chunks_are_interleaved():
    assert settled(run(nodes=8, virtual_stages=2, **PIPELINE)).run.layout.schedule == (Schedule.INTERLEAVED)


def test_an_open_schedule_may_be_interleaved_and_says_so():
    found = settled(run(nodes=8, **PIPELINE))
    layout = found.run.layout
    assert found.guessed["virtual_stages"] == str(layout.virtual_stages)
    assert (layout.virtual_stages > 1) == (layout.schedule == Schedule.INTERLEAVED)


def test_one_pass_leaves_no_choice_of_micro_batch():
    found = settled(run(shard="fsdp"))
    assert found.run.layout.micro_batch == 1
    assert "micro_batch" not in found.guessed


@pytest.mark.parametrize("stated", [{"framework": "nanotron"}, {"date": "2024-03"}, {}])
def test_software_that_nobody_states_is_listed(stated):
    one = Run(model=sw.model("llama-3.1-8b"), cluster=sw.cluster("dgx-h100"), software=Software(**stated))
    assumed = settled(one).guessed
    left = {name: assumed[name] for name in ("framework", "date") if name in assumed}
    usual = {"framework": "megatron-core", "date": "newest"}
    assert left == {name: value for name, value in usual.items() if name not in stated}


def test_a_framework_that_is_taken_is_as_if_it_were_stated():
    left_open = sw.predict(run(nodes=8, **PIPELINE))
    stated = run(nodes=8, **PIPELINE).model_copy(update={"software": Software(framework="megatron-core")})
    assert sw.predict(stated).step_s == left_open.step_s


def test_a_framework_brings_its_switches_unless_they_are_stated():
    def overlaps(software: Software, **layout: object) -> bool:
        described = run(**{**FSDP, **layout}).model_copy(update={"software": software})
        return bool(settled(described).run.layout.overlap_gradients)

    assert overlaps(Software())
    assert not overlaps(Software(framework="nanotron"))
    assert overlaps(Software(framework="nanotron"), overlap_gradients=True)


@pytest.mark.parametrize(("cluster", "precision"), [("1xt4", "fp16"), ("dgx-2", "fp16"), ("1xl4", "bf16")])
def test_a_device_without_bf16_trains_in_fp16(cluster, precision):
    assert sw.predict(sw.Run(model="gpt2", cluster=cluster)).run.layout.precision == precision
