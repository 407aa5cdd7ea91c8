"""A job as the simulation sees it, and the renewal formulas that it must agree with.

Failures come as a Poisson process, also while the job restarts; a failure loses all work since the
last checkpoint that was written and costs `down_s` before work goes on.

For work between two checkpoints of T seconds with blocking time C, time to write W beside the work
(0 if the checkpoint blocks), rate r and down time D: E = exp(r (D + W)) (exp(r (T + C)) - 1) / r.
With W = 0 that is Daly's equation 13 (A higher order estimate of the optimum checkpoint interval,
2006); W enters because a checkpoint counts W later than it was taken, see
docs/explanation/completion.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause

DAY_S = 86400.0
CLIP = 1.5
"""Rates of clusters are drawn within so many deviations; the published ones lie within 1.2."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One reason why the job stops."""

    name: str
    per_s: float
    """Interruptions in a second, of the whole job."""
    nodes: int = 0
    """Nodes that it takes away until they are repaired."""
    rollback_s: float = 0.0
    """Work before the interruption that is thrown away at least."""


@dataclass(frozen=True)
class JobPlan:
    """What happens in a job, in seconds."""

    work_s: float
    """Steps times the P50 of a step."""
    step_deviation: float = 0.0
    """Standard deviation of ln(true step / P50)."""
    beside: dict[Cause, float] = field(default_factory=dict)
    """Time that goes along with the work, as shares of it: evaluation, data, maintenance, ..."""
    startup_s: float = 0.0
    interval_s: float = 3600.0
    """Work between two checkpoints."""
    blocking_s: float = 0.0
    """Seconds for which a checkpoint stops the work."""
    written_s: float = 0.0
    """From there until the checkpoint counts, where it is written beside the work; else 0."""
    causes: tuple[Failure, ...] = ()
    rate_deviation: float = 0.0
    """Standard deviation of the logarithm of all rates together."""
    early_factor: float = 1.0
    """Rate at the start over the steady one."""
    early_s: float = 14 * DAY_S
    detection_s: float = 0.0
    restart_s: float = 0.0
    """With reading the checkpoint."""
    repair_s: float = 0.0
    nodes: int = 1
    spares: int = 0
    """Spare nodes."""
    shrink: bool = False
    """Go on with fewer replicas if no spare is left."""
    replica_nodes: float = 1.0
    """Nodes of one replica of the model, what is given up at a time."""

    @property
    def rate_per_s(self) -> float:
        """Interruptions in a second, in the steady state."""
        return sum(cause.per_s for cause in self.causes)

    @property
    def mean_rate_per_s(self) -> float:
        """Interruptions in a second, over the whole length of the work."""
        length_s = self.run_s
        over = self.early_s / length_s * (1.0 - exp(-length_s / self.early_s))
        return self.rate_per_s * (1.0 + (self.early_factor - 1.0) * over)

    @property
    def down_s(self) -> float:
        """From a failure until work goes on, with a spare at hand."""
        return self.detection_s + self.restart_s

    @property
    def run_s(self) -> float:
        """Work and what goes along with it, without interruptions and checkpoints."""
        return self.work_s * (1.0 + sum(self.beside.values()))

    @property
    def every_s(self) -> float:
        """Work between two checkpoints; the next waits until the last one is written."""
        return max(self.interval_s, self.written_s)

    @property
    def whole_s(self) -> float:
        """One interval and its checkpoint."""
        return self.every_s + self.blocking_s


_NAMES = (
    "startup_s",
    "blocking_s",
    "written_s",
    "every_s",
    "whole_s",
    "detection_s",
    "restart_s",
    "repair_s",
    "spares",
    "nodes",
    "replica_nodes",
    "shrink",
    "early_factor",
    "early_s",
    "rate_per_s",
    "down_s",
)


class Numbers:
    """Fields of `JobPlan` by their names: job i of plan p stands at p x jobs + i."""

    startup_s: Any
    blocking_s: Any
    written_s: Any
    every_s: Any
    whole_s: Any
    detection_s: Any
    restart_s: Any
    repair_s: Any
    spares: Any
    nodes: Any
    replica_nodes: Any
    shrink: Any
    early_factor: Any
    early_s: Any
    rate_per_s: Any
    down_s: Any

    def __init__(self, plans: Sequence[JobPlan], jobs: int) -> None:
        for name in _NAMES:
            each = np.array([float(getattr(plan, name)) for plan in plans])
            setattr(self, name, np.repeat(each, jobs))
        self.number = np.arange(len(plans) * jobs)
        """Of each job."""
        self.job = np.tile(np.arange(jobs), len(plans))
        """Number of each job in its plan: equal ones meet the same failures."""
        self.plan = np.repeat(np.arange(len(plans)), jobs)
        """Number of its plan."""
        self.shrinks = any(plan.shrink for plan in plans)
        self.early = any(plan.early_factor != 1 for plan in plans)

    def keep(self, kept: Any) -> None:
        """Forget all jobs but those where `kept` is true."""
        for name in (*_NAMES, "number", "job", "plan"):
            setattr(self, name, getattr(self, name)[kept])


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


def slow_down(interval_s: Any, blocking_s: Any, rate_per_s: Any, down_s: Any, written_s: Any = 0.0) -> Any:
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
        return 1.0 / slow_down(every_s, plan.blocking_s, plan.mean_rate_per_s, plan.down_s, plan.written_s)


def interval_curve(plan: JobPlan, best_s: float) -> IntervalCurve | None:
    """Intervals from a minute to a day, or as far as those of `plan` and the best lie.

    None if nothing fails: then every checkpoint but the last is for nothing.
    """
    if plan.rate_per_s <= 0:
        return None
    marked = [min(one, plan.run_s) for one in (plan.interval_s, best_s)]
    low_s, high_s = min(_SHORTEST_S, *marked) / 1.2, max(DAY_S, *marked) * 1.2
    return IntervalCurve(plan, np.geomspace(low_s, high_s, _POINTS))
