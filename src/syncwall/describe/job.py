"""A whole training job: a run, how long it goes on, and what happens on the way.

Holds `Job`, `Checkpoints` and `Failures`.
"""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from syncwall.describe.base import (
    BytesPerSecond,
    Description,
    NotNegative,
    Positive,
    Seconds,
    Tokens,
    UsdPerGpuHour,
)
from syncwall.describe.run import Run


class Checkpoints(Description):
    """How the state is saved."""

    interval_s: Seconds = Field(alias="interval")
    """Time between two checkpoints."""
    storage_bytes_per_s: BytesPerSecond = Field(alias="storage")
    """Rate at which the whole job writes."""
    blocking: bool = True
    """True if training waits until the checkpoint is written."""


class Failures(Description):
    """How often the job is stopped, and for how long."""

    per_1000_node_days: Annotated[float, Field(ge=0)]
    """Failures that stop the job, for 1,000 nodes in a day."""
    detection_s: Seconds = Field(alias="detection")
    """From the failure until somebody or something notices."""
    restart_s: Seconds = Field(alias="restart")
    """From there until the first step is computed again."""


class Job(Description):
    """A run that goes on until it has seen enough tokens."""

    run: Run
    tokens: Tokens | None = None
    steps: Positive | None = None
    """Optimizer steps, as another way to say how long."""
    start: datetime | None = None
    price_usd_per_gpu_hour: UsdPerGpuHour | None = Field(None, alias="price")
    spare_nodes: NotNegative = 0
    checkpoints: Checkpoints | None = None
    failures: Failures | None = None

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.tokens is None) == (self.steps is None):
            raise ValueError("write either `tokens` or `steps`")
        return self

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the job."""
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return -int(-self.tokens // self.run.tokens_per_step)
