"""Judges of speed name who drags and since when, and nobody where others only take the cores."""

import random
from dataclasses import replace
from math import exp

import pytest

from syncwall.cause import Cause
from syncwall.watch.cores import HostLoad
from syncwall.watch.events import Expectation, FindingKind, Group, StepRecord
from syncwall.watch.judges import THRESHOLDS
from syncwall.watch.speed import (
    JobWindow,
    job_slowdown,
    job_windows,
    slower_than_predicted,
    stragglers,
    windows_of,
)

NOW_S = 1000.0
BUSY = {"node-1": HostLoad(2, 7, 0.8, None, ("stress (4)",))}


def run(ranks: int, steps: int, own_s, *, exposed_s: float = 0.01, noise: float = 0.004, seed=1):
    """Windows of a synchronous job: who is early waits. `own_s(rank, step)`."""
    rng = random.Random(seed)
    records: dict[int, list[StepRecord]] = {rank: [] for rank in range(ranks)}
    for step in range(steps):
        own = [own_s(rank, step) * (1 + rng.gauss(0, noise)) for rank in range(ranks)]
        for rank in range(ranks):
            wait_s = max(own) - own[rank] + exposed_s
            seconds = {Cause.FORWARD: own[rank], Cause.EXPOSED_DP: wait_s}
            records[rank].append(StepRecord(rank, step, NOW_S + step, max(own) + exposed_s, seconds))
    windows = [window for rank in range(ranks) for window in windows_of(records[rank])]
    return [replace(one, node=f"node-{one.rank}") for one in windows]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_rank_that_is_ten_percent_slower_is_named_with_what_it_costs(ranks):
    windows = run(ranks, 75, lambda rank, _: 0.11 if rank == 1 else 0.1)
    (found,) = stragglers(windows)
    assert (found.kind, found.rank, found.node) == (FindingKind.STRAGGLER, 1, "node-1")
    assert found.cost_s == pytest.approx(0.01, rel=0.1)
    assert (found.since_step, found.group) == (0, Group.COMPUTE)


@pytest.mark.parametrize("seed", range(5))
def test_nobody_drags_in_a_healthy_run(seed):
    assert stragglers(run(4, 100, lambda *_: 0.1, noise=0.03, seed=seed)) == []


def test_a_hiccup_of_another_rank_hides_nobody():
    def own_s(rank, step):
        return 0.1 * (1.1 if rank == 1 else 1.06 if rank == 3 and 25 <= step < 50 else 1.0)

    assert [one.rank for one in stragglers(run(4, 75, own_s))] == [1]


def test_a_straggler_that_recovers_is_one_no_more():
    windows = run(4, 150, lambda rank, step: 0.12 if rank == 2 and step < 100 else 0.1)
    assert stragglers([one for one in windows if one.first < 100])
    assert stragglers(windows) == []


def test_nobody_is_blamed_where_own_time_is_not_known():
    windows = run(4, 75, lambda rank, _: 0.2 if rank == 1 else 0.1)
    assert stragglers([replace(one, own_s=None) for one in windows]) == []


def test_a_slow_down_is_dated_and_has_a_cause():
    windows = run(4, 300, lambda _, step: 0.1 if step < 200 else 0.13)
    (found,) = job_slowdown(job_windows(windows))
    assert (found.since_step, found.group) == (200, Group.COMPUTE)
    assert found.cost_s == pytest.approx(0.03, rel=0.1)
    assert job_slowdown(job_windows(one for one in windows if one.first < 200)) == []


def job(step_s, steps: int, *, noise: float = 0.0, seed: int = 1) -> list[JobWindow]:
    """Windows of a job of which each step takes `step_s(step)`: noise that has a memory, as that of
    a busy machine, and a warm-up of one window."""
    rng, found, away, now_s = random.Random(seed), [], 0.0, 0.0
    for first in range(0, steps, THRESHOLDS.window):
        away = 0.7 * away + rng.gauss(0, noise)
        mean_s = sum(step_s(first + one) for one in range(THRESHOLDS.window)) / THRESHOLDS.window
        spent_s = mean_s * exp(away) * (3.0 if not first else 1.0)
        now_s += spent_s * THRESHOLDS.window
        groups = dict.fromkeys(Group, 0.0) | {Group.COMPUTE: spent_s}
        found.append(JobWindow(first, spent_s, groups, now_s))
    return found


def first_alarm(windows: list[JobWindow]):
    """What a live run would have said first, and after which of its windows."""
    for count in range(1, len(windows) + 1):
        if found := job_slowdown(windows[:count]):
            return found[0], windows[count - 1]
    return None, None


@pytest.mark.parametrize("since", [250, 260, 400, 1000, 4000])
@pytest.mark.parametrize(("before_ms", "after_ms"), [(18, 50), (38, 58), (30, 46), (200, 240)])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_slow_down_is_found_as_surely_early_as_late(since, before_ms, after_ms, noise):
    """Within 100 steps, or 10 s where these are shorter."""
    windows = job(lambda step: (before_ms if step < since else after_ms) / 1e3, since + 1000, noise=noise)
    found, told = first_alarm(windows)
    assert found is not None
    assert abs(found.since_step - since) <= THRESHOLDS.window
    began_s = next(one.end_s for one in windows if one.first + THRESHOLDS.window > since)
    last = told.first + THRESHOLDS.window
    assert last - since <= 100 or told.end_s - began_s <= 10


@pytest.mark.parametrize("over", [200, 1000, 3000])
def test_a_gradual_slow_down_is_found(over):
    found, _ = first_alarm(
        job(lambda step: 0.038 + 0.02 * min(max(step - 250, 0) / over, 1), 250 + 2 * over, noise=0.01)
    )
    assert found is not None
    assert 225 <= found.since_step <= 250 + over


def test_a_slow_down_is_one_until_it_is_over():
    windows = job(lambda step: 0.058 if 250 <= step < 1000 else 0.038, 1500)
    known = [bool(job_slowdown(windows[:count])) for count in range(len(windows) + 1)]
    assert known[24:41] == [True] * 17
    assert not any(known[44:])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03, 0.06])
def test_nothing_slows_down_in_a_healthy_run(noise, seed):
    assert first_alarm(job(lambda _: 0.038, 10_000, noise=noise, seed=seed)) == (None, None)


def test_a_short_burst_of_a_busy_machine_is_no_slow_down():
    """100 steps that take twice as long: six seconds."""
    found, _ = first_alarm(job(lambda step: 0.06 if 400 <= step < 500 else 0.03, 1500, noise=0.02))
    assert found is None


def test_a_warm_up_is_no_reference():
    slow_start = job(lambda step: 0.030 + 0.02 * exp(-step / 100), 2000, noise=0.01)
    assert first_alarm(slow_start) == (None, None)


def test_a_job_whose_ranks_wait_for_cores_is_told_as_a_busy_host():
    windows = [replace(one, waited_s=0.001) for one in job(lambda _: 0.04, 400)]
    slow = [
        replace(one, first=one.first + 400, end_s=one.end_s + windows[-1].end_s, waited_s=0.018)
        for one in job(lambda _: 0.06, 250)[1:]
    ]
    (found,) = job_slowdown([*windows, *slow], hosts=BUSY)
    assert (found.kind, found.node, found.rank) == (FindingKind.HOST_BUSY, "node-1", None)
    assert "stress (4)" in found.evidence
    (found,) = job_slowdown([*windows, *(replace(one, waited_s=0.002) for one in slow)], hosts=BUSY)
    assert found.kind is FindingKind.SLOWED_DOWN


def waiting(windows, waited_s):
    """The same windows, with what a step of each rank waits for a core."""
    return [replace(one, waited_s=waited_s[one.rank]) for one in windows]


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_whose_cores_are_taken_is_no_straggler(ranks):
    windows = run(ranks, 75, lambda rank, _: 0.12 if rank == 1 else 0.1)
    (found,) = stragglers(waiting(windows, [0.001, 0.019, 0.001, 0.001]), hosts=BUSY)
    assert (found.kind, found.rank, found.also) == (FindingKind.HOST_BUSY, None, (1,))
    assert "rank 1 waits 18.0 ms a step longer for a core" in found.evidence
    assert "7 threads on 2 cores, CPU pressure 80%, others that run: stress (4)" in found.evidence


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_is_slow_by_itself_drags_on_a_busy_host_too(ranks):
    """It waits for cores as the others do, or even longer: that explains too little."""
    windows = run(ranks, 75, lambda rank, _: 0.14 if rank == 1 else 0.12)
    for waits in ([0.02] * 4, [0.02, 0.026, 0.02, 0.02]):
        (found,) = stragglers(waiting(windows, waits), hosts=BUSY)
        assert (found.kind, found.rank) == (FindingKind.STRAGGLER, 1)


def test_where_waits_are_not_known_a_straggler_says_that_its_host_is_busy():
    (found,) = stragglers(run(4, 75, lambda rank, _: 0.12 if rank == 1 else 0.1), hosts=BUSY)
    assert found.kind is FindingKind.STRAGGLER
    assert "its host is busy, which may be why" in found.evidence


def test_the_phase_of_a_straggler_is_named():
    windows = run(4, 75, lambda rank, _: 0.12 if rank == 1 else 0.1)
    moved = [
        replace(one, seconds={Cause.FORWARD: 0.05, Cause.BACKWARD: one.seconds[Cause.FORWARD] - 0.05})
        for one in windows
    ]
    (found,) = stragglers(moved)
    assert "ms of it backward pass" in found.evidence


def test_slower_than_predicted_names_the_line_and_is_silent_inside_the_interval():
    windows = run(4, 100, lambda *_: 0.1, exposed_s=0.05)
    ledger = {Cause.GEMM: 0.1, Cause.EXPOSED_DP: 0.01}
    (found,) = slower_than_predicted(job_windows(windows), Expectation(0.11, 0.1, 0.12, ledger))
    assert found.group is Group.COMMUNICATION
    assert found.cost_s == pytest.approx(0.04, abs=0.005)
    assert slower_than_predicted(job_windows(windows), Expectation(0.11, 0.09, 0.16, ledger)) == []


def test_what_the_host_is_predicted_to_hold_up_is_no_excuse_for_communication():
    """Forward and backward have such gaps in them: 60 ms of work and 40 ms of the host are 100."""
    windows = run(4, 100, lambda *_: 0.1, exposed_s=0.03)
    ledger = {Cause.GEMM: 0.06, Cause.HOST: 0.04, Cause.EXPOSED_DP: 0.01}
    (found,) = slower_than_predicted(job_windows(windows), Expectation(0.11, 0.1, 0.12, ledger))
    assert found.group is Group.COMMUNICATION
