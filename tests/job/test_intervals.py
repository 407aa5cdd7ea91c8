"""The checkpoint interval against the time that is left for work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.job.job_plan import Failure, JobPlan, best_interval_s, interval_curve, slow_down


def plan(blocking_s=20.0, per_s=1e-5, written_s=0.0, interval_s=3600.0):
    """A job of some weeks."""
    return JobPlan(
        work_s=3e6,
        blocking_s=blocking_s,
        written_s=written_s,
        interval_s=interval_s,
        causes=(Failure("node", per_s),),
        detection_s=600.0,
        restart_s=100.0,
    )


def drawn(one, best_s):
    """The curve, which this plan has."""
    curve = interval_curve(one, best_s)
    assert curve is not None
    return curve


@given(st.floats(0.1, 1e3), st.floats(1e-7, 1e-3), st.floats(0, 1e3))
def test_no_interval_is_better_than_the_best(blocking_s, per_s, written_s):
    one = plan(blocking_s, per_s, written_s)
    best_s = best_interval_s(blocking_s, per_s, written_s)
    curve = drawn(one, best_s)
    assert np.all(curve.share <= curve.share_at(best_s) * (1 + 1e-9))
    assert np.all((curve.share >= 0) & (curve.share <= 1))


def test_it_goes_from_a_minute_to_a_day_and_to_what_was_chosen():
    curve = drawn(plan(), 2000.0)
    assert curve.interval_s[0] < 60
    assert curve.interval_s[-1] > 86400
    assert drawn(plan(interval_s=10.0), 2000.0).interval_s[0] < 10
    assert drawn(plan(interval_s=1e6), 2000.0).interval_s[-1] > 1e6


def test_a_checkpoint_waits_until_the_last_one_is_written():
    curve = drawn(plan(written_s=500.0), 2000.0)
    assert curve.share_at(100.0) == curve.share_at(500.0) > curve.share_at(5e4)
    assert curve.share_at(500.0) == pytest.approx(1 / slow_down(500, 20, 1e-5, 700, 500))


def test_without_failures_there_is_nothing_to_weigh():
    assert interval_curve(plan(per_s=0.0), 1e7) is None


def test_the_mean_rate_counts_the_first_days():
    early = JobPlan(
        work_s=14 * 86400.0, causes=(Failure("node", 1e-5),), early_factor=3.0, early_s=14 * 86400.0
    )
    assert early.mean_rate_per_s == pytest.approx(1e-5 * (1 + 2 * (1 - np.exp(-1))))
    assert plan().mean_rate_per_s == pytest.approx(plan().rate_per_s)
