"""What published clusters report, from published inputs."""

from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

import syncwall as sw
from syncwall.cause import Cause
from syncwall.describe.lookup import failure_rates
from syncwall.job.job_plan import DAY_S, JobPlan, best_interval_s, slow_down
from syncwall.job.settled_job import FailureUnits, failure_causes, job_plan
from syncwall.job.simulation import SimulatedJobs
from tests.job.plans import simulate

DAYS = 54.0


def llama_3(like: str, **fields: Any) -> JobPlan:
    """Llama 3 405B on 16,384 H100 with its storage (2 TB/s, section 3.3.1); the rest by default."""
    run = sw.Run(
        model="llama-3.1-405b",
        cluster=sw.cluster("meta-24k-h100", nodes=2048),
        layout=sw.Layout(tp=8, pp=16, shard="fsdp", global_batch=2048),
    )
    job = sw.Job(
        run=run,
        steps=100_000,
        failures={"like": like},
        checkpoints={"storage_bytes_per_s": 2e12},
        **fields,
    )
    return replace(job_plan(job, sw.predict(run)).plan, step_deviation=0.0)


def over_54_days(plan: JobPlan, count: int = 400) -> tuple[float, SimulatedJobs]:
    """Effective share and outcome of a job whose mean length is 54 days."""
    effective = 0.9
    for _ in range(3):
        outcome = simulate(replace(plan, work_s=DAYS * DAY_S * effective), count)
        effective = float(outcome.ledger_s[Cause.USEFUL].mean() / outcome.finish_s.mean())
    return effective, outcome


def test_llama_3_trains_more_than_nine_tenths_of_its_time():
    """arXiv:2407.21783, section 3.3.4: 466 interruptions, 47 of them planned, over 90% effective.

    Failures by cause from its table 5, storage from section 3.3.1. What the paper does not state is
    taken from others: detection as large clusters are operated, restart times of Meta's later runs.
    """
    planned: dict[str, Any] = {"every_s": DAYS * DAY_S / 47, "time_s": 0.0}
    effective, outcome = over_54_days(llama_3("llama3-h100", maintenance=planned))
    assert 0.90 < effective < 0.95
    low, high = np.quantile(outcome.interruptions, (0.1, 0.9))
    assert low <= 419 <= high  # consistent: the rates are from the same table


def test_llama_3_interruptions_from_other_clusters():
    """419 in 54 days lie between P10 and P90 of what four other clusters let expect."""
    _, outcome = over_54_days(llama_3("typical"))
    low, middle, high = np.quantile(outcome.interruptions, (0.1, 0.5, 0.9))
    assert low <= 419 <= high
    assert 419 / 1.3 < middle < 419 * 1.3


@pytest.mark.parametrize(("like", "low", "high"), [("meta-rsc-1", 670, 770), ("meta-rsc-2", 230, 285)])
def test_one_other_cluster_alone_does_not_tell_the_count(like, low, high):
    """RSC-1 has too many failures for Llama 3's 419, RSC-2 too few: hence the spread above."""
    _, outcome = over_54_days(llama_3(like), 300)
    assert low < np.median(outcome.interruptions) < high


@pytest.mark.parametrize(
    ("nodes", "rate", "interval", "write"),
    [
        (128, 6.5, 3600, 300),
        (256, 6.5, 3600, 300),
        (512, 6.5, 3600, 300),
        (1500, 1.0, 5680, 300),
        (1500, 6.5, 414, 10),
        (1000, 2.34, 1800, 60),
    ],
)
def test_effective_time_of_meta_rsc(nodes, rate, interval, write):
    """arXiv:2410.21680: (1 - N r (u + T / 2)) / (1 + w / T), which it checks against its jobs.

    Ours is within 2 points where the approximation holds (failures rare in an interval).
    """
    per_s = nodes * rate / 1000 / DAY_S
    theirs = (1 - per_s * (300 + interval / 2)) / (1 + write / interval)
    ours = 1 / float(slow_down(interval, write, per_s, 300.0))
    assert ours == pytest.approx(theirs, abs=0.02)


def test_what_meta_rsc_needs_for_nine_tenths():
    """arXiv:2410.21680, 12,000 GPUs: 1 failure in 1,000 node-days, or checkpoints of 10 s."""

    def best(rate: float, write: float) -> float:
        per_s = 1500 * rate / 1000 / DAY_S
        interval = best_interval_s(write, per_s)
        return 1 / float(slow_down(interval, write, per_s, 300.0))

    assert best(1.0, 300.0) == pytest.approx(0.9, abs=0.02)
    assert 0.9 <= best(6.5, 10.0) < 0.93
    assert best(6.5, 300.0) < 0.8


def test_largest_jobs_of_meta_rsc():
    """0.85 to 0.9 for the largest jobs: 2,048 to 4,096 GPUs saving hourly for 5 minutes."""
    for nodes in (256, 512):
        per_s = nodes * 6.5 / 1000 / DAY_S
        assert 0.83 < 1 / float(slow_down(3600.0, 300.0, per_s, 300.0)) < 0.92


def test_effective_time_on_98_000_gpus():
    """arXiv:2602.00277: one failure in 18 minutes, 900 s to recover (figure 2): 44% effective.

    Failures also hit the recovery, else it would be 18 / 33 = 55%. Work lost is not published;
    with checkpoints every minute that cost nothing it is small.
    """
    assert 1 / float(slow_down(60.0, 0.0, 1 / 1080.0, 900.0)) == pytest.approx(0.44, abs=0.02)


def test_effective_time_of_byterobust():
    """arXiv:2509.16293: 97% in three months on 9,600 GPUs.

    Its failures are not published by node, so the typical ones are taken; detection of 2 to 60 s,
    a checkpoint every step at 0.9% of it, restarts as by default.
    """
    causes = failure_causes(
        failure_rates("typical"), FailureUnits.of(sw.Failures(), sw.cluster("dgx-h100", nodes=1200))
    )
    plan = JobPlan(
        work_s=80 * DAY_S,
        interval_s=20.0,
        blocking_s=0.18,
        causes=causes,
        rate_deviation=0.81,
        detection_s=30.0,
        restart_s=60 + 0.0085 * 9600,
        repair_s=DAY_S,
        nodes=1200,
        spares=60,
    )
    outcome = simulate(plan, 300)
    effective = outcome.ledger_s[Cause.USEFUL].mean() / outcome.finish_s.mean()
    assert effective == pytest.approx(0.97, abs=0.02)


def by_cause(study: str) -> list[float]:
    """Failures a day of 1,000 nodes of 8 GPUs and 8 NICs, by cause."""
    machine = FailureUnits.of(sw.Failures(), sw.cluster("dgx-h100", nodes=1000))
    return [cause.per_s * DAY_S for cause in failure_causes(failure_rates(study), machine)]


def test_the_length_of_llama_3():
    """Its model card states 30.84 million GPU-hours: 78 days of 16,384 GPUs, for 15.6T tokens."""
    example = Path(__file__).parents[2] / "examples" / "jobs" / "llama-3-405b.yaml"
    done = sw.finish(example)
    measured = 30.84e6 * 3600 / 16_384
    low, middle, high = done.finish_s
    assert low < measured < high
    assert middle == pytest.approx(measured, rel=0.1)


def test_llama_3_without_a_word_about_the_job():
    """The same length, and more than 90% effective, from what a job has by default: typical failures,
    asynchronous checkpoints, storage and detection of large clusters. The layout recomputes 2 layers,
    without which it is over the memory by our count. Detection was put together with this length in
    view: this holds the defaults where they are, and is no evidence for them.
    """
    run = sw.Run(
        model="llama-3.1-405b",
        cluster="dgx-h100",
        nodes=2048,
        layout=sw.Layout(
            tp=8, sp=True, pp=16, shard="zero1", recompute="full", recompute_layers=2, global_batch=2048
        ),
        seq=8192,
    )
    done = sw.finish(sw.Job(run=run, tokens=15.6e12, simulations=400))
    assert done.finish_s[1] == pytest.approx(30.84e6 * 3600 / 16_384, rel=0.1)
    assert 0.9 < done.effective < 0.95


def per_1000_nodes(study: str) -> float:
    return sum(by_cause(study))


def shares_of(study: str) -> Any:
    return np.array(by_cause(study)) / per_1000_nodes(study)


def test_the_typical_rates_follow_from_the_studies():
    studies = ("meta-rsc-1", "meta-rsc-2", "meta-h100-32k", "opt-175b")
    logs = [log(per_1000_nodes(study)) for study in studies]
    assert per_1000_nodes("typical") == pytest.approx(exp(mean(logs)), rel=0.005)
    assert failure_rates("typical").deviation == pytest.approx(stdev(logs), abs=0.005)
    ours, theirs = (shares_of(study) for study in ("typical", "llama3-h100"))
    assert np.allclose(ours, theirs, atol=0.001)


def test_the_causes_of_llama_3_add_up():
    """Table 5: 419 unexpected interruptions of 2,048 nodes in 54 days, 268 of them GPUs."""
    assert per_1000_nodes("llama3-h100") * 2.048 * DAYS == pytest.approx(419, abs=0.5)
    gpu = failure_rates("llama3-h100").causes[0]
    assert gpu.per_1000_days / 1000 * 16_384 * DAYS == pytest.approx(268, abs=0.5)
