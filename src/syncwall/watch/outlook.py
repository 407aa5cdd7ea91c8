"""When a job that runs will be done: its own steps, checkpoints, failures and repairs, played on.

Holds `Rates` with `rates_of` (how often and for how long the job stood), `Rates.job_keys`, which
says so in the words of a job file, `rest_of`, the job that is left, and `outlook`. A job that has
seldom failed says little about its failures: what it tells is weighed with the rate of published
clusters, each by its certainty.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp, log1p, sqrt
from typing import Final

import numpy as np

from syncwall.cause import Cause
from syncwall.describe.job import FailureRates, Job
from syncwall.describe.lookup import failure_rates
from syncwall.job.completion import QUANTILES
from syncwall.job.endless import is_endless
from syncwall.job.plan import DAY_S, Failure, JobPlan
from syncwall.job.simulation import simulate_all
from syncwall.problems import InputError
from syncwall.watch.life import Attempt, Life

_SIMULATIONS: Final[int] = Job.model_fields["simulations"].default
_STUDY: Final = "typical"


@dataclass(frozen=True, slots=True)
class Rates:
    """What the life of a job says about its future."""

    step_s: float
    """Of training alone."""
    beside: dict[Cause, float]
    """Evaluation and waiting for data, as shares of training."""
    checkpoint_s: float
    interval_s: float | None
    """Training between two checkpoints; None if there was none."""
    startup_s: float
    restart_s: float
    """From a failure until the first step of the next attempt."""
    failures: int
    node_days: float
    per_1000_node_days: float
    """Failures, weighed with those of published clusters."""
    deviation: float
    """Of the logarithm of that rate."""
    nodes: int

    def job_keys(self) -> dict[str, str]:
        """What of this is known of the rest of the job, by the keys of a job file ("startup",
        "failures.repair"): with them `syncwall predict --tokens` answers as `outlook` does.
        """
        keys = {
            "startup": "0 s",
            "measured.step": _seconds(self.step_s),
            "measured.checkpoint": _seconds(self.checkpoint_s),
            "measured.restart": _seconds(self.restart_s),
            "failures.per_1000_node_days": repr(self.per_1000_node_days),
            "failures.deviation": repr(self.deviation),
            "failures.repair": "0 s",
            "data_stall": repr(self.beside.get(Cause.DATA_LOADING, 0.0)),
        }
        if self.interval_s is not None:
            keys["checkpoints.interval"] = _seconds(self.interval_s)
        if evaluated := self.beside.get(Cause.EVALUATION):
            keys["evaluation.every"] = "1"
            keys["evaluation.time"] = _seconds(evaluated * self.step_s)
        return keys


def _seconds(value: float) -> str:
    return f"{value!r} s"


def rates_of(life: Life) -> Rates | None:
    """None before the first step that counts."""
    spent, steps = life.seconds, life.steps
    if not steps or not spent[Cause.USEFUL]:
        return None
    useful_s = spent[Cause.USEFUL]
    checkpoints = sum(one.checkpoints for one in life.attempts)
    trained_s = useful_s + spent.get(Cause.LOST_WORK, 0.0)
    stood_s = [
        after.first_step_s - before.steps_end_s
        for before, after in zip(life.attempts, life.attempts[1:], strict=False)
        if after.first_step_s is not None and before.first_step_s is not None
    ]
    startup_s = _start_up_s(life.attempts[0])
    nodes, ranks = life.attempts[-1].nodes, life.attempts[-1].ranks
    node_days = sum(
        one.nodes * (one.last_s - one.started_s) / DAY_S for one in life.attempts
    )  # fmt: skip
    rate, deviation = _weighed(life.failures, node_days, max(ranks // nodes, 1))
    beside = (Cause.EVALUATION, Cause.DATA_LOADING)
    return Rates(
        step_s=useful_s / steps,
        beside={cause: spent[cause] / useful_s for cause in beside if spent.get(cause)},
        checkpoint_s=spent.get(Cause.CHECKPOINT, 0.0) / checkpoints if checkpoints else 0.0,
        interval_s=trained_s / checkpoints if checkpoints else None,
        startup_s=startup_s, restart_s=float(np.mean(stood_s)) if stood_s else startup_s,
        failures=life.failures, node_days=node_days, per_1000_node_days=rate,
        deviation=deviation, nodes=nodes,
    )  # fmt: skip


def _start_up_s(first: Attempt) -> float:
    return 0.0 if first.first_step_s is None else first.first_step_s - first.started_s


def _weighed(failures: int, node_days: float, gpus_per_node: int) -> tuple[float, float]:
    """Rate for 1,000 node-days and the deviation of its logarithm: a gamma distribution with mean
    and spread of published clusters, after so many failures in so many days.
    """
    study = failure_rates(_STUDY)
    usual = _per_1000_node_days(study, gpus_per_node)
    shape = 1.0 / (exp(study.deviation**2) - 1.0)
    days = shape / (usual / 1000.0)
    rate = (shape + failures) / (days + node_days) * 1000.0
    return rate, sqrt(log1p(1.0 / (shape + failures)))


def _per_1000_node_days(study: FailureRates, gpus_per_node: int) -> float:
    parts = {"gpu": gpus_per_node, "nic": gpus_per_node, "node": 1}
    return sum(cause.per_1000_days * parts.get(cause.per, 0) for cause in study.causes)


def rest_of(job: Job, life: Life) -> Job:
    """What is left of `job` after `life`; InputError if nothing is."""
    if job.phases:
        raise InputError.of(
            "the life of a job is one step repeated: write what is left as phases, without --life"
        )
    left = job.total_steps - life.steps
    if left <= 0:
        raise InputError.of(f"the job is done: {life.steps:,} of {job.total_steps:,} steps")
    saving, step_s = job.checkpoints, job.measured.step_s
    if saving.interval_s is None and step_s and not any(one.checkpoints for one in life.attempts):
        saving = saving.model_copy(update={"interval_s": left * step_s})  # it saves at the end only
    now = datetime.fromtimestamp(life.now_s, UTC)
    return job.model_copy(
        update={"steps": left, "tokens": None, "start": now, "checkpoints": saving}
    )


def outlook(rates: Rates, steps_left: int, seed: int = 0) -> tuple[float, float, float]:
    """P10, P50 and P90 of the time from now to the end; infinity for never."""
    if steps_left <= 0:
        return 0.0, 0.0, 0.0
    work_s = steps_left * rates.step_s
    per_s = rates.per_1000_node_days / 1000.0 / DAY_S * rates.nodes
    plan = JobPlan(
        work_s=work_s, beside=rates.beside, interval_s=rates.interval_s or work_s,
        blocking_s=rates.checkpoint_s, causes=(Failure("failure", per_s),),
        rate_deviation=rates.deviation, restart_s=rates.restart_s, nodes=rates.nodes,
    )  # fmt: skip
    if is_endless(plan):
        return float("inf"), float("inf"), float("inf")
    (played,) = simulate_all([plan], _SIMULATIONS, seed)
    low, half, high = np.quantile(played.finish_s, QUANTILES, method="inverted_cdf")
    return float(low), float(half), float(high)
