"""Whether matrix multiplications are as fast as the device should be.

Holds `GemmJudgement` and `judged_gemms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from syncwall.cost.calibration import calibration
from syncwall.cost.compute import gemm_alone_seconds
from syncwall.cost.measured import GemmPoint
from syncwall.describe import Device
from syncwall.work.operations import Gemm

_LARGE: Final = 1024
"""Least dimension of a multiplication that fills a device."""
SLOW_FROM: Final = 1.15
"""Median of measured over expected time; of 23 files of kernels on 8 devices (aiconfigurator) it
lies between 0.93 and 1.07. The calibrations have seen these kernels."""
ONE_SLOW_FROM: Final = 1.5
"""The same of few shapes: 1% of single ones are slower."""
_FEW: Final = 5


@dataclass(frozen=True, slots=True)
class GemmJudgement:
    """Multiplications beside what the device should do."""

    source: str
    device: str
    count: int
    """Shapes that fill the device."""
    flop_per_s: float
    """Of the fastest of them."""
    expected_flop_per_s: float
    """What the same one should reach."""
    ratio: float
    """Median of measured over expected time."""

    @property
    def is_slow(self) -> bool:
        """True if the device is slower than others of its kind."""
        return self.ratio > (SLOW_FROM if self.count >= _FEW else ONE_SLOW_FROM)


def judged_gemms(points: Sequence[GemmPoint], device: Device, source: str) -> GemmJudgement | None:
    """The large ones of `points` on `device`; None if there are none, or it has no such peak."""
    large = [
        p for p in points if min(p.m, p.n, p.k) >= _LARGE and p.dtype in device.peak_flop_per_s
    ]
    if not large:
        return None
    fit = calibration(device).gemm
    shapes = [Gemm(p.m, p.n, p.k, p.dtype, is_weight_gradient=p.is_weight_gradient) for p in large]
    expected = np.array([float(gemm_alone_seconds(one, device, fit)) for one in shapes])
    seconds, flops = np.array([p.seconds for p in large]), np.array([g.flops for g in shapes])
    best = int(np.argmax(flops / seconds))
    return GemmJudgement(
        source, device.name, len(large), float(flops[best] / seconds[best]),
        float(flops[best] / expected[best]), float(np.median(seconds / expected)),
    )  # fmt: skip
