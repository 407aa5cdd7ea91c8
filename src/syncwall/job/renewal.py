"""Checkpoints against failures, exactly: the renewal formulas that a simulation must agree with.

Holds `expected_s` (expected time of a piece of work), `slow_down`, `best_interval_s`, `young_s` and
`daly_s`. Failures come as a Poisson process, also while the job restarts; a failure loses all work
since the last checkpoint that was written and costs `down_s` before work goes on.

For work between two checkpoints of T seconds with blocking time C, time to write W beside the work
(0 if the checkpoint blocks), rate r and down time D: E = exp(r (D + W)) (exp(r (T + C)) - 1) / r.
With W = 0 that is Daly's equation 13 (A higher order estimate of the optimum checkpoint interval,
2006); W enters because a checkpoint counts W later than it was taken, see
docs/explanation/completion.md.

`IntervalCurve` and `interval_curve`: the renewal formula over intervals around the best one: how
the checkpoint interval trades lost work against time spent on saving.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.job.plan import DAY_S, JobPlan


def expected_s(
    pieces: Any,
    interval_s: Any,
    blocking_s: Any,
    rate_per_s: Any,
    down_s: Any,
    written_s: Any = 0.0,
) -> Any:
    """Expected seconds of `pieces` pieces of work of `interval_s`, with a checkpoint after each.

    Exact for blocking checkpoints; for others it is the limit of many pieces. Broadcasts.
    """
    whole_s = interval_s + blocking_s
    rate = np.maximum(rate_per_s, 1e-300)
    with np.errstate(over="ignore", invalid="ignore"):
        each_s = np.exp(rate * (down_s + written_s)) * np.expm1(rate * whole_s) / rate
    return pieces * np.where(np.asarray(rate_per_s) > 0, each_s, whole_s)


def slow_down(
    interval_s: Any, blocking_s: Any, rate_per_s: Any, down_s: Any, written_s: Any = 0.0
) -> Any:
    """Expected time over the time of the work alone, in the long run."""
    each_s = expected_s(1.0, interval_s, blocking_s, rate_per_s, down_s, written_s)
    with np.errstate(over="ignore"):
        return each_s / interval_s


def best_interval_s(
    blocking_s: float, rate_per_s: float, written_s: float = 0.0, longest_s: float = np.inf
) -> float:
    """The interval with the least `slow_down`; at most `longest_s`, the length of the work.

    The derivative is zero where 1 - r T = exp(-r (T + C)); its root is found by bisection. It does
    not depend on the down time. A checkpoint cannot start before the last one is written.
    """
    if rate_per_s <= 0:
        return longest_s
    low, high = 0.0, 1.0 / rate_per_s
    for _ in range(200):
        middle = (low + high) / 2
        if 1 - rate_per_s * middle > np.exp(-rate_per_s * (middle + blocking_s)):
            low = middle
        else:
            high = middle
    return float(min(max(low, written_s, 1e-9), longest_s))


def young_s(blocking_s: Any, mean_between_s: Any) -> Any:
    """Young 1974: the best interval where checkpoints are short and failures rare."""
    return np.sqrt(2.0 * blocking_s * mean_between_s)


def daly_s(blocking_s: Any, mean_between_s: Any) -> Any:
    """Daly 2006, equation 37: Young's interval to a higher order; the mean time from C = 2 M on."""
    half = blocking_s / (2.0 * mean_between_s)
    root = np.sqrt(half)
    refined = young_s(blocking_s, mean_between_s) * (1.0 + root / 3.0 + half / 9.0) - blocking_s
    return np.where(half < 1.0, refined, mean_between_s)


_SHORTEST_S: Final = 60.0
_POINTS: Final = 80


@dataclass(frozen=True)
class IntervalCurve:
    """Expected time of a plan over its checkpoint interval, in the long run and with spares."""

    plan: JobPlan
    interval_s: Any
    """Work between two checkpoints, shortest first."""

    @property
    def share(self) -> Any:
        """Share of the time in which work that counts is done."""
        return self.share_at(self.interval_s)

    def share_at(self, interval_s: Any) -> Any:
        """The same at one interval; the next checkpoint waits until the last one is written."""
        plan = self.plan
        every_s = np.maximum(interval_s, plan.written_s)
        return 1.0 / slow_down(
            every_s, plan.blocking_s, plan.mean_rate_per_s, plan.down_s, plan.written_s
        )


def interval_curve(plan: JobPlan, best_s: float) -> IntervalCurve | None:
    """Intervals from a minute to a day, or as far as those of `plan` and the best lie.

    None if nothing fails: then every checkpoint but the last is for nothing.
    """
    if plan.rate_per_s <= 0:
        return None
    marked = [min(one, plan.run_s) for one in (plan.interval_s, best_s)]
    low_s, high_s = min(_SHORTEST_S, *marked) / 1.2, max(DAY_S, *marked) * 1.2
    return IntervalCurve(plan, np.geomspace(low_s, high_s, _POINTS))
