"""Judges name who is to blame, and nobody where nobody is."""

from dataclasses import replace
from typing import Any

import pytest

from syncwall.watch.events import (
    FindingKind,
    NodeReport,
    Process,
    RankState,
)
from syncwall.watch.judges import dead, hung, lost_nodes, stopped

NOW_S = 1000.0
WAITS = "exposed communication"


def state(rank: int, **more) -> RankState:
    usual: dict[str, Any] = {"phase": WAITS, "phase_since_s": NOW_S - 4, "step": 50, "step_s": 0.1}
    return RankState(rank, "a", 100 + rank, Process.RUNNING, **(usual | {"collectives": 7} | more))


def test_the_first_to_die_is_named_and_the_others_died_of_it():
    ranks = [
        replace(state(rank), process=Process.DEAD, changed_s=NOW_S + late_s, died_as=number)
        for number, (rank, late_s) in enumerate([(2, 0.0), (0, 0.13), (1, 0.2)])
    ]
    (found,) = dead([state(3), *reversed(ranks)])
    assert (found.kind, found.rank, found.also) == (FindingKind.DEAD, 2, (0, 1))
    assert dead([state(0), replace(state(1), process=Process.FINISHED)]) == []


def test_deaths_far_apart_are_two():
    ranks = [replace(state(n), process=Process.DEAD, changed_s=NOW_S + 60 * n) for n in range(2)]
    assert [one.rank for one in dead(ranks)] == [0, 1]


def test_an_exception_is_told_from_a_kill():
    failed = replace(state(1), process=Process.FAILED, changed_s=NOW_S, where="ended with code 1")
    (found,) = dead([failed])
    assert "ended with code 1" in found.evidence


def test_a_stopped_rank_explains_a_silence():
    ranks = [replace(state(0), process=Process.STOPPED, changed_s=NOW_S), state(1)]
    assert [one.rank for one in stopped(ranks)] == [0]
    assert hung(ranks, NOW_S) == []


@pytest.mark.parametrize("phase", ["data", "forward", "backward", "between phases", "optimizer"])
def test_who_does_not_wait_for_communication_is_hung(phase):
    ranks = [state(0), state(1), state(2, phase=phase), state(3)]
    (found,) = hung(ranks, NOW_S)
    assert (found.kind, found.rank) == (FindingKind.HUNG, 2)
    assert f"stands in {phase}" in found.evidence
    assert found.kind.stops_the_job


def test_of_all_that_wait_it_is_who_waits_for_something_else():
    ranks = [state(0), state(1, collectives=6), state(2)]
    assert [one.rank for one in hung(ranks, NOW_S)] == [1]
    ranks = [state(0), state(1, step=49, collectives=9), state(2)]
    assert [one.rank for one in hung(ranks, NOW_S)] == [1]
    ranks = [state(0, progress=3), state(1, progress=1, collectives=9)]
    assert [one.rank for one in hung(ranks, NOW_S)] == [1]
    ranks = [state(0), state(1), state(2, collectives=8)]  # a call that nobody else makes
    assert [one.rank for one in hung(ranks, NOW_S)] == [2]


def test_who_sees_a_part_of_the_job_blames_nobody_that_waits():
    ranks = [state(0), state(1, collectives=6)]
    assert not hung(ranks, NOW_S, whole=False)
    assert hung([*ranks, state(2, phase="data")], NOW_S, whole=False)[0].rank == 2


def test_if_all_stand_at_the_same_place_it_is_the_job():
    ranks = [state(0, phase="data"), state(1, phase="data")]
    assert not hung(ranks, NOW_S)
    (found,) = hung(ranks, NOW_S + 60)
    assert (found.rank, found.also) == (None, (0, 1))


@pytest.mark.parametrize(
    "more",
    [
        {"phase_since_s": NOW_S - 2.9},
        {"step_s": 1.0},  # five steps are more
        {"longest_silence_s": 3.0},  # it has survived such silences
        {"step_s": None},  # it starts
        {"phase": "checkpoint"},
        {"phase": "evaluation"},
        {"phase": "ended"},
    ],
)
def test_patience(more):
    ranks = [state(0), state(1, phase="data")]
    assert hung(ranks, NOW_S)
    changed = [replace(ranks[0], **more), replace(ranks[1], **more)]
    assert not hung(changed, NOW_S)
    if "step_s" not in more and "phase" not in more:
        assert not hung([ranks[0], changed[1]], NOW_S)


def test_a_node_that_falls_silent_is_lost_unless_it_is_done():
    report = NodeReport("b", 1, 9, NOW_S, (state(1), state(2)))
    done = NodeReport("c", 2, 9, NOW_S, (replace(state(3), process=Process.FINISHED),))
    silent_s = {"b": 3.5, "c": 60.0}
    (found,) = lost_nodes({"b": report, "c": done}, silent_s, now_s=NOW_S)
    assert (found.kind, found.node, found.also) == (FindingKind.NODE_LOST, "b", (1, 2))
    assert not lost_nodes({"b": report}, {"b": 2.0}, now_s=NOW_S)
