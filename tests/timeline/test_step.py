import numpy as np
import pytest

from syncwall.timeline.step import slowest_of


@pytest.mark.parametrize(("ranks", "expected"), [(1, 0.0), (2, 0.564), (8, 1.424), (1000, 3.241)])
def test_the_slowest_of_many(ranks, expected):
    """Expected maxima of normal samples, as tabulated."""
    assert float(slowest_of(ranks)) == pytest.approx(expected, abs=0.03)


def test_more_ranks_have_a_slower_slowest():
    found = slowest_of(np.array([1, 2, 8, 64, 1024, 16_384, 1_000_000]))
    assert (np.diff(found) > 0).all()
