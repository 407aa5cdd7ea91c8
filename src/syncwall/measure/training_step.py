"""A real training step: what is run, and what was measured, with a ledger from its own clocks.

Holds `StepSettings`, `StepData`, `RankTime` and `summed_up`; the steps themselves run in `loop.py`.
`Straggler` and `slow_ranks`: who is slow: a rank whose own work takes longer than that of the
others, step after step.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from syncwall.cause import Cause
from syncwall.describe import Model
from syncwall.describe.base import Description
from syncwall.measure.kernel_times import Times
from syncwall.outliers import stands_out
from syncwall.work.flops import forward_flops

LOADER_DELAY = "SYNCWALL_LOADER_DELAY_S"
"""Variable with the seconds that a rank's data loader sleeps in each step: a fault of the lab."""
SLOWER = 1.4
"""A rank is accused only if its work takes this many times that of the others."""
CONSISTENT = 0.8
"""And if it is slower by half of that in this share of the steps."""


class Straggler(Description):
    """A rank or host that holds the others up."""

    host: str
    ranks: tuple[int, ...]
    ratio: Annotated[float, Field(gt=0)]
    """Its time over that of the others."""
    share: Annotated[float, Field(ge=0, le=1)]
    """Share of the steps in which it was slower."""

    def __str__(self) -> str:
        ranks = ", ".join(map(str, self.ranks))
        return (
            f"host {self.host} (rank {ranks}) is slow: its own work takes {self.ratio:.2f} times "
            f"that of the others, in {self.share:.0%} of the steps"
        )


def slow_ranks(busy_s: Sequence[Sequence[float]], hosts: Sequence[str]) -> tuple[Straggler, ...]:
    """Ranks that are slow in `busy_s` (by rank and step), one entry for each host."""
    times = np.asarray(busy_s, dtype=float)
    if len(times) < 2 or not times.size:
        return ()
    found: dict[str, list[tuple[int, float, float]]] = {}
    for rank in range(len(times)):
        others = np.maximum(np.median(np.delete(times, rank, axis=0), axis=0), 1e-12)
        ratios = times[rank] / others
        ratio = float(np.median(ratios))
        share = float(np.mean(stands_out(ratios - 1.0, 1.0, share=(SLOWER - 1.0) / 2.0)))
        if stands_out(ratio - 1.0, 1.0, share=SLOWER - 1.0) and share >= CONSISTENT:
            found.setdefault(hosts[rank], []).append((rank, ratio, share))
    return tuple(
        Straggler(
            host=host,
            ranks=tuple(rank for rank, _, _ in ranks),
            ratio=max(ratio for _, ratio, _ in ranks),
            share=max(share for _, _, share in ranks),
        )
        for host, ranks in found.items()
    )


Sharing = Literal["ddp", "fsdp", "none"]
DEFAULT_MODEL = "tiny-5m"
CAUSES = (
    Cause.DATA,
    Cause.FORWARD,
    Cause.BACKWARD,
    Cause.EXPOSED_DP,
    Cause.EXPOSED_GATHER,
    Cause.OPTIMIZER,
    Cause.REST,
)
"""Lines of the ledger of a measured step; they add up to it."""


class StepSettings(Description):
    """What is run."""

    model: Model
    seq: Annotated[int, Field(ge=1)] = 128
    shard: Sharing = "ddp"
    micro_batch: Annotated[int, Field(ge=1)] = 4
    precision: Literal["fp32", "bf16"] = "fp32"
    bucket_bytes: Annotated[float, Field(gt=0)] = 25 * 2.0**20
    steps: Annotated[int, Field(ge=1)] = 10
    warm_up: Annotated[int, Field(ge=0)] = 2
    peak_flop_per_s: Annotated[float, Field(gt=0)] | None = None
    """Dense peak of the device of one rank, which MFU refers to."""
    profile: str | None = None
    """Directory for a profile of each rank; None records nothing."""


class RankTime(Description):
    """What one rank did in a step, on average."""

    rank: int
    host: str
    busy_s: float
    """Its own work: everything but waiting for others."""
    ledger_s: dict[Cause, float]


class StepData(Description):
    """A measured step."""

    times: Times
    """Of the step; of each, the slowest rank's."""
    ledger_s: dict[Cause, float]
    """Seconds by cause, the average of all ranks; they add up to the median step."""
    ranks: tuple[RankTime, ...]
    tokens_per_s: float
    """Of the whole job."""
    model_flop_per_s: float
    """FLOP of the mathematics a second and rank."""
    matmul_flop_per_s: float
    """What one large matrix multiplication reached on every rank at once, just before."""
    suspects: tuple[Straggler, ...] = ()
    mfu: float | None = None
    """Model FLOPs utilisation: causal, of the dense peak that was stated; None if none was."""

    @property
    def of_matmul(self) -> float:
        """Share of what a large multiplication reaches."""
        return self.model_flop_per_s / self.matmul_flop_per_s


def summed_up(
    every: list[list[dict[Cause, float]]],
    seconds: list[float],
    hosts: tuple[str, ...],
    settings: StepSettings,
    matmul_flop_per_s: float,
) -> StepData:
    """The data of a step from the ledgers of each rank and step."""
    times = Times.of(seconds)
    means = [{cause: float(np.mean([ledger[cause] for ledger in one])) for cause in CAUSES} for one in every]
    ranks = tuple(
        RankTime(rank=rank, host=hosts[rank], busy_s=_busy(mean), ledger_s=mean)
        for rank, mean in enumerate(means)
    )
    joint = {cause: float(np.mean([mean[cause] for mean in means])) for cause in CAUSES}
    scale = times.median_s / sum(joint.values())
    tokens = settings.micro_batch * settings.seq
    return StepData(
        times=times,
        ledger_s={cause: value * scale for cause, value in joint.items() if value > 0},
        ranks=ranks,
        tokens_per_s=tokens * len(hosts) / times.median_s,
        model_flop_per_s=_model_flops(settings) / times.median_s,
        matmul_flop_per_s=matmul_flop_per_s,
        mfu=_mfu(settings, times.median_s),
        suspects=slow_ranks([[_busy(ledger) for ledger in one] for one in every], hosts),
    )


def _model_flops(settings: StepSettings) -> float:
    """FLOP of one rank's step: forward, and twice that backward."""
    forward, _ = forward_flops(settings.model, settings.seq)
    return 3.0 * float(forward) * settings.micro_batch


def _mfu(settings: StepSettings, step_s: float) -> float | None:
    peak = settings.peak_flop_per_s
    return None if peak is None else _model_flops(settings) / step_s / peak


def _busy(ledger: dict[Cause, float]) -> float:
    return sum(seconds for cause, seconds in ledger.items() if not cause.is_wait)
