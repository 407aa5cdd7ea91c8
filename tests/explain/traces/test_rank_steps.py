"""Ranks beside each other: own time by step, and one step on one clock."""

import numpy as np
import pytest

from syncwall.explain.traces.job_traces import LANES, rank_steps
from syncwall.explain.traces.rank import rank_summary
from syncwall.show.draw.rank_steps import rank_heat, rank_lanes
from tests.explain.traces.job import Job


def of(job: Job, blamed=()):
    found = rank_steps([rank_summary(trace) for trace in job.traces()], blamed)
    assert found is not None
    return found


def test_own_time_is_without_waiting_for_others():
    found = of(Job(ranks=4, slower={2: 1.3}, noise=0.0))
    own = np.median(found.own_s, axis=1)
    assert own[2] / own[0] == pytest.approx(1.3, rel=0.02)
    assert own[0] == pytest.approx(own[3], rel=1e-6)
    drawn = rank_heat(found).markup()
    assert drawn.count("<title>") == 4 * len(found.steps)
    assert "rank 2, step 1" in drawn


def test_clocks_are_brought_together():
    found = of(Job(ranks=3, slower={1: 1.2}, noise=0.0, offset_s={0: 5.0, 2: -3.0}))
    starts = [lane.start_s for lane in found.lanes]
    assert starts == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    ends = {round(one.end_s, 6) for lane in found.lanes for one in lane.meetings}
    assert len(ends) == 1
    waited = {lane.rank: lane.meetings[0].arrived_s - lane.meetings[0].start_s for lane in found.lanes}
    assert waited == pytest.approx({0: 0.02, 1: 0.0, 2: 0.02}, abs=1e-4)
    assert "all-reduce: waits 20 ms, then 10 ms" in rank_lanes(found).markup()


def test_those_that_are_blamed_are_always_drawn():
    found = of(Job(ranks=40, steps=3), blamed=(17, 18))
    assert len(found.lanes) == LANES
    assert {17, 18} < {lane.rank for lane in found.lanes}
    assert rank_heat(found).markup().count("<rect") == 40 * 3 + 4


def test_many_ranks_share_cells():
    found = of(Job(ranks=130, steps=2, slower={77: 1.5}, noise=0.0))
    assert "rank 77, step 1" in rank_heat(found).markup()
    assert rank_heat(found).markup().count("<title>") == 64 * 2


def test_one_rank_or_no_common_step_is_nothing():
    traces = [rank_summary(trace) for trace in Job(ranks=1).traces()]
    assert rank_steps(traces, ()) is None
