"""The sync wall of one run.

Holds `SyncWall`, `Side` (strong or weak), `side_of`, `Moved` and `sync_wall`. `LEVELS`, `Wall`,
`walls`, `Peak`, `peak`, `LostShare` and `losses`: where a curve falls, where it ends, and why.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.plan.choices import Scaling
from syncwall.plan.wall.curve import Base, ScalingCurve, SpeedCurve
from syncwall.plan.wall.moves import Setup, Setups, WallChange, changes
from syncwall.plan.wall.rungs import picked
from syncwall.problems import InputError, option
from syncwall.public import Part, published
from syncwall.work.memory import usable_bytes

LEVELS: Final = (0.9, 0.8, 0.5)
"""Efficiencies whose loss is reported."""
MOST: Final = 0.5
"""A cause is named if it explains at least this share of what was lost."""
WallReason = Literal["slower", "batch", "range"]


@dataclass(frozen=True, slots=True)
class Wall:
    """Where efficiency falls under a level for good."""

    level: float
    holds_to_gpus: int | None
    """Most GPUs that still reach it; None if no count does."""
    falls_at_gpus: int | None
    """The next count that was looked at; None if it never falls."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Where all GPUs together are fastest."""

    gpus: int
    tokens_per_s: float
    ended_by: WallReason
    """More GPUs would be slower; or the batch has no more sequences; or no more were asked for."""


@dataclass(frozen=True, slots=True)
class LostShare:
    """A line of the ledger and its part in what was lost."""

    cause: Cause
    share: float
    """Of the GPU time that a token costs more than at the base; shares add up to 1, those of what
    became cheaper are negative."""


def walls(curve: SpeedCurve, base: Base) -> list[Wall]:
    """The wall of each level, highest level first."""
    return [_wall(curve, base, level) for level in LEVELS]


def _wall(curve: SpeedCurve, base: Base, level: float) -> Wall:
    reaching = np.flatnonzero(curve.efficiency(base) >= level * (1 - 1e-12))
    if not len(reaching):
        return Wall(level, None, int(curve.gpus[0]))
    last = int(reaching[-1])
    falls = int(curve.gpus[last + 1]) if last + 1 < len(curve.gpus) else None
    return Wall(level, int(curve.gpus[last]), falls)


def peak(curve: ScalingCurve, scaling: Scaling, most: int) -> Peak:
    """The count with the most tokens a second; `most` GPUs were asked for."""
    speed = curve.tokens_per_s
    best = int(np.argmax(speed))
    why: WallReason = "slower"
    if best + 1 == len(speed):
        layout: Any = curve.layout
        used_up = int(layout.global_batch[best] * curve.gpus[best] // layout.dp[best]) <= most
        why = "batch" if used_up and scaling is Scaling.STRONG else "range"
    return Peak(int(curve.gpus[best]), float(speed[best]), why)


def losses(curve: SpeedCurve, index: int, first: int = 0) -> list[LostShare]:
    """What a token costs more at count `index` than at count `first`, the largest first."""
    before, after = curve.gpu_s_per_token(first), curve.gpu_s_per_token(index)
    lost = {cause: after.get(cause, 0.0) - before.get(cause, 0.0) for cause in before | after}
    whole = sum(lost.values())
    if whole <= 0:
        return []
    found = [LostShare(cause, seconds / whole) for cause, seconds in lost.items() if seconds]
    return sorted(found, key=lambda loss: -loss.share)


def main_cause(found: list[LostShare]) -> Cause | None:
    """The one that explains most of it; None if none does."""
    return found[0].cause if found and found[0].share >= MOST else None


EXPLAINED: Final = 0.8
"""The level whose wall is explained."""


@published()
@dataclass(frozen=True, slots=True)
class LayoutSizes:
    """What of a layout changes with the number of GPUs."""

    dp: int
    tp: int
    pp: int
    cp: int
    ep: int
    shard: str
    micro_batch: int
    """Sequences."""
    global_batch: int
    """Sequences."""
    virtual_stages: int

    @classmethod
    def of(cls, layout: Layout) -> "LayoutSizes":
        """Those of `layout`."""
        return cls(*(getattr(layout, name) for name in cls.__annotations__))


@published()
@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The run on one number of GPUs."""

    gpus: int
    efficiency: float
    """Speed of a GPU over that at the base."""
    tokens_per_s: float
    """Of all GPUs together."""
    step_s: float
    memory_bytes: float
    """Of the fullest GPU."""
    layout: LayoutSizes


_SIDE: Final = "base walls fastest=peak causes_at_gpus=causes_at causes main_cause"


@published(_SIDE, "curve=points")
@dataclass(frozen=True)
class Side:
    """One way to scale."""

    scaling: Scaling
    curve: ScalingCurve
    base: Base
    """What efficiency is measured against."""
    walls: list[Wall]
    """Where efficiency falls under 90%, 80% and 50% for good."""
    peak: Peak
    """Where all GPUs together are fastest, and why not beyond."""
    losses: list[LostShare]
    """What the GPU time of a token is lost to at `causes_at` GPUs."""
    causes_at: int
    """The count for which the causes are given."""
    summary = Part(_SIDE)

    @property
    def causes(self) -> dict[Cause, float]:
        """Shares of the GPU time that a token costs more there than at the base."""
        return {one.cause: one.share for one in self.losses}

    @property
    def points(self) -> list[CurvePoint]:
        """The fewest GPUs first."""
        curve, efficiency = self.curve, self.curve.efficiency(self.base)
        return [
            CurvePoint(
                gpus,
                efficiency[i],
                curve.tokens_per_s[i],
                curve.step_s[i],
                curve.memory_bytes[i],
                LayoutSizes.of(picked(curve.layout, i)),
            )
            for i, gpus in enumerate(curve.gpus)
        ]

    @property
    def falls(self) -> bool:
        """True if there is a wall to move: efficiency falls under 80% or 90%."""
        return any(wall.falls_at_gpus is not None for wall in self.walls if wall.level >= EXPLAINED)

    @property
    def main_cause(self) -> Cause | None:
        """The one that explains half of it or more; None if nothing alone does."""
        return main_cause(self.losses)


@published("change layouts=sizes walls fastest=peaks")
@dataclass(frozen=True)
class Moved:
    """A change, and where the walls stand with it, against the same base."""

    change: WallChange
    layouts: dict[Scaling, Layout]
    """With which it was computed."""
    walls: dict[Scaling, list[Wall]]
    peaks: dict[Scaling, Peak]

    @property
    def sizes(self) -> dict[Scaling, LayoutSizes]:
        """With which it was computed."""
        return {way: LayoutSizes.of(layout) for way, layout in self.layouts.items()}


@dataclass(frozen=True)
class SyncWall:
    """How far a run can be spread."""

    setup: Setup
    sides: dict[Scaling, Side]
    moved: list[Moved] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<SyncWall {self.setup.case.model.name}: {self.words()}>"

    def words(self) -> str:
        """Up to where efficiency holds 80%."""
        holds = (
            f"{way} {wall.level:.0%} up to {wall.holds_to_gpus or 0:,} GPUs"
            for way, side in self.sides.items()
            for wall in side.walls
            if wall.level == EXPLAINED
        )
        return ", ".join(holds)


def sync_wall(
    setup: Setup,
    better: Callable[["Side"], Layout | None] = lambda side: None,
    *,
    least: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> SyncWall:
    """Strong and weak scaling of `setup`, and what would move its walls.

    `better` finds another layout for where a side has its wall. `least` is the count to compare
    with, instead of the smallest on which the run fits.
    """
    sides = {
        scaling: side for scaling in Scaling if (side := side_of(setup, scaling, least)) is not None
    }
    if not sides:
        raise InputError.of(does_not_fit(setup))

    def search(scaling: Scaling) -> Layout | None:
        return better(sides[scaling]) if scaling in sides else None

    moved: list[Moved] = []
    for change, setups in changes(setup, search):
        moved.append(_moved(change, setups, sides))
        progress(len(moved) / len(WallChange))
    return SyncWall(setup, sides, moved)


def side_of(setup: Setup, scaling: Scaling, least: int | None = None) -> Side | None:
    """One way to scale `setup`, without what would move its walls; None if it fits nowhere."""
    found = setup.curve(scaling)
    if found is None:
        return None
    if least is not None and (found.gpus >= least).any():
        found = found.only(found.gpus >= least)
    first = 0
    if setup.chosen is not None and least is None:
        first = int(np.argmax(found.tokens_per_s / found.gpus))  # few GPUs may have to recompute
    base = found.base_at(first)
    all_walls = walls(found, base)
    falls = next((w.falls_at_gpus for w in all_walls if w.level == EXPLAINED), None)
    index = int(np.searchsorted(found.gpus, falls)) if falls else len(found.gpus) - 1
    top = peak(found, scaling, setup.most)
    return Side(
        scaling, found, base, all_walls, top, losses(found, index, first), int(found.gpus[index])
    )


def _moved(change: WallChange, setups: Setups, sides: dict[Scaling, Side]) -> Moved:
    curves = {scaling: setups[scaling].curve(scaling) for scaling in sides if scaling in setups}
    known = {scaling: found for scaling, found in curves.items() if found is not None}
    return Moved(
        change,
        {scaling: setups[scaling].layout for scaling in known},
        {scaling: walls(found, sides[scaling].base) for scaling, found in known.items()},
        {scaling: peak(found, scaling, setups[scaling].most) for scaling, found in known.items()},
    )


def does_not_fit(setup: Setup, ways: Iterable[Scaling] = tuple(Scaling)) -> str:
    """Why there is no curve at all, with the least memory that any count needs."""
    have = usable_bytes(setup.case.cluster.device)
    layouts = [setup.rungs(scaling) for scaling in ways]
    needed: list[Any] = [np.min(setup.case.memory(one)) for one in layouts if one is not None]
    if not needed:
        return (
            f"no number of GPUs up to {setup.most:,} can share the batch in this layout: write "
            f"another {option('layout.global_batch')}, or {option('most')}"
        )
    return (
        f"this layout does not fit on any number of GPUs: {min(needed) / 1e9:.0f} of "
        f"{have / 1e9:.0f} GB at best; write more {option('layout.tp')} or {option('layout.pp')}, "
        f"{option('layout.shard')} fsdp or {option('layout.recompute')} full, or leave the layout "
        "out to have one found"
    )
