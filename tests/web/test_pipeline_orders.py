from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.describe.layout import Schedule
from syncwall.web.lessons.pipeline import least_micro_batches, pipeline_orders, pipeline_slots


@given(
    schedule=st.sampled_from(list(Schedule)),
    half=st.integers(1, 4),
    groups=st.integers(2, 4),
    virtual=st.integers(2, 4),
)
def test_every_schedule_does_every_pass_once_and_one_at_a_time(schedule, half, groups, virtual):
    ranks, micro = 2 * half, 2 * half * groups
    ordered = pipeline_orders(schedule, ranks, micro, virtual)
    if ordered is None:
        assert schedule in (Schedule.ZERO_BUBBLE_2P, Schedule.ZERO_BUBBLE_V)
        return
    passes = [one for order in ordered for together in order for one in together]
    each = {Schedule.INTERLEAVED: virtual, Schedule.DUALPIPE_V: 2}.get(schedule, 1)
    assert len(set(passes)) == len(passes) == 3 * micro * ranks * each
    slots = pipeline_slots(ordered, lambda rank, one: {"forward": 1.0, "input": 1.1}.get(one.kind, 0.9))
    for rank in range(ranks):
        mine = [slot for slot in slots if slot.rank == rank]
        assert all(a.end_s <= b.start_s + 1e-9 for a, b in pairwise(mine))
        assert sum(s.end_s - s.start_s for s in mine) == pytest.approx(3.0 * micro * each)


def test_too_few_micro_batches_have_no_order():
    for schedule in (Schedule.INTERLEAVED, Schedule.DUALPIPE, Schedule.DUALPIPE_V):
        least = least_micro_batches(schedule, 4)
        assert pipeline_orders(schedule, 4, least, 2)
        assert pipeline_orders(schedule, 4, least - 1, 2) is None
