"""Stretches of time obey the laws of sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from syncwall.explain.traces.activity import EMPTY, Spans, merged, shares

pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


def spans(raw: list[tuple[int, int]]) -> Spans:
    start = np.array([a for a, _ in raw], np.int64)
    return merged(start, start + np.array([b for _, b in raw], np.int64))


def points(some: Spans) -> set[int]:
    return {t for a, b in zip(some.start.tolist(), some.end.tolist(), strict=True) for t in range(a, b)}


def raw_points(raw: list[tuple[int, int]]) -> set[int]:
    return {t for a, length in raw for t in range(a, a + length)}


@given(a=pairs, b=pairs)
def test_union_intersection_and_difference_are_those_of_sets(a, b):
    x, y, p, q = spans(a), spans(b), raw_points(a), raw_points(b)
    assert points(x) == p
    assert points(x | y) == p | q
    assert points(x & y) == p & q
    assert points(x - y) == p - q
    assert x.length == len(p)
    assert np.all(x.start[1:] > x.end[:-1])


@given(a=pairs, start=st.integers(-5, 80), length=st.integers(0, 30))
def test_length_within_a_window(a, start, length):
    covered = raw_points(a) & set(range(start, start + length))
    assert int(spans(a).within(start, start + length)) == len(covered)
    assert spans(a).gaps(start, start + length).length == length - len(covered)


@given(
    claims=st.lists(pairs, min_size=1, max_size=4),
    edges=st.lists(st.integers(0, 80), min_size=2, max_size=5, unique=True).map(sorted),
)
def test_shares_add_up_and_the_first_takes_precedence(claims, edges):
    start, end = np.array(edges[:-1]), np.array(edges[1:])
    lengths, taken = shares([spans(c) for c in claims], start, end)
    left: set[int] = set(range(edges[0], edges[-1]))
    for claim, got in zip(claims, lengths, strict=True):
        mine = left & raw_points(claim)
        left -= mine
        assert got.sum() == len(mine)
    assert sum(got.sum() for got in lengths) == taken.within(edges[0], edges[-1])


def test_nothing_is_a_stretch_too():
    assert len(EMPTY | EMPTY) == 0
    assert (EMPTY - spans([(1, 2)])).length == 0
    assert not EMPTY.holds(3)
    assert EMPTY.gaps(2, 5).length == 3
