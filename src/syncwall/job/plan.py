"""A job as the simulation sees it: seconds, rates and counts, nothing left open.

Holds `Plan` and `Cause`.
"""

from dataclasses import dataclass, field
from math import exp

DAY_S = 86400.0
CLIP = 1.5
"""Rates of clusters are drawn within so many deviations; the published ones lie within 1.2."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why the job stops."""

    name: str
    per_s: float
    """Interruptions in a second, of the whole job."""
    nodes: int = 0
    """Nodes that it takes away until they are repaired."""
    rollback_s: float = 0.0
    """Work before the interruption that is thrown away at least."""


@dataclass(frozen=True)
class Plan:
    """What happens in a job, in seconds."""

    work_s: float
    """Steps times the P50 of a step."""
    step_deviation: float = 0.0
    """Standard deviation of ln(true step / P50)."""
    beside: dict[str, float] = field(default_factory=dict)
    """Time that goes along with the work, as shares of it: evaluation, data, maintenance, ..."""
    startup_s: float = 0.0
    interval_s: float = 3600.0
    """Work between two checkpoints."""
    blocking_s: float = 0.0
    """Time that a checkpoint stops the work."""
    written_s: float = 0.0
    """From there until the checkpoint counts, where it is written beside the work; else 0."""
    causes: tuple[Cause, ...] = ()
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
