"""A job as the simulation sees it: seconds, rates and counts, nothing left open.

Holds `JobPlan` and `Failure`. `Numbers`: the numbers of several plans as arrays, one for each
simulated job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any

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
    "startup_s", "blocking_s", "written_s", "every_s", "whole_s", "detection_s", "restart_s",
    "repair_s", "spares", "nodes", "replica_nodes", "shrink", "early_factor", "early_s",
    "rate_per_s", "down_s",
)  # fmt: skip


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
