"""The interval of a prediction: what makes it wider, and what narrower."""

from dataclasses import replace
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
import pytest
from bench.fit.intervals import traits_of
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer import interval as module
from syncwall.answer.interval import (
    FAR,
    TABLE,
    Z80,
    PredictionInterval,
    interval,
    rare_traits,
    register_lines,
    uncertainties,
)
from syncwall.answer.prediction import predict
from syncwall.answer.site import Site, Traits
from syncwall.describe import Layout, Software, lookup
from syncwall.validate.table import organisation_of
from tests.answer.known_steps import USUAL, known
from tests.answer.runs import runs
from tests.answer.test_prediction import FSDP, run

traits = st.builds(
    Traits,
    architecture=st.sampled_from(["hopper", "ampere", "blackwell", "roadrunner"]),
    precision=st.sampled_from(["16", "8", "4"]),
    framework=st.sampled_from(["megatron-core", "nanotron", "torchtitan"]),
    experts=st.booleans(),
    frozen_weights=st.booleans(),
    calibrated=st.booleans(),
    used=st.tuples(*[st.booleans()] * 5),
    scale=st.tuples(st.floats(0, 6), st.floats(8, 13), st.floats(2, 6)),
)


@settings(max_examples=50)
@given(traits, st.integers(0, 8), st.floats(0, 1), st.floats(1e-3, 1e3))
def test_the_prediction_is_inside(one, count, waiting, seconds):
    low, high = interval(one, unsaid=count, waiting=waiting).around(seconds)
    assert 0 < low < seconds < high
    assert low * high == pytest.approx(seconds**2)


def test_it_holds_eighty_percent_of_a_normal_distribution():
    low, high = PredictionInterval(0.1, None, extrapolating=False).around(1.0)
    assert (log(low), log(high)) == pytest.approx((-0.1 * Z80, 0.1 * Z80))


@given(traits, st.integers(0, 8))
def test_everything_that_is_left_unsaid_makes_it_wider(one, count):
    few, more = (interval(one, unsaid=n).deviation for n in (count, count + 1))
    assert few < more


@given(traits, st.floats(0, 0.9))
def test_a_step_that_waits_more_is_less_sure(one, waiting):
    less, more = (interval(one, waiting=share).deviation for share in (waiting, waiting + 0.1))
    assert less < more


@given(traits)
def test_an_uncalibrated_device_makes_it_wider(one):
    known, unknown = (interval(replace(one, calibrated=c)).deviation for c in (True, False))
    assert known < unknown


NOTHING: dict[str, Any] = {"waiting": 0.1, "unsaid": 0, "distance": 1.0, "extrapolating": False, "rare": 0}


@given(traits)
def test_experts_make_it_wider(one):
    found = [uncertainties(replace(one, experts=e), **NOTHING) for e in (False, True)]
    dense, sparse = (sum(module._weights("")[n] * v for n, v in each.items()) for each in found)
    assert dense < sparse


def test_what_few_organisations_have_makes_it_wider_and_is_named():
    assert not rare_traits(USUAL)
    stranger = replace(USUAL, architecture="roadrunner", framework="nobodys")
    assert rare_traits(stranger) == ["roadrunner devices", "nobodys"]
    found = interval(stranger, waiting=0.3)
    assert found.deviation > interval(USUAL, waiting=0.3).deviation
    reasons = " ".join(found.reasons)
    assert "30% of the step waits" in reasons
    assert "few organisations published runs with roadrunner devices and nobodys" in reasons


def test_the_reasons_begin_with_the_largest():
    found = interval(replace(USUAL, calibrated=False), waiting=1.0).reasons
    assert found[0].startswith("100% of the step waits")
    assert "no kernel of this device was measured" in found


def test_one_organisation_alone_does_not_make_a_kind_known():
    line = next(one for one in register_lines() if one["part"] != "judge")
    with_it, without = (
        len(rare_traits(traits_of(line), without=owner)) for owner in ("", line["organisation"])
    )
    assert with_it <= without


@given(traits, st.integers(0, 5))
def test_every_known_run_makes_it_narrower(one, count):
    sites = [Site((known(1.1),) * n) for n in range(4)]
    widths = [interval(one, unsaid=count, site=site).deviation for site in sites]
    assert all(more < few for few, more in pairwise(widths))


@given(traits, st.sampled_from(["framework", "architecture", "precision"]))
def test_a_word_that_nobody_used_is_farther_from_every_run(one, word):
    table = module._table()
    assert table is not None
    stranger = replace(one, **{word: "nobody's"})
    assert np.all(table.distances(stranger) >= table.distances(one))


def test_far_from_every_run_is_an_extrapolation():
    assert not interval(USUAL).extrapolating
    far = interval(replace(USUAL, scale=(2.0 + 3 * FAR, 10.0, 4.0 + 3 * FAR)))
    assert far.extrapolating
    assert far.nearest is not None
    assert far.nearest.distance > FAR


def test_an_organisation_can_be_left_out():
    nearest = interval(USUAL).nearest
    assert nearest is not None
    other = interval(USUAL, without=organisation_of(nearest.source)).nearest
    assert other is not None
    assert organisation_of(other.source) != organisation_of(nearest.source)
    assert other.distance >= nearest.distance


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"scale": (6.0, 10.0, 4.0)}, "eight times the GPUs of any validated run"),
        ({"scale": (2.0, 14.0, 4.0)}, "a hundred trillion parameters"),
        ({"scale": (2.0, 10.0, 7.2)}, "sequences of three million tokens"),
        ({"architecture": "trainium2"}, "an architecture that nobody validated"),
    ],
)
def test_beyond_all_validated_runs_is_an_extrapolation(change, why):
    found = interval(replace(USUAL, **change))
    assert found.extrapolating, why
    assert found.deviation > interval(USUAL).deviation


def test_an_organisation_is_tested_with_weights_that_it_did_not_teach():
    known = module._widths()
    name = next(iter(known["without"]))
    assert module._weights(name) is known["without"][name]
    assert module._weights("somebody") is known["all"]
    assert set(known["all"]) == set(uncertainties(USUAL, **NOTHING))
    assert all(weight >= 0 for weight in known["all"].values())


def test_without_a_table_it_is_wide_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "_table", lambda: None)
    found = interval(USUAL)
    assert found.extrapolating
    assert found.nearest is None
    assert found.deviation > 0.2


def test_a_file_that_is_not_there_is_no_table(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "TABLE", tmp_path / TABLE.name)
    assert module._residuals.__wrapped__() == []


@settings(max_examples=25)
@given(runs())
def test_traits_are_those_of_the_run(one):
    run = sw.predict(one).run
    found = Traits.of(run.model, run.cluster, run.layout, run.software, run.seq)
    assert found.experts == (run.model.moe is not None)
    assert found.used[0] == (run.layout.tp > 1)
    assert found.used[-1] == (run.layout.shard == 3)
    taken_over = ("mi300x-8", "aws-p4d", "baskerville", "isambard-ai")  # numbers of another device
    assert found.calibrated == (run.cluster.name not in taken_over)
    assert 2 ** (3 * found.scale[0]) == pytest.approx(run.gpus)


@pytest.mark.parametrize(("precision", "bits"), [("bf16", "16"), ("fp8", "8"), ("mxfp8", "8")])
def test_precisions_are_told_apart_by_their_bits(precision, bits):
    layout = Layout(precision=precision).resolved(8)
    model, machine = lookup.model("llama-3.1-8b"), lookup.cluster("dgx-h100")
    assert Traits.of(model, machine, layout, Software(), 8192).precision == bits


def test_a_prediction_with_less_open_is_surer():
    vague = predict(run(**FSDP))
    clear = predict(vague.run)
    assert set(clear.assumed) < set(vague.assumed)
    assert clear.interval.deviation < vague.interval.deviation
