"""Groups of layouts, picks among them, and rank correlation."""

from dataclasses import replace

import numpy as np
import pytest
from bench.accuracy.ranking import (
    Group,
    Ranking,
    by_expected_time,
    by_fitting_time,
    by_time,
    degraded,
    groups_of,
)
from hypothesis import given
from hypothesis import strategies as st

from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import case_of
from syncwall.validate.table import RowUse
from tests.validate.samples import row


def measured(*seconds: float, **cells: str) -> list[ValidatedRun]:
    """A run for each time, with micro batches 1, 2, 4 ..."""
    rows = [row(id=f"run-{i}", mbs=str(2**i), step_time_s=str(s), **cells) for i, s in enumerate(seconds)]
    return outcomes([case_of(one) for one in rows])


def predicted(found: list[ValidatedRun], *seconds: float) -> list[ValidatedRun]:
    return [replace(one, step_s=s) for one, s in zip(found, seconds, strict=True)]


def test_the_first_pick_is_the_one_predicted_to_be_fastest():
    group = Group(predicted(measured(4.0, 2.0, 3.0), 1.0, 3.0, 2.0))
    assert group.reached(by_time) == pytest.approx(2.0 / 4.0)
    assert group.reached(by_time, 2) == pytest.approx(2.0 / 3.0)
    assert group.reached(by_time, 3) == 1
    assert group.correlation(by_time) == pytest.approx(-1.0)


def test_rows_of_another_batch_or_too_few_are_no_group():
    found = measured(1.0, 2.0, 3.0) + measured(1.0, 2.0, gbs="128")
    assert [len(group.members) for group in groups_of(found, 3)] == [3]
    assert [len(group.members) for group in groups_of(found, 2)] == [3, 2]


def test_repeats_of_one_layout_are_no_choice():
    rows = [row(id=f"again-{i}", step_time_s=str(1 + i)) for i in range(3)]
    assert groups_of(outcomes([case_of(one) for one in rows]), 2) == []


def test_ties_do_not_follow_the_order_of_the_table():
    """With equal predictions, the fastest row is first only as often as by chance."""
    first = []
    for number in range(64):
        rows = [row(id=f"{number}-{i}", mbs=str(2**i), step_time_s=str(1.0 + i)) for i in range(4)]
        group = Group(predicted(outcomes([case_of(one) for one in rows]), 1.0, 1.0, 1.0, 1.0))
        first.append(group.ranked(by_time)[0] is group.best)
    assert 4 <= sum(first) <= 32


def test_what_does_not_fit_comes_last():
    found = measured(1.0, 2.0)
    found = [replace(found[0], memory_bytes=1e12), replace(found[1], memory_bytes=1e9)]
    assert [one.fits for one in found] == [False, True]
    group = Group(predicted(found, 1.0, 2.0))
    assert group.ranked(by_time)[0] is group.members[0]
    assert group.ranked(by_fitting_time)[0] is group.members[1]


def test_a_pipeline_that_may_stall_is_expected_to_take_longer():
    cells = {"framework": "nanotron", "gpus": "512", "gbs": "512", "tp": "2", "layers": "32"}
    plain, pipe = (case_of(row(id=f"pp{pp}", pp=str(pp), **cells)) for pp in (1, 2))
    for one in outcomes([plain, pipe]):
        assert by_expected_time(one) > by_fitting_time(one) == by_time(one)


def test_a_row_is_degraded_if_a_twin_needs_far_fewer_gpu_seconds():
    cells = {"tp": "2", "pp": "1", "mbs": "1"}
    rows = [
        row(id="good", gpus="16", step_time_s="4.0", **cells),
        row(id="fair", gpus="8", step_time_s="9.0", **cells),
        row(id="slow", gpus="16", step_time_s="6.5", gbs="64", **cells),
        row(id="few micro batches", gpus="16", step_time_s="1.5", gbs="16", **cells),
    ]
    assert degraded(outcomes([case_of(one) for one in rows])) == {"slow"}


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=8, unique=True), st.randoms())
def test_a_perfect_predictor_reaches_everything(seconds, random):
    places = {f"run-{i}": s for i, s in enumerate(seconds)}
    one = measured(1.0)[0]
    members = [
        replace(one, case=replace(one.case, row=row(id=name), measured_s=s), step_s=2 * s)
        for name, s in places.items()
    ]
    random.shuffle(members)
    found = Ranking.of([Group(members)], by_time)
    assert (found.first_median, found.first_p10, found.three_p10) == (1, 1, 1)
    assert found.correlation_median == pytest.approx(1.0)
    worst = Ranking.of([Group(members)], lambda one: -one.step_s)
    assert worst.first_median == pytest.approx(min(seconds) / max(seconds))
    assert worst.correlation_median == pytest.approx(-1.0)


def test_equal_values_share_their_rank_and_nothing_known_is_no_correlation():
    """Spearman's coefficient of (1, 2, 2) and (1, 2, 3) is the square root of 3/4."""
    group = Group(predicted(measured(1.0, 2.0, 3.0), 1.0, 2.0, 2.0))
    assert group.correlation(by_time) == pytest.approx(np.sqrt(0.75))
    assert group.correlation(lambda one: 1.0) == 0


def test_a_group_with_one_row_that_a_fit_may_read_counts_as_calibration():
    assert Group(measured(1.0, 2.0)).part is RowUse.STRUCTURE
    assert Group(measured(1.0, 2.0, source="internevo")).part is RowUse.CALIBRATION
