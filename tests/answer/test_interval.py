"""The interval of a prediction: what makes it wider, and what narrower."""

from dataclasses import replace
from itertools import pairwise
from math import log

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer import interval as module
from syncwall.answer.interval import FAR, SITE, TABLE, Z80, Interval, interval
from syncwall.answer.prediction import predict
from syncwall.answer.site import Site
from syncwall.answer.traits import Traits
from syncwall.describe import Layout, Software, lookup
from tests.answer.runs import runs
from tests.answer.test_prediction import FSDP, run

USUAL = Traits(
    architecture="hopper", precision="16", framework="megatron-core", experts=False, frozen=False,
    calibrated=True, used=(True, False, False, False, False), scale=(2.0, 10.0, 4.0),
)  # fmt: skip

traits = st.builds(
    Traits,
    architecture=st.sampled_from(["hopper", "ampere", "blackwell", "roadrunner"]),
    precision=st.sampled_from(["16", "8", "4"]),
    framework=st.sampled_from(["megatron-core", "nanotron", "torchtitan"]),
    experts=st.booleans(),
    frozen=st.booleans(),
    calibrated=st.booleans(),
    used=st.tuples(*[st.booleans()] * 5),
    scale=st.tuples(st.floats(0, 6), st.floats(8, 13), st.floats(2, 6)),
)


@pytest.fixture
def even_errors(monkeypatch):
    """A table in which every run is predicted equally wrong, by 10 %."""
    table = module._table()
    assert table is not None
    even = replace(table, errors=np.full(len(table.errors), log(1.1)))
    monkeypatch.setattr(module, "_table", lambda: even)
    return even


@settings(max_examples=50)
@given(traits, st.integers(0, 8), st.floats(1e-3, 1e3))
def test_the_prediction_is_inside(one, count, seconds):
    low, high = interval(one, open_fields=count).around(seconds)
    assert 0 < low < seconds < high
    assert low * high == pytest.approx(seconds**2)


def test_it_holds_eighty_percent_of_a_normal_distribution():
    low, high = Interval(0.1, None, extrapolating=False).around(1.0)
    assert (log(low), log(high)) == pytest.approx((-0.1 * Z80, 0.1 * Z80))


@given(traits, st.integers(0, 8))
def test_every_open_field_makes_it_wider(one, count):
    few, more = (interval(one, open_fields=n).deviation for n in (count, count + 1))
    assert few < more


@given(traits)
def test_an_uncalibrated_device_makes_it_wider(one):
    known, unknown = (interval(replace(one, calibrated=c)).deviation for c in (True, False))
    assert known < unknown


@given(traits, st.integers(0, 5))
def test_every_known_run_makes_it_narrower(one, count):
    widths = [interval(one, open_fields=count, site=Site((1.1,) * n)).deviation for n in range(4)]
    assert all(more < few for few, more in pairwise(widths))


@given(traits)
def test_it_is_never_narrower_than_sites_differ(one):
    assert interval(one).deviation >= SITE


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=traits, other=traits)
def test_farther_runs_are_less_sure_where_all_are_equally_wrong(even_errors, one, other):
    used = even_errors.calibrates
    distance = [float(even_errors.distances(each)[used].min()) for each in (one, other)]
    width = [interval(replace(each, calibrated=True)).deviation for each in (one, other)]
    assume(abs(distance[0] - distance[1]) > 1e-6)
    assert (distance[0] < distance[1]) == (width[0] < width[1])


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


def test_a_source_can_be_left_out():
    nearest = interval(USUAL).nearest
    assert nearest is not None
    other = interval(USUAL, without=nearest.source).nearest
    assert other is not None
    assert other.source != nearest.source
    assert other.distance >= nearest.distance


def test_held_out_runs_do_not_set_the_width(monkeypatch):
    table = module._table()
    assert table is not None
    before = interval(USUAL)
    spoiled = replace(table, errors=np.where(table.calibrates, table.errors, 9.0))
    monkeypatch.setattr(module, "_table", lambda: spoiled)
    assert interval(USUAL).deviation == before.deviation


def test_without_a_table_it_is_wide_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "_table", lambda: None)
    found = interval(USUAL)
    assert found.extrapolating
    assert found.nearest is None
    assert found.deviation > 0.2


def test_a_file_that_is_not_there_is_no_table(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "TABLE", tmp_path / TABLE.name)
    assert module._table.__wrapped__() is None


@settings(max_examples=25)
@given(runs())
def test_traits_are_those_of_the_run(one):
    run = sw.predict(one).run
    found = Traits.of(run.model, run.cluster, run.layout, run.software, run.seq)
    assert found.experts == (run.model.moe is not None)
    assert found.used[0] == (run.layout.tp > 1)
    assert found.used[-1] == (run.layout.shard == 3)
    assert found.calibrated == (run.cluster.name != "mi300x-8")
    assert 2 ** (3 * found.scale[0]) == pytest.approx(run.gpus)


@pytest.mark.parametrize(("precision", "bits"), [("bf16", "16"), ("fp8", "8"), ("mxfp8", "8")])
def test_precisions_are_told_apart_by_their_bits(precision, bits):
    layout = Layout(precision=precision).resolved(8)
    model, machine = lookup.model("llama-3.1-8b"), lookup.cluster("dgx-h100")
    assert Traits.of(model, machine, layout, Software(), 8192).precision == bits


def test_a_prediction_with_less_open_is_surer():
    vague, clear = predict(run(**FSDP)), predict(run(**FSDP, precision="bf16", recompute="none"))
    assert set(clear.assumed) < set(vague.assumed)
    assert clear.interval.deviation < vague.interval.deviation
