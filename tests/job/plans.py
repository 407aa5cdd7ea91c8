"""Plans to play with."""

from typing import Any

from syncwall.job.job_plan import DAY_S, Failure, JobPlan
from syncwall.job.simulation import SimulatedJobs, simulate_all

LLAMA_RATE = 419 / 54 / DAY_S
"""Unexpected interruptions in a second of Llama 3 405B (arXiv:2407.21783, table 5)."""


def plan(rate: float = LLAMA_RATE, **fields: Any) -> JobPlan:
    """A job like Llama 3's, a fortnight long, with two causes; always enough spares."""
    usual: dict[str, Any] = {
        "work_s": 14 * DAY_S,
        "interval_s": 1800.0,
        "blocking_s": 30.0,
        "causes": (Failure("node", rate * 0.7, 1), Failure("software", rate * 0.3)),
        "detection_s": 300.0,
        "restart_s": 300.0,
        "repair_s": DAY_S,
        "nodes": 2048,
        "spares": 10_000,
    }
    return JobPlan(**(usual | fields))


def simulate(plan: JobPlan, count: int = 1000, seed: int = 0, *, workers: int = 1) -> SimulatedJobs:
    """Play one plan through `count` times."""
    return simulate_all([plan], count, seed, workers=workers)[0]
