"""Jobs that nobody has, refused before they are played through.

Holds `refuse_unreal` (numbers out of this world) and `refuse_endless` (too many interruptions).
"""

from collections.abc import Iterator
from math import exp
from typing import Any, Final

import numpy as np

from syncwall import units
from syncwall.describe import Job
from syncwall.describe.base import Description
from syncwall.describe.provenance import Figure
from syncwall.job.plan import CLIP, DAY_S, Plan
from syncwall.job.renewal import slow_down
from syncwall.job.state import GIVEN_UP
from syncwall.problems import InputError, Problem
from syncwall.units import Dimension

MOST_STOPS: Final = 20_000
"""Interruptions of one job, or in the time of a repair, that are played through."""
_RANGES: Final = {
    Dimension.SECONDS: (0.0, 1e10),
    Dimension.TOKENS: (1.0, 1e18),
    Dimension.BYTES: (1.0, 1e21),
    Dimension.BYTES_PER_S: (1.0, 1e18),
    Dimension.USD_PER_GPU_HOUR: (0.0, 1e6),
}
_MOST: Final = {"simulations": 10_000, "steps": 10**12, "seed": 10**18}
_COUNT: Final = 10**7
"""Of nodes, GPUs, failures in 1,000 node days, ..."""


def refuse_unreal(job: Job) -> None:
    """InputError with every number of `job` that is too small or too large."""
    wrong = [(key, said) for key, value in _numbers(job, "") if (said := _fault(key, value))]
    if wrong:
        raise InputError([Problem(key, 0, 0, said) for key, said in wrong])


def refuse_endless(plan: Plan) -> None:
    """InputError if `plan` is interrupted so often that playing it through would take minutes."""
    spread = exp(CLIP * plan.rate_deviation)
    factors = np.geomspace(1.0 / spread, spread, 31)
    often_per_s = plan.rate_per_s * plan.early_factor * factors
    for stops, when in (
        (float(np.max(often_per_s * _length_s(plan, factors))), "in the job"),
        (float(often_per_s[-1]) * plan.repair_s, "during one repair"),
    ):
        if stops > MOST_STOPS:
            raise InputError.of(
                f"up to {stops:,.0f} interruptions {when}: more than the {MOST_STOPS:,} that are "
                "played through here: write fewer tokens, or rarer failures"
            )


def _length_s(plan: Plan, factors: Any) -> Any:
    """How long jobs are about played on clusters that fail so many times as often as usual."""
    rates = plan.rate_per_s * factors
    slow = slow_down(plan.every_s, plan.blocking_s, rates, plan.down_s, plan.written_s)
    away = sum(cause.per_s * cause.nodes for cause in plan.causes) * plan.repair_s * factors
    long = (away > plan.spares) | (plan.early_factor > 1)
    about_s = plan.run_s * np.minimum(slow, GIVEN_UP)
    length_s = np.where(long, plan.run_s * GIVEN_UP + DAY_S, about_s)
    return np.where(slow > GIVEN_UP, 0.0, plan.startup_s + length_s)


def _fault(key: str, value: Any) -> str:
    if isinstance(value, Figure):
        least, most = _RANGES.get(value.dimension, (0.0, 1e18))
        if least <= value <= most:
            return ""
        written = (units.format(one, value.dimension) for one in (least, most))
        return f"must lie between {' and '.join(written)}"
    most = _MOST.get(key, _COUNT)
    return "" if value <= most else f"must be {most:,} at most"


def _numbers(described: Description, before: str) -> Iterator[tuple[str, Any]]:
    """Every number in a description with its key, but for the run."""
    for name, field in type(described).model_fields.items():
        value, key = getattr(described, name), before + (field.alias or name)
        if name != "run" and isinstance(value, Description):
            yield from _numbers(value, f"{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield key, value
