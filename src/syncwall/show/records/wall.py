"""A sync wall as plain data.

Holds `WallRecord` with `wall_record`, and `side_record`, of one way to scale.
"""

from collections.abc import Iterable
from typing import cast

from typing_extensions import TypedDict

from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.plan.choices import Scaling
from syncwall.plan.reference import Reference
from syncwall.plan.wall.answer import Moved, Peak, Side, SyncWall, Wall
from syncwall.plan.wall.curve import Base
from syncwall.plan.wall.moves import WallChange
from syncwall.plan.wall.rungs import picked
from syncwall.show.records.interface import record
from syncwall.show.records.prediction import StartRecord, start_record
from syncwall.show.words.wall import side_verdict


@record
class SizesRecord(TypedDict):
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


@record
class CountRecord(TypedDict):
    """The run on one number of GPUs."""

    gpus: int
    efficiency: float
    """Speed of a GPU over that at the base."""
    tokens_per_s: float
    """Of all GPUs together."""
    step_s: float
    memory_bytes: float
    """Of the fullest GPU."""
    layout: SizesRecord


@record
class SideRecord(TypedDict):
    """One way to scale."""

    base: Base
    """What efficiency is measured against."""
    walls: list[Wall]
    """Where efficiency falls under 90%, 80% and 50% for good."""
    fastest: Peak
    """Where all GPUs together are fastest, and why not beyond."""
    causes_at_gpus: int
    """The count for which the causes are given."""
    causes: dict[Cause, float]
    """Shares of the GPU time that a token costs more there than at the base."""
    main_cause: Cause | None
    """The one that explains half of it or more."""
    curve: list[CountRecord]
    """The fewest GPUs first."""


@record
class MovedRecord(TypedDict):
    """One change, and where the walls stand with it."""

    change: WallChange
    layouts: dict[Scaling, SizesRecord]
    """With which it was computed."""
    walls: dict[Scaling, list[Wall]]
    fastest: dict[Scaling, Peak]


@record
class WallRecord(StartRecord):
    """How far a run scales."""

    verdict: list[str]
    """A line for each way to scale."""
    sides: dict[Scaling, SideRecord]
    moved: list[MovedRecord]
    most_gpus: int
    """To which the curves go."""
    global_batch: int
    """Sequences of a step in strong scaling."""
    replica_batch: int
    """Sequences of a replica in weak scaling."""


def wall_record(answer: SyncWall, start: Reference) -> WallRecord:
    """The walls, what moves them, and the run to start from."""
    sides = answer.sides
    return {
        "verdict": [side_verdict(side) for side in sides.values()],
        "sides": {w: side_record(one, range(len(one.curve.gpus))) for w, one in sides.items()},
        "moved": [_moved(moved) for moved in answer.moved],
        "most_gpus": answer.setup.most,
        "global_batch": answer.setup.batch,
        "replica_batch": answer.setup.replica_batch,
        **start_record(start),
    }


def side_record(side: Side, places: Iterable[int]) -> SideRecord:
    """One way to scale, with those counts of its curve that stand at `places`."""
    curve = side.curve
    efficiency = curve.efficiency(side.base)
    return {
        "base": side.base,
        "walls": side.walls,
        "fastest": side.peak,
        "causes_at_gpus": side.causes_at,
        "causes": {one.cause: one.share for one in side.losses},
        "main_cause": side.main_cause,
        "curve": [
            {
                "gpus": curve.gpus[i],
                "efficiency": efficiency[i],
                "tokens_per_s": curve.tokens_per_s[i],
                "step_s": curve.step_s[i],
                "memory_bytes": curve.memory_bytes[i],
                "layout": _sizes(picked(curve.layout, i)),
            }
            for i in places
        ],
    }


def _sizes(layout: Layout) -> SizesRecord:
    sizes = {name: getattr(layout, name) for name in SizesRecord.__annotations__}
    return cast("SizesRecord", sizes)


def _moved(moved: Moved) -> MovedRecord:
    return {
        "change": moved.change,
        "layouts": {way: _sizes(layout) for way, layout in moved.layouts.items()},
        "walls": moved.walls,
        "fastest": moved.peaks,
    }
