from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import booleans, floats, integers

from syncwall.cause import Cause
from syncwall.job.job_plan import DAY_S, Failure, best_interval_s, expected_s
from syncwall.job.simulation import SimulatedJobs, simulate_all
from tests.job.plans import LLAMA_RATE, plan, simulate
from tests.job.reference import played

few = settings(max_examples=10, deadline=None)


def assert_ledger_adds_up(outcome: SimulatedJobs) -> None:
    done = outcome.finished
    total = sum(outcome.ledger_s.values())
    assert np.allclose(total[done], outcome.finish_s[done], rtol=1e-12)
    assert all((seconds >= -1e-6).all() for seconds in outcome.ledger_s.values())


@pytest.mark.parametrize("blocking", [5.0, 60.0, 300.0])
@pytest.mark.parametrize("rate", [LLAMA_RATE / 4, LLAMA_RATE, 4 * LLAMA_RATE])
def test_the_mean_is_that_of_the_renewal_formula(blocking, rate):
    """Within 0.5%: exponential failures, also during restarts, constant times, spares at hand."""
    job = plan(rate, blocking_s=blocking, work_s=400 * 1800.0)
    exact = expected_s(400, 1800.0, blocking, rate, job.down_s)
    outcome = simulate(job, 4000, seed=3)
    assert outcome.finish_s.mean() == pytest.approx(exact, rel=0.005)
    assert_ledger_adds_up(outcome)


def test_checkpoints_that_do_not_block_agree_with_their_formula():
    """They count once written: exp(r W) more time, in the long run."""
    job = plan(4 * LLAMA_RATE, blocking_s=2.0, written_s=600.0, work_s=2000 * 1800.0)
    exact = expected_s(2000, 1800.0, 2.0, job.rate_per_s, job.down_s, 600.0)
    assert simulate(job, 1000, seed=1).finish_s.mean() == pytest.approx(exact, rel=0.005)


def test_the_best_interval_is_best_in_the_simulation_too():
    job = plan(blocking_s=60.0)
    best = best_interval_s(60.0, job.rate_per_s)
    tried = [replace(job, interval_s=best * factor) for factor in (0.5, 0.8, 1.0, 1.25, 2.0)]
    means = [outcome.finish_s.mean() for outcome in simulate_all(tried, 2000)]
    assert np.argmin(means) == 2


def test_without_failures_nothing_is_left_to_chance():
    outcome = simulate(plan(0.0, work_s=3600.0, startup_s=100.0), 10)
    assert np.allclose(outcome.finish_s, 100 + 3600 + 2 * 30)
    assert not outcome.interruptions.any()


def test_interruptions_come_at_the_rate_of_the_plan():
    outcome = simulate(plan(), 2000)
    assert np.sum(outcome.interruptions) / np.sum(outcome.finish_s) == pytest.approx(LLAMA_RATE, rel=0.01)


def test_early_failures_come_on_top():
    job = plan(early_factor=5.0, early_s=3 * DAY_S)
    outcome = simulate(job, 2000)
    days = outcome.finish_s / DAY_S
    expected = LLAMA_RATE * DAY_S * (days + 4 * 3 * (1 - np.exp(-days / 3)))
    assert outcome.interruptions.mean() == pytest.approx(expected.mean(), rel=0.01)


def test_the_same_seed_gives_the_same(monkeypatch):
    monkeypatch.setattr("syncwall.job.simulation.CHUNK", 100)
    job = plan(work_s=DAY_S)
    once, again, other = simulate(job, 300), simulate(job, 300), simulate(job, 300, seed=1)
    assert np.array_equal(once.finish_s, again.finish_s)
    assert not np.array_equal(once.finish_s, other.finish_s)


def test_a_process_pool_gives_the_same():
    job = plan(work_s=DAY_S)
    assert np.array_equal(simulate(job, 6000).finish_s, simulate(job, 6000, workers=2).finish_s)


@few
@given(floats(1.05, 4), floats(0, 0.8), integers(0, 5))
def test_more_failures_never_finish_earlier(factor, deviation, seed):
    one = plan(rate_deviation=deviation, work_s=4 * DAY_S, spares=6)
    causes = tuple(replace(cause, per_s=factor * cause.per_s) for cause in one.causes)
    before, after = simulate_all([one, replace(one, causes=causes)], 200, seed)
    assert (after.finish_s >= before.finish_s - 1e-6).all()
    assert (after.interruptions >= before.interruptions)[after.finished].all()


@few
@given(floats(0.05, 0.95), booleans(), integers(0, 5))
def test_faster_storage_never_finishes_later(faster, blocking, seed):
    if blocking:
        slow = plan(blocking_s=120.0, restart_s=420.0, work_s=4 * DAY_S)
        fast = replace(slow, blocking_s=120.0 * faster, restart_s=300.0 + 120.0 * faster)
    else:
        slow = plan(blocking_s=2.0, written_s=600.0, restart_s=900.0, work_s=4 * DAY_S)
        fast = replace(slow, written_s=600.0 * faster, restart_s=300.0 + 600.0 * faster)
    before, after = simulate_all([slow, fast], 200, seed)
    assert (after.finish_s <= before.finish_s + 1e-6).all()


@few
@given(integers(0, 12), integers(1, 12), integers(1, 18), integers(0, 5))
def test_more_spares_never_finish_later(spares, more, taken, seed):
    causes = (Failure("rack", LLAMA_RATE / 20, taken), Failure("software", LLAMA_RATE / 4))
    one = plan(causes=causes, spares=spares, work_s=4 * DAY_S, repair_s=DAY_S / 2)
    before, after = simulate_all([one, replace(one, spares=spares + more)], 200, seed)
    assert (after.finish_s <= before.finish_s + 1e-6).all()
    assert_ledger_adds_up(after)


@few
@given(floats(0, 0.3), floats(0, 0.8), booleans(), integers(0, 20), integers(0, 5))
def test_every_ledger_adds_up(step, deviation, shrink, spares, seed):
    job = plan(
        step_deviation=step,
        rate_deviation=deviation,
        shrink=shrink,
        spares=spares,
        replica_nodes=16.0,
        work_s=4 * DAY_S,
        beside={Cause.EVALUATION: 0.02, Cause.MAINTENANCE: 0.01},
        causes=(Failure("node", LLAMA_RATE, 1), Failure("spike", LLAMA_RATE / 9, 0, 5000.0)),
    )
    assert_ledger_adds_up(simulate(job, 200, seed))


def test_one_spare_too_few_waits_for_the_repair():
    """A single failure by hand: no spare, so the job stands still until the node is back."""
    job = plan(1e-6, work_s=10 * DAY_S, spares=0, causes=(Failure("node", 1e-6, 1),))
    outcome = simulate(job, 500)
    hit = outcome.interruptions == 1
    waited = outcome.ledger_s[Cause.REPAIR][hit]
    assert hit.any()
    assert np.allclose(waited, DAY_S - job.detection_s)
    assert np.allclose(outcome.ledger_s[Cause.RESTART][hit], job.down_s)


def test_fewer_nodes_go_on_at_their_share_of_the_speed():
    job = plan(1e-6, work_s=10 * DAY_S, spares=0, causes=(Failure("node", 1e-6, 1),))
    job = replace(job, nodes=4, shrink=True)
    outcome = simulate(job, 500)
    hit = (outcome.interruptions == 1) & (outcome.finish_s < 12 * DAY_S)
    assert not outcome.ledger_s[Cause.REPAIR][hit].any()
    slower = outcome.ledger_s[Cause.FEWER_NODES][hit]
    assert 0.9 * 0.25 * DAY_S < np.median(slower) < 0.25 * DAY_S


def test_a_loss_spike_throws_away_at_least_the_rollback():
    rate = 1e-5
    job = plan(rate, causes=(Failure("spike", rate, 0, 7200.0),), work_s=10 * DAY_S)
    outcome = simulate(job, 500)
    lost = outcome.ledger_s[Cause.LOST_WORK].sum() / outcome.interruptions.sum()
    assert 0.9 * 7200 < lost < 7200 + 2 * 1830


def test_hopeless_jobs_are_given_up():
    outcome = simulate(plan(1 / 300.0), 50)
    assert not outcome.finished.any()
    assert np.isinf(outcome.finish_s).all()


def test_too_few_spares_are_given_up_as_well():
    job = plan(causes=(Failure("node", LLAMA_RATE, 1),), spares=0, repair_s=10 * DAY_S)
    assert not simulate(job, 50).finished.any()


@pytest.mark.parametrize(
    "fields",
    [
        {"spares": 8},
        {
            "spares": 9,
            "causes": (Failure("a", LLAMA_RATE / 3, 1), Failure("b", LLAMA_RATE / 30, 6)),
        },
        {"blocking_s": 3.0, "written_s": 1500.0, "interval_s": 900.0},
        {"causes": (Failure("a", LLAMA_RATE / 2, 1), Failure("spike", LLAMA_RATE / 2, 0, 5000.0))},
    ],
    ids=["few spares", "racks", "written beside", "spikes"],
)
def test_a_plain_simulation_agrees(fields):
    """Another program with other random numbers: the same means within four standard errors."""
    job = plan(**({"work_s": 10 * DAY_S, "startup_s": 500.0} | fields))
    random, count = Random(7), 400
    plain = np.array([played(job, random) for _ in range(count)])
    finish_s, waited_s = plain.mean(axis=0)
    error_s, waited_error_s = 4.0 * plain.std(axis=0) / count**0.5
    outcome = simulate(job, 4000, seed=2)
    assert outcome.finish_s.mean() == pytest.approx(finish_s, abs=error_s)
    assert error_s < 0.02 * finish_s
    waiting = outcome.ledger_s[Cause.REPAIR].mean()
    assert waiting == pytest.approx(waited_s, abs=waited_error_s)
