"""Spikes of a curve: found at once, once, and not in noise."""

from math import inf, nan

import numpy as np
import pytest

from syncwall.explain.loss_spikes import NORM_RULE, RULE, LossSeries, spikes
from syncwall.watch.events import FindingKind, StepRecord
from syncwall.watch.spikes import Curves, spike_finding


def curve(steps: int = 1000, deviation: float = 0.02, seed: int = 1):
    random = np.random.default_rng(seed)
    return 3.0 * np.exp(random.normal(0.0, deviation, steps))


def test_noise_and_a_falling_trend_are_no_spikes():
    falling = curve(3000) * (1 + 3 * np.exp(-np.arange(3000) / 300))
    assert spikes(falling) == []


@pytest.mark.parametrize("height", [0.5, 1.0, 5.0])
def test_a_jump_is_noticed_within_three_steps_and_told_once(height):
    values = curve()
    values[500:520] *= 1 + height
    (found,) = spikes(values)
    assert 500 <= found.step < 503
    assert found.since_step == 500
    assert found.usual == pytest.approx(3.0, rel=0.02)


def test_a_single_bad_batch_is_no_spike_unless_it_is_extreme():
    values = curve()
    values[500] *= 1.25
    assert spikes(values) == []
    values[500] *= 2
    assert [one.step for one in spikes(values)] == [500]


@pytest.mark.parametrize("value", [nan, inf])
def test_no_number_is_a_spike_at_once_even_in_the_first_step(value):
    assert [one.step for one in spikes([value, *curve(100)])] == [0]
    watched = LossSeries()
    assert [watched.add(step, 3.0) for step in range(5)] == [None] * 5
    spike = watched.add(5, value)
    assert spike is not None
    assert spike_finding(spike, "loss", 7.0).kind is FindingKind.LOSS_SPIKE
    assert "at step 5, usual 3" in spike_finding(spike, "loss", 7.0).evidence


def test_spikes_do_not_teach_what_is_usual():
    values = curve(2000)
    for at in range(500, 1500, 100):
        values[at : at + 20] *= 1.5
    assert len(spikes(values)) == 10


def test_a_curve_that_stays_where_it_jumped_to_is_told_once_and_then_usual():
    values = curve(3000)
    values[500:] *= 1.5
    values[2000:2010] *= 1.5
    assert [one.step for one in spikes(values)] == pytest.approx([501, 2001], abs=1)


def test_heavy_tails_raise_the_bar():
    random = np.random.default_rng(3)
    noise = random.standard_t(3, 20_000)
    heavy = 3.0 * np.exp(0.01 * noise)
    assert (0.01 * noise > 12 * RULE.least_spread).sum() >= 5, "12 deviations of the bulk happen"
    assert len(spikes(heavy)) <= 1


def test_the_bar_of_norms_is_raised_in_a_long_run():
    """Two steps 6.4 deviations above the trend: early they are a spike, after thousands they may come."""
    values = curve(6000)
    values[500:502] = values[5500:5502] = 3.0 * np.exp(0.02 * 6.4)
    assert {one.step // 100 for one in spikes(values)} == {5, 55}
    assert {one.step // 100 for one in spikes(values, rule=NORM_RULE)} <= {5}
    values[5500:5502] *= 1.5
    assert 55 in {one.step // 100 for one in spikes(values, rule=NORM_RULE)}


def test_a_loss_of_zero_is_not_judged_by_its_rounding():
    random = np.random.default_rng(5)
    values = 0.3 * np.exp(-np.arange(2000) / 40) + 1e-10 * np.exp(random.normal(0, 2, 2000))
    assert spikes(values) == []
    values[1500:1510] = 1e-3
    assert [one.step for one in spikes(values)] == [1500]


def test_the_steps_count_on_from_the_first():
    values = curve()
    values[500:520] *= 2
    assert spikes(values, first_step=7000)[0].step in (7500, 7501)


def test_a_spike_of_the_lowest_rank_is_a_finding_for_a_minute():
    values, curves = curve(), Curves()
    values[500:520] *= 2
    found = []
    for step, loss in enumerate(values):
        records = [StepRecord(rank, step, step, 1.0, {}, loss=loss * (1 + rank)) for rank in (0, 1)]
        found.append(curves.take(records, float(step)))
    first = next(one for one in found if one)
    assert [one.kind for one in first] == [FindingKind.LOSS_SPIKE]
    assert sum(map(bool, found)) == 60
