"""Durations of repeated trials, taken and summed up.

Holds `timed` and `Times`.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from syncwall.describe.base import Description
from syncwall.measure.team import Team

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_LEAST_TRIALS, _MOST_TRIALS = 5, 60
_LONG_ENOUGH_S = 0.03
"""A trial is at least this long, so that ranks which share a core are interrupted alike."""
_MOST_REPEATS = 64


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


def timed(
    team: Team,
    prepare: Callable[[], None],
    run: Callable[[], None],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds of `run`, on the slowest rank, for as many trials as fit into `seconds`.

    Each starts together on all ranks, after a `prepare` that is not timed. `time.thread_time` as
    `clock` counts only what the thread itself runs, whatever else a machine does.
    """
    once = partial(_once, team, prepare, run, clock)
    first = [once(1) for _ in range(2)][-1]
    repeats = max(1, min(_MOST_REPEATS, round(_LONG_ENOUGH_S / max(first, 1e-9))))
    trials = max(_LEAST_TRIALS, min(_MOST_TRIALS, int(seconds / (first * repeats + 1e-9))))
    return [once(repeats) for _ in range(trials)]


def _once(
    team: Team,
    prepare: Callable[[], None],
    run: Callable[[], None],
    clock: Callable[[], float],
    repeats: int,
) -> float:
    taken = 0.0
    team.barrier()
    for _ in range(repeats):
        prepare()
        team.synchronize()
        begun = clock()
        run()
        team.synchronize()
        taken += clock() - begun
    return team.slowest([taken / repeats])[0]
