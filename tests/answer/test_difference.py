"""Two predictions beside each other, and whether they can be told apart."""

from math import hypot

import pytest
from bench.fit.pairs import (
    BINS,
    CLOSE,
    FEWEST_ORGANISATIONS,
    calibration,
    coverage,
    excess,
    fitted,
    pairs,
    published_runs,
)
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.difference import (
    FLOOR,
    Ratio,
    ledger_difference,
    memory_deviation,
    shared_error,
    step_changed,
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


def independent(one, other):
    return hypot(one.interval.deviation, other.interval.deviation)


@pytest.mark.parametrize("changed", [{}, {"bucket_bytes": 1e8}])
def test_steps_in_which_nothing_differs_leave_no_doubt(changed):
    """A bucket of DDP under FSDP: 0.0% ± 0."""
    one, other = predict(run(**FSDP)), predict(run(**FSDP, **changed))
    assert step_changed(one, other) == 0.0
    assert step_deviation(one, other) == 0.0
    assert memory_deviation(one, other) == 0.0


def test_equal_steps_of_other_software_leave_some_doubt():
    months = (sw.Software(framework="pytorch", date=date) for date in ("2026-01", "2026-02"))
    fields = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 4, "layout": FSDP}
    runs = [sw.Run(**fields, software=software) for software in months]
    one, other = map(predict, runs)
    assert step_changed(one, other) == 0.0
    assert step_deviation(one, other) == pytest.approx(FLOOR * independent(one, other))


def test_the_more_of_a_step_differs_the_more_doubt_there_is():
    first = predict(run(**FSDP))
    others = sorted((predict(run(**FSDP, tp=tp)) for tp in (2, 4, 8)), key=lambda p: step_changed(first, p))
    shares = [step_deviation(first, other) / independent(first, other) for other in others]
    assert FLOOR < shares[0] < shares[1] < shares[2] < 1.0


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_doubt_grows_with_what_differs_up_to_that_of_independent_errors(one, other):
    low, high = sorted((one, other))
    assert FLOOR <= shared_error(low) <= shared_error(high) < shared_error(high, other_device=True) == 1.0


def test_a_batch_that_only_repeats_micro_batches_hardly_changes_a_step():
    """Steps are compared for a token: twice the micro batches are not twice the difference."""
    one, other = (predict(run(**(FSDP | {"global_batch": batch}))) for batch in (256, 512))
    assert step_changed(one, other) < 0.05


@pytest.mark.parametrize("cluster", ["dgx-a100", "dgx-h200"])
def test_runs_on_other_devices_share_none(cluster):
    fields = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 4, "layout": FSDP}
    one, other = (predict(sw.Run(**given)) for given in (fields, {**fields, "cluster": cluster}))
    assert step_deviation(one, other) == independent(one, other)


def test_what_known_runs_have_taken_away_is_not_taken_away_again():
    site = sw.Site((known(1.1),))
    one, other = (predict(run(**FSDP, tp=tp), site=site) for tp in (1, 2))
    alone, beside = (predict(run(**FSDP, tp=tp)) for tp in (1, 2))
    assert one.site.known
    anchored = step_deviation(one, other)
    assert anchored == pytest.approx(min(independent(one, other), step_deviation(alone, beside)), rel=0.05)
    assert anchored > shared_error(step_changed(one, other)) * independent(one, other)


def test_differences_of_causes_add_up_to_that_of_the_steps():
    one, other = predict(run(**FSDP)), predict(run(**FSDP, tp=8))
    found = ledger_difference(one, other)
    assert sum(found.values()) == pytest.approx(other.step_s - one.step_s)
    assert {c: -s for c, s in ledger_difference(other, one).items()} == found
    assert set(ledger_difference(one, one).values()) == {0.0}


@pytest.fixture(scope="module")
def published():
    first, known = pairs(published_runs())
    return first, fitted(first), known


@pytest.mark.slow
def test_doubts_cover_pairs_of_published_runs(published):
    """Of strangers, at first contact, by what other organisations say: neither less nor more."""
    first, fit, known = published
    assert 0.75 <= first.covered(fit.half_widths) <= 0.85
    for count, owners, covered in coverage(first, fit.half_widths).values():
        assert count >= 100
        assert owners < FEWEST_ORGANISATIONS or 0.68 <= covered <= 0.88
    assert excess(first) <= CLOSE  # the constants are those of the fit
    assert known.covered(known.half_widths()) > 0.9  # what fits have read is predicted better


@pytest.mark.slow
def test_how_sure_is_said_is_how_often_it_is_right(published):
    """What is predicted to be faster is at least as often as is said, and not much more often."""
    first, fit, _ = published
    found = calibration(first, fit.half_widths)
    assert len(found) == len(BINS) - 1
    for count, said, seen in found:
        assert count >= 100
        assert said - 0.03 <= seen <= said + 0.17
    assert found[-1][2] >= 0.97
