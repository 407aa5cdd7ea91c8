from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.describe import Layout, Run
from syncwall.describe.layout import Schedule
from syncwall.web.lessons.pipeline import (
    Slot,
    bubble_of,
    most_kept,
    pipeline_orders,
    pipeline_slots,
)
from syncwall.web.lessons.team import pass_seconds

times = st.floats(0.01, 10)


def one_forward_one_backward(
    forward_s: Sequence[float], backward_s: Sequence[float], micro: int, handover_s: float = 0.0
) -> list[Slot]:
    ordered = pipeline_orders(Schedule.ONE_F_ONE_B, len(forward_s), micro)
    assert ordered
    seconds = {"forward": forward_s, "input": backward_s, "weight": [0.0] * len(forward_s)}
    return pipeline_slots(ordered, lambda rank, one: seconds[one.kind][rank], handover_s)


@given(stages=st.integers(1, 8), micro=st.integers(1, 20), forward=times, backward=times)
def test_equal_stages_have_the_bubble_of_the_formula(stages, micro, forward, backward):
    """Narayanan 2021: (p - 1) (f + b), on every stage."""
    slots = one_forward_one_backward([forward] * stages, [backward] * stages, micro)
    for stage in range(stages):
        expected = (stages - 1) * (forward + backward)
        assert bubble_of(slots, stage) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    passes=st.lists(st.tuples(times, times), min_size=1, max_size=6),
    micro=st.integers(1, 12),
    handover=st.floats(0, 1),
)
def test_nothing_starts_before_what_it_needs(passes, micro, handover):
    forward, backward = [one[0] for one in passes], [one[1] for one in passes]
    slots = one_forward_one_backward(forward, backward, micro, handover)
    assert len(slots) == 2 * micro * len(passes)
    by_key = {(slot.rank, slot.which, slot.micro): slot for slot in slots}
    last = len(passes) - 1
    for slot in slots:
        if slot.which == "forward" and slot.rank:
            before = by_key[slot.rank - 1, "forward", slot.micro]
            assert slot.start_s >= before.end_s + handover
        if slot.which == "backward":
            own = by_key[slot.rank, "forward", slot.micro]
            assert slot.start_s >= own.end_s
            if slot.rank < last:
                after = by_key[slot.rank + 1, "backward", slot.micro]
                assert slot.start_s >= after.end_s + handover
    for stage in range(len(passes)):
        own_slots = [slot for slot in slots if slot.rank == stage]
        assert all(a.end_s <= b.start_s for a, b in pairwise(own_slots))


def test_a_stage_keeps_no_more_activations_than_there_are_stages_from_it_on():
    ordered = pipeline_orders(Schedule.ONE_F_ONE_B, 4, 16)
    assert ordered
    assert [most_kept(order) for order in ordered] == [4, 3, 2, 1]


def test_zero_bubble_keeps_as_many_activations_as_the_first_rank_of_1f1b():
    """ZB-H1 (Qi 2023): the peak is that of 1F1B."""
    ordered = pipeline_orders(Schedule.ZERO_BUBBLE, 4, 16)
    assert ordered
    assert [most_kept(order) for order in ordered] == [4, 4, 4, 4]


def test_the_slowest_stage_of_a_run_stands_still_as_long_as_predicted():
    layout = Layout.model_validate(
        {
            "tp": 4,
            "pp": 4,
            "global_batch": 64,
            "micro_batch": 1,
            "schedule": "1f1b",
            "virtual_stages": 1,
            "recompute": "none",
            "balanced_stages": False,
        }
    )
    one = sw.predict(
        Run(model=sw.model("llama-3.1-8b"), cluster=sw.cluster("dgx-h100"), nodes=4, layout=layout)
    )
    body, last = (pass_seconds(stage, one.prices) for stage in one.work.stages)
    each = [body] * 3 + [last]
    slots = one_forward_one_backward([p[0] for p in each], [p[1] for p in each], 16)
    assert bubble_of(slots, 3) == pytest.approx(one.ledger["pipeline bubble"], rel=1e-6)
