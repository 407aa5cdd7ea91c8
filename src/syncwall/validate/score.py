"""How far predictions are from measurements.

Holds `Score`, `score`, `anchored_mape` and `evenly`. The error of a run is
|predicted / measured - 1|.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from syncwall.answer.site import BETWEEN_SITES, PER_DISTANCE, WITHIN_SITE
from syncwall.answer.traits import distances_among
from syncwall.validate.evaluation import Outcome

Item = TypeVar("Item")
MOST_ANCHORS = 400
"""Runs of a set that are tried as known runs."""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over some runs."""

    n: int
    mape: float
    """Mean of the errors."""
    median_ape: float
    ratio_median: float
    """Predicted over measured."""
    ratio_p10: float
    ratio_p90: float
    coverage80: float
    """Share of the runs inside their 80 % interval."""
    mape_one_known_run: float | None
    """Mean error of the others after one run of the set was given as known, over all choices."""
    mape_without_bias: float
    """Mean error after dividing by the median ratio, as if all runs of the set were known."""
    n_memory: int = 0
    """Runs whose memory the source gives."""
    memory_mape: float | None = None
    """Mean error of their memory."""


def score(outcomes: Sequence[Outcome]) -> Score:
    """Errors of `outcomes`, of which there is at least one."""
    ratios = np.array([outcome.ratio for outcome in outcomes])
    errors = np.abs(ratios - 1.0)
    covered = [low <= o.case.measured_s <= high for o in outcomes for low, high in [o.interval_s]]
    memory = [found for o in outcomes if (found := o.memory_ratio) is not None]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return Score(
        n=len(ratios),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        ratio_median=float(middle),
        ratio_p10=float(low),
        ratio_p90=float(high),
        coverage80=float(np.mean(covered)),
        mape_one_known_run=anchored_mape(outcomes) if len(ratios) > 2 else None,
        mape_without_bias=float(np.abs(ratios / middle - 1.0).mean()),
        n_memory=len(memory),
        memory_mape=float(np.mean(np.abs(np.array(memory) - 1.0))) if memory else None,
    )


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """`items`, or `most` of them, evenly spread."""
    step = max(1.0, len(items) / most)
    return [items[int(i * step)] for i in range(min(len(items), most))]


def anchored_mape(outcomes: Sequence[Outcome]) -> float:
    """Mean error of the other runs when one run of the set is known, averaged over that one.

    Of long sets an even sample counts.
    """
    some = evenly(outcomes, MOST_ANCHORS)
    logs = np.log([outcome.ratio for outcome in some])
    far = distances_among([outcome.traits for outcome in some])
    trusted = BETWEEN_SITES**2 / (BETWEEN_SITES**2 + WITHIN_SITE**2 + (PER_DISTANCE * far) ** 2)
    errors = np.abs(np.expm1(logs[None, :] - trusted * logs[:, None]))
    count = len(some)
    return float((errors.sum() - np.trace(errors)) / (count * (count - 1)))
