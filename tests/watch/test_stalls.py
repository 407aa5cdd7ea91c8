"""One stalled step is a finding, if it waited for its batch."""

from dataclasses import replace

import pytest

from syncwall.cause import Cause
from syncwall.watch.events import FindingKind, Group, Process, RankState, StepRecord
from syncwall.watch.stalls import Stalls

NOW_S = 1000.0
STEP_S = 0.07


def record(rank: int, step: int, *, cause: Cause = Cause.IDLE_DATA, longer_s: float = 0.0) -> StepRecord:
    seconds = {Cause.FORWARD: 0.03, Cause.BACKWARD: 0.03, Cause.EXPOSED_DP: 0.008, Cause.IDLE_DATA: 0.002}
    seconds[cause] += longer_s
    return StepRecord(rank, step, NOW_S + STEP_S * step, sum(seconds.values()), seconds)


def states(ranks: int = 2, **more) -> tuple[RankState, ...]:
    usual = {"phase": "forward", "phase_since_s": NOW_S, "step": 50, "step_s": STEP_S}
    return tuple(RankState(rank, "a", 100 + rank, Process.RUNNING, **(usual | more)) for rank in range(ranks))


def taught() -> Stalls:
    found = Stalls()
    for step in range(20):
        assert found.take([record(0, step), record(1, step)], states(), NOW_S + STEP_S * step) == ()
    return found


def told(stalls: Stalls, *steps: StepRecord):
    stalls.take(steps, states(), NOW_S + 10)
    return stalls.take([], states(), NOW_S + 10.6)


def test_a_stall_of_all_ranks_is_one_of_the_job():
    (found,) = told(taught(), *(record(rank, 20, longer_s=5.0) for rank in range(2)))
    assert (found.kind, found.rank, found.also) == (FindingKind.DATA_STALL, None, (0, 1))
    assert (found.since_step, found.group) == (20, Group.DATA)
    assert found.evidence == "step 20 took 5.1 s, usual 70.0 ms: all ranks waited 5.0 s for a batch"


def test_a_stall_of_one_rank_names_it_though_the_other_waits_as_long():
    late = record(1, 20, cause=Cause.EXPOSED_DP, longer_s=5.0)
    (found,) = told(taught(), record(0, 20, longer_s=5.0), late)
    assert (found.rank, found.also) == (0, ())


@pytest.mark.parametrize(
    ("cause", "longer_s"), [(Cause.EXPOSED_DP, 5.0), (Cause.FORWARD, 5.0), (Cause.IDLE_DATA, 1.0)]
)
def test_other_pauses_and_short_ones_are_no_stalls(cause, longer_s):
    assert told(taught(), record(0, 20, cause=cause, longer_s=longer_s)) == ()


def test_a_long_stall_is_told_while_it_lasts():
    stalls = taught()
    waiting = states(phase="data", phase_since_s=NOW_S + 2)
    assert stalls.take([], waiting, NOW_S + 4.9) == ()
    (found,) = stalls.take([], waiting, NOW_S + 5.1)
    assert (found.kind, found.since_s, found.also) == (FindingKind.DATA_STALL, NOW_S + 2, (0, 1))
    one_computes = (waiting[0], replace(waiting[1], phase="exposed communication"))
    assert taught().take([], one_computes, NOW_S + 20) == ()  # then it is hung


def test_a_stall_is_told_for_a_minute_and_once():
    stalls = taught()
    (found,) = told(stalls, record(0, 20, longer_s=5.0))
    assert stalls.take([record(0, 21)], states(), NOW_S + 40) == (found,)
    assert stalls.take([record(0, 22)], states(), NOW_S + 90) == ()
