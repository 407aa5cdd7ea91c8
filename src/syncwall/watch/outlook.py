"""When a job that runs will be done: its own steps, checkpoints, failures and repairs, played on.

Holds `Rates` with `rates_of` (how often and for how long the job stood), `Rates.job_keys`, which
says so in the words of a job file, and `outlook`. A job that has seldom failed says little about
its failures: what it tells is weighed with the rate of published clusters, each by its certainty.
"""

from dataclasses import dataclass
from math import exp, log1p, sqrt
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause
from syncwall.describe.job import FailureRates
from syncwall.describe.lookup import failure_rates
from syncwall.job.completion import QUANTILES
from syncwall.job.endless import is_endless
from syncwall.job.plan import DAY_S, Failure, JobPlan
from syncwall.job.simulation import simulate_all
from syncwall.watch.life import Attempt, Life

_SIMULATIONS: Final = 400
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

    def job_keys(self) -> dict[str, Any]:
        """As in a job file, for `syncwall predict --tokens`."""
        keys: dict[str, Any] = {
            "startup": f"{self.startup_s:.4g} s",
            "failures": {
                "per_1000_node_days": float(f"{self.per_1000_node_days:.4g}"),
                "deviation": round(self.deviation, 3), "detection": "0 s",
                "restart": f"{self.restart_s:.4g} s",
            },
        }  # fmt: skip
        if self.interval_s is not None:
            keys["checkpoints"] = {"interval": f"{self.interval_s:.4g} s"}
        return keys


def rates_of(life: Life, gpus_per_node: int = 8) -> Rates | None:
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
    nodes = life.attempts[-1].nodes
    node_days = sum(
        one.nodes * (one.last_s - one.started_s) / DAY_S for one in life.attempts
    )  # fmt: skip
    rate, deviation = _weighed(life.failures, node_days, gpus_per_node)
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
