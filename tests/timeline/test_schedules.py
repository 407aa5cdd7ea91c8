from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.describe.layout import Schedule
from syncwall.timeline.step import Passes, idle_s
from syncwall.web.lessons.pipeline import pipeline_orders, pipeline_slots
from syncwall.work.block import Pipeline
from tests.web.test_pipeline_slots import one_forward_one_backward

times = st.floats(0.1, 10)
Times = tuple[float, float, float]
"""Forward, gradient of the input, gradient of the weights."""


def step_s(schedule: Schedule, each: Sequence[Times], micro: int, virtual: int = 1) -> float:
    """What `timeline.step` makes of it: the rank for which the step is longest counts."""
    ranks = [Passes(f, b + w, w) for f, b, w in each]
    everybody = Passes(*(sum(column) for column in zip(*ranks, strict=True)))
    pipeline = Pipeline(len(each), virtual, schedule)
    return max(
        float(micro * own.both_s + idle_s(pipeline, micro, own, everybody.plus(own.times(-1.0))))
        for own in ranks
    )


def executed_s(schedule: Schedule, each: Sequence[Times], micro: int, virtual: int = 1) -> float:
    """When the last rank has ended, played pass by pass; times of a rank over its stages."""
    ordered = pipeline_orders(schedule, len(each), micro, virtual)
    assert ordered
    at = {"forward": 0, "input": 1, "weight": 2}
    return max(s.end_s for s in pipeline_slots(ordered, lambda r, one: each[r][at[one.kind]] / virtual))


@given(p=st.integers(1, 8), m=st.integers(1, 24), one=st.tuples(times, times, times))
def test_gpipe_takes_as_long_as_executed(p, m, one):
    expected = executed_s(Schedule.GPIPE, [one] * p, m)
    assert step_s(Schedule.GPIPE, [one] * p, m) == pytest.approx(expected)


@given(
    p=st.integers(2, 8),
    m=st.integers(8, 40),
    f=times,
    back=st.floats(1, 3),
    longer=st.floats(0.5, 2.5),
)
def test_a_longer_last_stage_sets_the_pace(p, m, f, back, longer):
    """And a shorter one ends the wait at both ends earlier, which is left out: once a step."""
    body = (f, f * back / 2, f * back / 2)
    each = [body] * (p - 1) + [(body[0] * longer, body[1] * longer, body[2] * longer)]
    slots = one_forward_one_backward([e[0] for e in each], [e[1] + e[2] for e in each], m)
    shorter = max(1 - longer, 0) * sum(body)
    left_out = step_s(Schedule.ONE_F_ONE_B, each, m) - max(s.end_s for s in slots)
    assert -1e-9 <= left_out <= shorter + 1e-9


@given(each=st.lists(st.tuples(times, times, times), min_size=2, max_size=6), m=st.integers(6, 30))
def test_any_stage_may_be_the_longest(each, m):
    longest = max(map(sum, each)) * m
    for schedule in Schedule:
        assert step_s(schedule, each, m) >= longest * (1 - 1e-9)
    slots = one_forward_one_backward([e[0] for e in each], [e[1] + e[2] for e in each], m)
    found = step_s(Schedule.ONE_F_ONE_B, each, m)
    assert abs(found - max(s.end_s for s in slots)) <= sum(map(sum, each))


@given(
    p=st.integers(2, 6),
    groups=st.integers(1, 5),
    virtual=st.integers(2, 4),
    f=times,
    back=st.floats(1, 3),
)
def test_interleaved_ranks_take_as_long_as_executed(p, groups, virtual, f, back):
    each = [(f, f * back / 2, f * back / 2)] * p
    expected = executed_s(Schedule.INTERLEAVED, each, groups * p, virtual)
    found = step_s(Schedule.INTERLEAVED, each, groups * p, virtual)
    assert found == pytest.approx(expected)


@given(p=st.integers(2, 8), more=st.integers(0, 24), f=times, b=st.floats(0.8, 1.6))
def test_zero_bubble_h1_takes_as_long_as_executed(p, more, f, b):
    """Weight gradients take as long as the forward pass, those of inputs also attention's share."""
    each = [(f, f * b, f)] * p
    expected = executed_s(Schedule.ZERO_BUBBLE, each, 2 * p + more)
    assert step_s(Schedule.ZERO_BUBBLE, each, 2 * p + more) == pytest.approx(expected, rel=0.04)


@given(half=st.integers(1, 5), more=st.integers(0, 12), b=st.floats(0.8, 1.5))
def test_dualpipe_takes_as_long_as_executed(half, more, b):
    p = 2 * half
    each = [(1.0, b, 1.0)] * p
    micro = 2 * p + 2 * more
    expected = executed_s(Schedule.DUALPIPE, each, micro)
    assert step_s(Schedule.DUALPIPE, each, micro) == pytest.approx(expected, rel=0.04)


@given(p=st.integers(2, 6), more=st.integers(0, 12), b=st.floats(0.8, 1.5))
def test_dualpipe_v_takes_as_long_as_executed(p, more, b):
    each, micro = [(1.0, b, 1.0)] * p, 2 * p + more
    expected = executed_s(Schedule.DUALPIPE_V, each, micro, 2)
    assert step_s(Schedule.DUALPIPE_V, each, micro) == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule.ONE_F_ONE_B, 15 * 3.0),
        (Schedule.ZERO_BUBBLE, 15 * 1.0),
        (Schedule.ZERO_BUBBLE_2P, 0.0),
        (Schedule.ZERO_BUBBLE_V, 0.0),
        (Schedule.DUALPIPE, 7 * 2.0),
        (Schedule.DUALPIPE_V, 7.5 * 2.0),
    ],
)
def test_bubbles_of_the_papers(schedule, expected):
    """Sixteen ranks with F = 1, B = 2, W = 1 (Qi 2023; DeepSeek-V3 report, table 2)."""
    own = Passes(1.0, 2.0, 1.0)
    found = idle_s(Pipeline(16, 1, schedule), 120, own, own.times(15))
    assert float(found) == pytest.approx(expected)


def test_arrays_of_schedules_are_as_one_by_one():
    own = Passes(1.0, 2.5, 0.9)
    kinds = np.array(list(Schedule))
    together = idle_s(Pipeline(8, 1, kinds), 32, own, own.times(7))
    alone = [float(idle_s(Pipeline(8, 1, kind), 32, own, own.times(7))) for kind in Schedule]
    assert together == pytest.approx(alone)
