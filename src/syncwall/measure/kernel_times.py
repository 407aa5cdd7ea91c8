"""The kernels of a training step, what each of them reached, and durations of repeated trials.

The shapes are those that the predictor prices, taken from its own list of work; they run in
`trials.py`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from syncwall.describe import Layout, Model
from syncwall.describe.base import Description
from syncwall.measure.team import Team
from syncwall.work.block import Stream
from syncwall.work.operations import Convolution, CoreAttention, Dimensions, Elementwise, Gemm
from syncwall.work.transformer_step import transformer_step

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


def timed_kernel(
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


OperationName = Literal["gemm", "attention", "convolution", "elementwise"]


@dataclass(frozen=True)
class TimedKernel:
    """One operation of a step."""

    name: str
    what: Gemm | CoreAttention | Convolution | Elementwise
    copies: int
    """How often the step of a model has it, at least 2: sets of operands to go through."""


class KernelRow(Description):
    """What one kernel reached."""

    name: str
    operation: OperationName
    shape: Dimensions
    """Dimensions, as the measured points of a calibration name them."""
    times: Times
    flop_per_s: float
    bytes_per_s: float
    """Of the traffic that the model of the work counts."""

    @classmethod
    def of(cls, kernel: TimedKernel, seconds: Sequence[float]) -> Self:
        """The row of `kernel` from the seconds of its trials."""
        what, times = kernel.what, Times.of(seconds)
        return cls(
            name=kernel.name,
            operation=what.measured_as,
            shape=what.dimensions,
            times=times,
            flop_per_s=float(what.flops) / times.median_s,
            bytes_per_s=float(what.hbm_bytes) / times.median_s,
        )


@dataclass(frozen=True)
class Workload:
    """A step of one rank; `layout` is resolved."""

    model: Model
    layout: Layout
    seq: int


def kernels_of(workload: Workload) -> list[TimedKernel]:
    """Every different kernel in the step of one rank."""
    stage = transformer_step(workload.model, workload.layout, workload.seq).stages[-1]
    found: dict[str, TimedKernel] = {}
    for block in (*stage.forward, *stage.backward, *stage.finish):
        for operation in block.operations:
            what = operation.what
            if (
                operation.stream is not Stream.COMPUTE
                or not isinstance(what, Gemm | CoreAttention | Elementwise)
                or (isinstance(what, Elementwise) and not what.kernels)
            ):  # the begin of a block
                continue
            shape = ", ".join(f"{key} {value}" for key, value in what.dimensions.items())
            name = what.kind if isinstance(what, Elementwise) else operation.name
            copies = max(2, round(float(block.rounds)))
            kernel = found.get(shape)
            if kernel is None:
                found[shape] = TimedKernel(name, what, copies)
            else:
                found[shape] = TimedKernel(kernel.name, kernel.what, kernel.copies + copies)
    return list(found.values())
