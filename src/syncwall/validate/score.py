"""How far predictions are from measurements.

Holds `Score`, `score` and `anchored_mape`. The error of a run is |predicted / measured - 1|.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from syncwall.answer.site import trusted_share
from syncwall.validate.evaluation import Outcome


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


def score(outcomes: Sequence[Outcome]) -> Score:
    """Errors of `outcomes`, of which there is at least one."""
    ratios = np.array([outcome.ratio for outcome in outcomes])
    errors = np.abs(ratios - 1.0)
    covered = [low <= o.case.measured_s <= high for o in outcomes for low, high in [o.interval_s]]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return Score(
        n=len(ratios),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        ratio_median=float(middle),
        ratio_p10=float(low),
        ratio_p90=float(high),
        coverage80=float(np.mean(covered)),
        mape_one_known_run=anchored_mape(ratios) if len(ratios) > 2 else None,
    )


def anchored_mape(ratios: NDArray[np.float64]) -> float:
    """Mean error of all other runs when one run of the set is known, averaged over that one."""
    biases = np.exp(trusted_share(1) * np.log(ratios))
    ordered, count = np.sort(ratios), len(ratios)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    below = np.searchsorted(ordered, biases)
    distances = biases * (2 * below - count) + sums[-1] - 2 * sums[below]
    others = distances - np.abs(ratios - biases)
    return float((others / biases).sum() / (count * (count - 1)))
