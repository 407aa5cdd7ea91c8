"""The sync wall of one run.

Holds `SyncWall`, `Side` (strong or weak), `side_of`, `Moved` and `sync_wall`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from syncwall.describe import Layout
from syncwall.plan.wall.curve import Base, Curve
from syncwall.plan.wall.moves import Change, Setup, Setups, changes
from syncwall.plan.wall.rungs import Scaling
from syncwall.plan.wall.walls import Cause, Peak, Wall, causes, main_cause, peak, walls
from syncwall.problems import InputError
from syncwall.work.memory import step_memory

EXPLAINED: Final = 0.8
"""The level whose wall is explained."""


@dataclass(frozen=True)
class Side:
    """One way to scale."""

    scaling: Scaling
    curve: Curve
    base: Base
    walls: list[Wall]
    peak: Peak
    causes: list[Cause]
    """What the GPU time of a token is lost to at `causes_at` GPUs."""
    causes_at: int

    @property
    def falls(self) -> bool:
        """True if there is a wall to move: efficiency falls under 80 % or 90 %."""
        return any(wall.falls_at is not None for wall in self.walls if wall.level >= EXPLAINED)

    @property
    def main_cause(self) -> Cause | None:
        """What explains most of the loss; None if nothing alone does."""
        return main_cause(self.causes)


@dataclass(frozen=True)
class Moved:
    """A change, and where the walls stand with it, against the same base."""

    change: Change
    layouts: dict[Scaling, Layout]
    """With which it was computed."""
    walls: dict[Scaling, list[Wall]]
    peaks: dict[Scaling, Peak]


@dataclass(frozen=True)
class SyncWall:
    """How far a run can be spread."""

    setup: Setup
    sides: dict[Scaling, Side]
    moved: list[Moved] = field(default_factory=list)


def sync_wall(
    setup: Setup,
    better: Callable[["Side"], Layout | None] = lambda side: None,
    *,
    least: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> SyncWall:
    """Strong and weak scaling of `setup`, and what would move its walls.

    `better` finds another layout for where a side has its wall. `least` is the count to compare
    with, in the place of the smallest on which the run fits.
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
        progress(len(moved) / len(Change))
    return SyncWall(setup, sides, moved)


def side_of(setup: Setup, scaling: Scaling, least: int | None = None) -> Side | None:
    """One way to scale `setup`, without what would move its walls; None if it fits nowhere."""
    found = setup.curve(scaling)
    if found is None:
        return None
    if least is not None and (found.gpus >= least).any():
        found = found.only(found.gpus >= least)
    base = found.base
    all_walls = walls(found, base)
    falls = next((w.falls_at for w in all_walls if w.level == EXPLAINED), None)
    index = int(np.searchsorted(found.gpus, falls)) if falls else len(found.gpus) - 1
    top = peak(found, scaling, setup.most)
    return Side(scaling, found, base, all_walls, top, causes(found, index), int(found.gpus[index]))


def _moved(change: Change, setups: Setups, sides: dict[Scaling, Side]) -> Moved:
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
    have = setup.case.cluster.device.memory.size_bytes
    layouts = [setup.rungs(scaling) for scaling in ways]
    needed: list[Any] = [
        np.min(step_memory(setup.case.model, one, setup.case.seq).total)
        for one in layouts
        if one is not None
    ]
    if not needed:
        return (
            f"no number of GPUs up to {setup.most:,} can share the batch in this layout: write "
            "another --layout.global-batch, or --most"
        )
    return (
        f"this layout does not fit on any number of GPUs: {min(needed) / 1e9:.0f} of "
        f"{have / 1e9:.0f} GB at best; write more --layout.tp or --layout.pp, --layout.shard fsdp "
        "or --layout.recompute full, or leave the layout out to have one searched"
    )
