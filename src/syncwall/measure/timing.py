"""Durations of repeated trials, summed up.

Holds `Times`.
"""

from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from syncwall.describe.base import Description

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Times(Description):
    """Seconds of one thing over its trials; of each trial, those of the slowest rank."""

    median_s: Duration
    mean_s: Duration
    """Without the tenth of the trials that took longest: what many of them add up to."""
    p10_s: Duration
    p90_s: Duration
    worst_s: Duration
    trials: Annotated[int, Field(ge=1)]

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """The summary of `seconds`, one for each trial."""
        p10, median, p90 = np.percentile(seconds, (10, 50, 90))
        return cls(
            median_s=float(median),
            mean_s=float(np.mean(np.sort(seconds)[: max(1, len(seconds) - len(seconds) // 10)])),
            p10_s=float(p10),
            p90_s=float(p90),
            worst_s=float(max(seconds)),
            trials=len(seconds),
        )

    @property
    def spread(self) -> float:
        """Half of P90 - P10, over the median: how much a trial varies."""
        return (self.p90_s - self.p10_s) / 2.0 / self.median_s if self.median_s else 0.0
