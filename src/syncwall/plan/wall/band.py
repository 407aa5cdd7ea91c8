"""How sure a scaling curve and its walls are.

Holds `Band`, `band` and `WallRange`. A step at any count is as sure as a prediction of it alone:
see `syncwall.answer.interval`. Efficiency compares two counts, so what is wrong at both cancels:
the error at a count is taken as that at the base and an independent one that is added on the way,
whose variance is the difference of the two.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from syncwall.answer import Prediction
from syncwall.answer.interval import Z80, interval
from syncwall.answer.site import scale_of
from syncwall.plan.wall.answer import LEVELS, Side
from syncwall.timeline.ledger import Ledger


@dataclass(frozen=True, slots=True)
class WallRange:
    """Most GPUs that reach a level, if the curve is at the low and at the high end of its band."""

    level: float
    least_gpus: int | None
    most_gpus: int | None
    is_open: bool
    """True if the high end does not fall within the counts that were looked at."""


@dataclass(frozen=True)
class Band:
    """P10 and P90 over the counts of a curve, as factors on the middle."""

    step: Any
    """By which a step may be longer, or shorter."""
    efficiency: Any
    """The same of efficiency; 1 at the base."""
    walls: list[WallRange]


def band(side: Side, start: Prediction) -> Band:
    """The band of a curve of the run that `start` predicts."""
    curve = side.curve
    whole = np.array([_width(side, start, index) for index in range(len(curve.gpus))])
    base = int(np.searchsorted(curve.gpus, side.base.gpus).clip(0, len(whole) - 1))
    added = np.sqrt(np.maximum(whole**2 - whole[base] ** 2, 0.0))
    factor = np.exp(added)
    efficiency = curve.efficiency(side.base)
    ranges = [_range(curve.gpus, efficiency, factor, level) for level in LEVELS]
    return Band(np.exp(whole), factor, ranges)


def _width(side: Side, start: Prediction, index: int) -> float:
    """Half of the 80% interval of ln(step) at one count."""
    curve, run = side.curve, start.run
    size = scale_of(float(curve.gpus[index]), run.model.parameters, run.seq)
    ledger = Ledger({cause: float(seconds[index]) for cause, seconds in curve.ledger.items()})
    traits = replace(start.traits, scale=size)
    found = interval(
        traits, waiting=float(ledger.waiting), unsaid=len(start.assumed), site=start.site
    )  # fmt: skip
    return Z80 * found.deviation


def _range(gpus: Any, efficiency: Any, factor: Any, level: float) -> WallRange:
    least, most = (
        np.flatnonzero(efficiency * far >= level * (1 - 1e-12)) for far in (1 / factor, factor)
    )
    last = [int(gpus[found[-1]]) if len(found) else None for found in (least, most)]
    is_open = bool(len(most) and most[-1] + 1 == len(gpus))
    return WallRange(level, last[0], last[1], is_open)
