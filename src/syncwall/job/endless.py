"""Jobs that would be played through for hours.

Holds `is_endless` and `refuse_endless`, which bound interruptions before they are played.
"""

from math import exp
from typing import Any, Final

import numpy as np

from syncwall.job.plan import CLIP, DAY_S, JobPlan
from syncwall.job.renewal import slow_down
from syncwall.job.state import GIVEN_UP
from syncwall.problems import InputError

MOST_STOPS: Final = 20_000
"""Interruptions of one job, or in the time of a repair, that are played through."""


def refuse_endless(plan: JobPlan) -> None:
    """InputError if `plan` is interrupted so often that playing it through would take minutes."""
    for often, when in _stops(plan):
        if often > MOST_STOPS:
            raise InputError.of(
                f"up to {often:,.0f} interruptions {when}: more than the {MOST_STOPS:,} that are "
                "played through: write fewer tokens, or rarer failures"
            )


def is_endless(plan: JobPlan) -> bool:
    """True for what `refuse_endless` refuses."""
    return any(often > MOST_STOPS for often, _ in _stops(plan))


def _stops(plan: JobPlan) -> tuple[tuple[float, str], ...]:
    """The most interruptions to expect, and when."""
    spread = exp(CLIP * plan.rate_deviation)
    factors = np.geomspace(1.0 / spread, spread, 31)
    often_per_s = plan.rate_per_s * plan.early_factor * factors
    return (
        (float(np.max(often_per_s * _length_s(plan, factors))), "in the job"),
        (float(often_per_s[-1]) * plan.repair_s, "during one repair"),
    )


def _length_s(plan: JobPlan, factors: Any) -> Any:
    """How long jobs are about played on clusters that fail so many times as often as usual."""
    rates = plan.rate_per_s * factors
    slow = slow_down(plan.every_s, plan.blocking_s, rates, plan.down_s, plan.written_s)
    away = sum(cause.per_s * cause.nodes for cause in plan.causes) * plan.repair_s * factors
    long = (away > plan.spares) | (plan.early_factor > 1)
    about_s = plan.run_s * np.minimum(slow, GIVEN_UP)
    length_s = np.where(long, plan.run_s * GIVEN_UP + DAY_S, about_s)
    return np.where(slow > GIVEN_UP, 0.0, plan.startup_s + length_s)
