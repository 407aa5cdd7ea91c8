import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats

from syncwall.job.job_plan import best_interval_s, daly_s, expected_s, slow_down, young_s


def test_without_failures_the_time_is_that_of_work_and_checkpoints():
    assert expected_s(10, 100.0, 5.0, 0.0, 60.0) == pytest.approx(1050.0)
    assert expected_s(10, 100.0, 5.0, 1e-12, 60.0) == pytest.approx(1050.0, rel=1e-6)


def test_the_equation_of_daly():
    """Daly 2006, equation 13: M exp(R / M) (exp((T + C) / M) - 1) a piece."""
    mean, restart, work, checkpoint = 5000.0, 400.0, 900.0, 60.0
    daly = mean * np.exp(restart / mean) * (np.exp((work + checkpoint) / mean) - 1)
    assert expected_s(7, work, checkpoint, 1 / mean, restart) == pytest.approx(7 * daly)


@pytest.mark.parametrize("ratio", [1e-4, 1e-5, 1e-6])
def test_young_and_daly_are_recovered_where_checkpoints_are_short(ratio):
    """Young 1974 within 1% of its limit C << M; Daly's higher order everywhere below it."""
    mean = 20_000.0
    blocking = ratio * mean
    best = best_interval_s(blocking, 1 / mean)
    assert best == pytest.approx(float(young_s(blocking, mean)), rel=0.01)
    assert best == pytest.approx(float(daly_s(blocking, mean)), rel=1e-4)


@given(floats(0.1, 500), floats(1000, 1e6))
def test_daly_is_within_one_percent_of_the_exact_optimum(blocking, mean):
    if blocking < 0.2 * mean:
        assert best_interval_s(blocking, 1 / mean) == pytest.approx(float(daly_s(blocking, mean)), rel=0.01)


@given(floats(0.1, 500), floats(1000, 1e6), floats(0.3, 3))
def test_no_other_interval_is_better(blocking, mean, factor):
    best = best_interval_s(blocking, 1 / mean)
    assert slow_down(best, blocking, 1 / mean, 600.0) <= slow_down(
        best * factor, blocking, 1 / mean, 600.0
    ) * (1 + 1e-9)


def test_a_checkpoint_waits_until_the_last_one_is_written():
    assert best_interval_s(0.01, 1e-4, written_s=500.0) == pytest.approx(500.0)


def test_without_failures_one_checkpoint_at_the_end_is_best():
    assert best_interval_s(10.0, 0.0, longest_s=777.0) == 777.0


def test_from_two_mean_times_on_daly_stays_at_the_mean():
    assert daly_s(300.0, 100.0) == 100.0
