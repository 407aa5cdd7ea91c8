"""How the checkpoint interval trades lost work against time spent on saving.

Holds `IntervalCurve` and `interval_curve`: the renewal formula over intervals around the best one.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.job.plan import DAY_S, Plan
from syncwall.job.renewal import slow_down

_SHORTEST_S: Final = 60.0
_POINTS: Final = 80


@dataclass(frozen=True)
class IntervalCurve:
    """Expected time of a plan over its checkpoint interval, in the long run and with spares."""

    plan: Plan
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


def interval_curve(plan: Plan, best_s: float) -> IntervalCurve | None:
    """Intervals from a minute to a day, or as far as those of `plan` and the best lie.

    None if nothing fails: then every checkpoint but the last is for nothing.
    """
    if plan.rate_per_s <= 0:
        return None
    marked = [min(one, plan.run_s) for one in (plan.interval_s, best_s)]
    low_s, high_s = min(_SHORTEST_S, *marked) / 1.2, max(DAY_S, *marked) * 1.2
    return IntervalCurve(plan, np.geomspace(low_s, high_s, _POINTS))
