from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.web.answers.step_collective import Move, after, parent_of, ring, steps_of, tree

workers = st.integers(2, 12)


def summed(moves: list[Move], count: int, values: list[float]) -> None:
    chunks = max(move.chunk for move in moves) + 1
    parts = [[values[(worker * chunks + c) % len(values)] for c in range(chunks)] for worker in range(count)]
    wanted = [sum(own[chunk] for own in parts) for chunk in range(chunks)]
    for held in after(moves, parts):
        assert held == pytest.approx(wanted)


@given(workers, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_a_ring_gives_everybody_the_sum(count, values):
    moves = ring(count)
    summed(moves, count, values)
    assert steps_of(moves) == 2 * (count - 1)


@given(workers, st.integers(1, 9), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_a_tree_gives_everybody_the_sum(count, chunks, values):
    moves = tree(count, chunks)
    summed(moves, count, values)
    assert steps_of(moves) == chunks - 1 + 2 * (count.bit_length() - 1)


@given(workers)
def test_in_a_ring_everybody_sends_and_receives_once_a_step(count):
    for step in range(2 * (count - 1)):
        now = [move for move in ring(count) if move.step == step]
        assert {move.source for move in now} == {move.target for move in now} == set(range(count))
        assert all(move.target == (move.source + 1) % count for move in now)


@given(workers, st.integers(1, 9))
def test_in_a_tree_nobody_sends_twice_to_the_same(count, chunks):
    moves = tree(count, chunks)
    ways = Counter((move.step, move.source, move.target) for move in moves)
    assert set(ways.values()) == {1}
    for move in moves:
        child = move.source if move.adds else move.target
        assert {move.source, move.target} == {child, parent_of(child)}


def test_half_of_a_ring_is_a_reduce_scatter():
    half = [move for move in ring(4) if move.adds]
    held = after(half, [[1.0] * 4 for _ in range(4)])
    assert sorted(worker.index(4.0) for worker in held) == [0, 1, 2, 3]
