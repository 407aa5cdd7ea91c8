import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.measure.kernel_times import Times


def test_percentiles_of_eleven_trials():
    times = Times.of([float(second) for second in range(11)])
    assert (times.p10_s, times.median_s, times.p90_s, times.worst_s) == (1, 5, 9, 10)
    assert times.trials == 11
    assert times.spread == pytest.approx(0.8)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_they_are_ordered(seconds):
    times = Times.of(seconds)
    slack = 1e-9 * max(1.0, times.worst_s)
    assert times.p10_s <= times.median_s + slack <= times.p90_s + 2 * slack
    assert times.p90_s <= times.worst_s + slack
