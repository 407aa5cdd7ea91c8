"""Numbers and arrays: the same arithmetic, and plain numbers stay plain."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from syncwall.work.number import anywhere, is_one, least, most, rounded_up, where

floats = st.floats(-1e12, 1e12)


@given(st.lists(st.tuples(floats, floats, st.booleans()), min_size=1, max_size=9))
def test_arrays_hold_what_numbers_give_one_by_one(rows):
    first, second, truth = (np.array(column) for column in zip(*rows, strict=True))
    for index, (one, other, holds) in enumerate(rows):
        assert np.asarray(least(first, second))[index] == least(one, other)
        assert np.asarray(most(first, second))[index] == most(one, other)
        assert np.asarray(where(truth, first, second))[index] == where(holds, one, other)
        assert np.asarray(rounded_up(first))[index] == rounded_up(one)
    assert anywhere(truth) == any(anywhere(holds) for _, _, holds in rows)


@given(floats, floats, st.booleans())
def test_plain_numbers_stay_plain(one, other, holds):
    for found in (least(one, other), most(one, other), where(holds, one, other)):
        assert type(found) is float


def test_a_number_and_an_array_broadcast():
    array = np.array([1.0, 3.0])
    assert np.array_equal(np.asarray(least(array, 2.0)), [1.0, 2.0])
    assert np.array_equal(np.asarray(most(2.0, array)), [2.0, 3.0])
    assert np.array_equal(np.asarray(where(array > 2.0, array, np.inf)), [np.inf, 3.0])


def test_only_the_plain_number_is_one():
    assert is_one(1)
    assert is_one(1.0)
    assert not is_one(2.0)
    assert not is_one(np.ones(2))
