"""The numbers of the Sync wall page.

Holds `compared` (curves of a run and of others beside it) and `moves`
(what moves the wall).
"""

from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from syncwall.answer import predict
from syncwall.describe import Layout
from syncwall.describe.names import only_catalogue
from syncwall.describe.stated import StatedRun
from syncwall.plan.choices import Scaling
from syncwall.plan.reference import Reference, start_of
from syncwall.plan.wall.answer import (
    LEVELS,
    Moved,
    Side,
    band,
    does_not_fit,
    setup_of,
    side_of,
    wall_of,
)
from syncwall.plan.wall.moves import WallChange
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.layout import layout_words
from syncwall.show.wall import batch_words, move_words, side_verdict, side_why
from syncwall.web.questions import AskedMoves, AskedRun, AskedWall
from syncwall.web.streams import problem_list

POINTS: Final = 48
"""Counts of a curve that are shown, beside its walls and its ends."""
_RELAID: Final = (
    "tp",
    "sp",
    "pp",
    "virtual_stages",
    "schedule",
    "cp",
    "ep",
    "etp",
    "shard",
    "micro_batch",
    "recompute",
)
"""Fields in which layouts that are searched differ."""


def compared(asked: AskedWall) -> dict[str, Any]:
    """Speed, efficiency and ledger over GPU counts; where efficiency falls, and why."""
    others = (_attempted(one, asked.most, asked.scaling) for one in asked.others)
    return {
        "scaling": asked.scaling,
        "levels": list(LEVELS),
        "runs": [_scaled(asked.run, asked.most, asked.scaling), *others],
    }


def moves(asked: AskedMoves) -> dict[str, Any]:
    """The walls with a faster network, a larger batch, another layout, ...: the model run again.

    As they are first, then after each change, in both ways to scale; `keys` are what to set in the
    run to get it (null: leave open), where it is not another machine.
    """
    start = reference_of(asked.run)
    answer = wall_of(start, asked.most)
    sides = answer.sides.items()
    walls = {way: side.walls for way, side in sides}
    rows = [("as it is", walls, {way: side.peak for way, side in sides})]
    rows += [(move_words(one), one.walls, one.peaks) for one in answer.moved]
    keys = [{}, *(_keys(one, start) for one in answer.moved)]
    named = [
        {"change": row[0], "walls": row[1], "fastest": row[2], "keys": mine}
        for row, mine in zip(rows, keys, strict=True)
    ]
    return {"levels": list(LEVELS), "rows": plain(named)}


def _keys(moved: Moved, start: Reference) -> dict[str, dict[str, Any]]:
    """Keys of a run to set for a change, by the way to scale; none for another machine."""
    if moved.change is WallChange.BATCH:
        twice = {"layout.global_batch": 2 * int(start.run.layout.global_batch or 1)}
        return dict.fromkeys(moved.layouts, twice)
    if moved.change is not WallChange.LAYOUT:
        return {}
    return {way: _layout_keys(layout) for way, layout in moved.layouts.items()}


def _layout_keys(layout: Layout) -> dict[str, Any]:
    """A layout on any number of GPUs: what follows from their number is open."""
    stated = {f"layout.{name}": plain(getattr(layout, name)) for name in _RELAID}
    return stated | {"layout.dp": None, "layout.shard_degree": None}


def reference_of(asked: AskedRun) -> Reference:
    """The run to start from, with the batch that `plan wall` takes if none was stated.

    GPUs and layout are those of the form, never searched.
    """
    run = asked.run()
    fixed = {"nodes": int(run.nodes), "gpus_per_node": int(run.gpus_per_node)}
    stated = StatedRun.of_keys({"layout": {"tp": 1}}).with_keys(asked.stated().keys)
    try:
        with only_catalogue():
            return start_of(stated.with_keys(fixed))
    except InputError:  # the usual batch does not divide: one sequence a replica, as in `predict`
        return Reference(predict(run))


def _attempted(asked: AskedRun | dict[str, Any], most: int, way: Scaling) -> dict[str, Any]:
    try:
        return _scaled(AskedRun.model_validate(asked), most, way)
    except InputError as error:
        return {"problems": problem_list(error)}
    except ValidationError as error:
        found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
        return {"problems": [{"where": where, "what": what} for where, what in found]}


def _scaled(asked: AskedRun, most: int, way: Scaling) -> dict[str, Any]:
    start = reference_of(asked)
    setup = setup_of(start, most)
    side = side_of(setup, way)
    if side is None:
        raise InputError.of(does_not_fit(setup, [way]))
    run = start.run
    return {
        "model": run.model.title or run.model.name,
        "cluster": run.cluster.title or run.cluster.name,
        "layout": layout_words(run.layout),
        "batch": batch_words(setup, way),
        "left_open": start.assumed,
        "stated_gpus": run.gpus,
        "stated_step_s": start.prediction.step_s,
        "most_gpus": setup.most,
        **_curve(side),
        **_band(side, start),
    }


def _band(side: Side, start: Reference) -> dict[str, Any]:
    """How sure the curve is: factors at the counts that are shown, and GPUs at each level."""
    found, kept = band(side, start.prediction), _kept(side)
    return {
        "step_factor": _plain(found.step[kept]),
        "efficiency_factor": _plain(found.efficiency[kept]),
        "wall_ranges": plain(found.walls),
    }


def _curve(side: Side) -> dict[str, Any]:
    curve, kept = side.curve, _kept(side)
    efficiency = curve.efficiency(side.base)
    return {
        "verdict": side_verdict(side),
        "why": side_why(side),
        "falls": side.falls,
        **plain(side.summary),
        "walls": [
            plain(wall) | {"efficiency": _at(side, efficiency, wall.holds_to_gpus)} for wall in side.walls
        ],
        "counts": len(curve.gpus),
        "gpus": [int(count) for count in curve.gpus[kept]],
        "step_s": _plain(curve.step_s[kept]),
        "tokens_per_s": _plain(curve.tokens_per_s[kept]),
        "tokens_per_s_per_gpu": _plain((curve.tokens_per_s / curve.gpus)[kept]),
        "efficiency": _plain(efficiency[kept]),
        "memory_bytes": _plain(curve.memory_bytes[kept]),
        "ledger_s": {
            cause: _plain(seconds[kept])
            for cause, seconds in curve.ledger.items()
            if np.any(seconds[kept] > 0)
        },
    }


def _kept(side: Side) -> Any:
    """Places of the counts that are shown: evenly over the octaves, and all that is marked."""
    gpus = side.curve.gpus
    if len(gpus) <= POINTS:
        return np.arange(len(gpus))
    wanted = np.geomspace(gpus[0], gpus[-1], POINTS)
    even = np.searchsorted(gpus, wanted * (1 - 1e-9)).clip(0, len(gpus) - 1)
    ends = [end for wall in side.walls for end in (wall.holds_to_gpus, wall.falls_at_gpus)]
    marked = [*(end for end in ends if end is not None), side.peak.gpus, side.causes_at]
    return np.unique(np.concatenate([even, np.searchsorted(gpus, marked)]))


def _at(side: Side, efficiency: Any, gpus: int | None) -> float | None:
    if gpus is None:
        return None
    return float(efficiency[int(np.searchsorted(side.curve.gpus, gpus))])


def _plain(values: Any) -> list[float]:
    return [float(value) for value in values]
