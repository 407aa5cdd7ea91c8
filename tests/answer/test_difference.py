"""Two predictions beside each other, and whether they can be told apart."""

from math import hypot

import pytest
from bench.fit.intervals import pairs
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.difference import (
    ALIKE,
    Ratio,
    is_same_setup,
    ledger_difference,
    step_deviation,
)
from syncwall.answer.interval import Z80
from syncwall.answer.prediction import predict
from tests.answer.known_steps import known
from tests.answer.test_prediction import FSDP, run

amounts = st.floats(1e-6, 1e15)


@given(amounts, amounts, st.floats(0.01, 1.0))
def test_the_other_way_round_it_is_the_same_with_the_other_sign(before, after, deviation):
    one, back = Ratio(before, after, deviation), Ratio(after, before, deviation)
    assert (back.difference, back.logarithm) == (-one.difference, -one.logarithm)
    assert back.is_told_apart == one.is_told_apart
    assert back.probability == pytest.approx(1 - one.probability)
    assert back.interval == pytest.approx((1 / one.interval[1], 1 / one.interval[0]))


@given(amounts, amounts, st.floats(0.01, 1.0))
def test_it_is_told_apart_if_one_lies_outside_of_the_interval(before, after, deviation):
    one = Ratio(before, after, deviation)
    low, high = one.interval
    if abs(abs(one.logarithm) - Z80 * deviation) > 1e-9:
        assert one.is_told_apart == (not low <= 1 <= high)
        assert one.is_told_apart == (max(one.probability, 1 - one.probability) > 0.90001)


@given(amounts, st.floats(0.0, 1.0))
def test_the_same_cannot_be_told_apart(amount, deviation):
    one = Ratio(amount, amount, deviation)
    assert (one.difference, one.value, one.probability) == (0.0, 1.0, 0.5)
    assert not one.is_told_apart


def test_runs_of_one_setup_share_most_of_their_error():
    one, other = predict(run(**FSDP)), predict(run(**FSDP, tp=2))
    independent = hypot(one.interval.deviation, other.interval.deviation)
    assert is_same_setup(one, other)
    assert step_deviation(one, other) == pytest.approx(ALIKE * independent)


@pytest.mark.parametrize(
    "changed", [{"cluster": "dgx-a100"}, {"cluster": "dgx-h200"}, {"model": "llama-3.1-70b"}]
)
def test_runs_of_other_models_and_machines_share_none(changed):
    fields = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 4, "layout": FSDP}
    one, other = (predict(sw.Run(**given)) for given in (fields, {**fields, **changed}))
    independent = hypot(one.interval.deviation, other.interval.deviation)
    assert not is_same_setup(one, other)
    assert step_deviation(one, other) == independent


def test_what_known_runs_have_taken_away_is_not_taken_away_again():
    site = sw.Site((known(1.1),))
    one, other = (predict(run(**FSDP, tp=tp), site=site) for tp in (1, 2))
    assert one.site.known
    independent = hypot(one.interval.deviation, other.interval.deviation)
    assert step_deviation(one, other) == independent


def test_differences_of_causes_add_up_to_that_of_the_steps():
    one, other = predict(run(**FSDP)), predict(run(**FSDP, tp=8))
    found = ledger_difference(one, other)
    assert sum(found.values()) == pytest.approx(other.step_s - one.step_s)
    assert {c: -s for c, s in ledger_difference(other, one).items()} == found
    assert set(ledger_difference(one, one).values()) == {0.0}


@pytest.mark.slow
def test_doubts_cover_pairs_of_published_runs():
    """What is claimed of both kinds of pairs, computed again from the table of residuals."""
    found = pairs()
    assert max(found["one setup"].factors_without_one()) == ALIKE
    assert 0.75 <= found["one setup"].covered(ALIKE) <= 0.85
    for kind in ("another model or software", "another kind of device"):
        assert found[kind].covered() > 0.98  # too wide: their intervals are those of strangers
