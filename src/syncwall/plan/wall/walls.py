"""Where a curve falls, where it ends, and why.

Holds `LEVELS`, `Wall`, `walls`, `Peak`, `peak`, `Cause` and `causes`.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from syncwall.plan.wall.curve import Base, Curve
from syncwall.plan.wall.rungs import Scaling

LEVELS: Final = (0.9, 0.8, 0.5)
"""Efficiencies whose loss is reported."""
MOST: Final = 0.5
"""A cause is named if it explains at least this share of what was lost."""
Why = Literal["slower", "batch", "range"]


@dataclass(frozen=True, slots=True)
class Wall:
    """Where efficiency falls under a level for good."""

    level: float
    holds_to: int | None
    """Most GPUs that still reach it; None if no count does."""
    falls_at: int | None
    """The next count that was looked at; None if it never falls."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Where all GPUs together are fastest."""

    gpus: int
    tokens_per_s: float
    why: Why
    """More GPUs would be slower; or the batch has no more sequences; or no more were asked for."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A line of the ledger and its part in what was lost."""

    name: str
    share: float
    """Of the GPU time that a token costs more than at the base; shares add up to 1, those of what
    became cheaper are negative."""


def walls(curve: Curve, base: Base) -> list[Wall]:
    """The wall of each level, highest level first."""
    return [_wall(curve, base, level) for level in LEVELS]


def _wall(curve: Curve, base: Base, level: float) -> Wall:
    reaching = np.flatnonzero(curve.efficiency(base) >= level * (1 - 1e-12))
    if not len(reaching):
        return Wall(level, None, int(curve.gpus[0]))
    last = int(reaching[-1])
    falls = int(curve.gpus[last + 1]) if last + 1 < len(curve.gpus) else None
    return Wall(level, int(curve.gpus[last]), falls)


def peak(curve: Curve, scaling: Scaling, most: int) -> Peak:
    """The count with the most tokens a second; `most` GPUs were asked for."""
    speed = curve.tokens_per_s
    best = int(np.argmax(speed))
    why: Why = "slower"
    if best + 1 == len(speed):
        layout: Any = curve.layout
        used_up = int(layout.global_batch[best] * curve.gpus[best] // layout.dp[best]) <= most
        why = "batch" if used_up and scaling is Scaling.STRONG else "range"
    return Peak(int(curve.gpus[best]), float(speed[best]), why)


def causes(curve: Curve, index: int, base: Curve | None = None) -> list[Cause]:
    """What a token costs more at count `index` than at the first of `base`, the largest first."""
    before, after = (base or curve).gpu_s_per_token(0), curve.gpu_s_per_token(index)
    lost = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}
    whole = sum(lost.values())
    if whole <= 0:
        return []
    found = [Cause(name, seconds / whole) for name, seconds in lost.items() if seconds]
    return sorted(found, key=lambda cause: -cause.share)


def main_cause(found: list[Cause]) -> Cause | None:
    """The one that explains most of it; None if none does."""
    return found[0] if found and found[0].share >= MOST else None
