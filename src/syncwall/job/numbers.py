"""The numbers of several plans as arrays, one for each simulated job.

Holds `Numbers`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from syncwall.job.plan import Plan

_NAMES = (
    "startup_s", "blocking_s", "written_s", "every_s", "whole_s", "detection_s", "restart_s",
    "repair_s", "spares", "nodes", "replica_nodes", "shrink", "early_factor", "early_s",
    "rate_per_s", "down_s",
)  # fmt: skip


class Numbers:
    """Fields of `Plan` by their names: job i of plan p stands at p x jobs + i."""

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

    def __init__(self, plans: Sequence[Plan], jobs: int) -> None:
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
