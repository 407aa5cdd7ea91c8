"""The numbers of the Sync wall page.

Holds `compared` (curves of a run and of others beside it) and `moves` (what moves the wall).
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from syncwall.answer import predict
from syncwall.describe import Run
from syncwall.describe.names import only_catalogue
from syncwall.plan.reference import Reference, Said, reference
from syncwall.plan.wall.answer import LEVELS, Side, does_not_fit, side_of
from syncwall.plan.wall.found import setup_of, wall_of
from syncwall.plan.wall.moves import Setup
from syncwall.plan.wall.rungs import Scaling
from syncwall.problems import InputError, Problem
from syncwall.show.layout_words import layout_words
from syncwall.show.wall import change_words, peak_fields, side_verdict, side_why, wall_fields
from syncwall.web.asked import AskedRun
from syncwall.web.streams import problem_list

POINTS: Final = 48
"""Counts of a curve that are shown, beside its walls and its ends."""
_MOST_BATCH: Final = 1_000_000_000
"""Sequences of a step; the counts of strong scaling are its divisors."""


def compared(
    asked: AskedRun, others: Sequence[AskedRun | dict[str, Any]], most: int, scaling: str
) -> dict[str, Any]:
    """The curve of what was asked, and of each other run, or why it has none."""
    way = Scaling(scaling)
    return {
        "scaling": scaling,
        "levels": list(LEVELS),
        "runs": [_scaled(asked, most, way), *(_attempted(one, most, way) for one in others)],
    }


def moves(asked: AskedRun, most: int) -> dict[str, Any]:
    """Where the walls stand as they are and after each change, in both ways to scale."""
    answer = wall_of(reference_of(asked), most)
    now = {
        "change": "as it is",
        "walls": {str(way): _walls(side.walls) for way, side in answer.sides.items()},
        "fastest": {str(way): peak_fields(side.peak) for way, side in answer.sides.items()},
    }
    moved = [
        {
            "change": change_words(one),
            "walls": {str(way): _walls(found) for way, found in one.walls.items()},
            "fastest": {str(way): peak_fields(top) for way, top in one.peaks.items()},
        }
        for one in answer.moved
    ]
    return {"levels": list(LEVELS), "rows": [now, *moved]}


def reference_of(asked: AskedRun) -> Reference:
    """The run to start from, with the batch that `plan wall` takes if none was stated.

    GPUs and layout are those of the form, never searched.
    """
    run = asked.run()
    if int(run.layout.global_batch or 1) > _MOST_BATCH:
        said = f"more than {_MOST_BATCH:,} sequences in a step"
        raise InputError([Problem("layout.global_batch", 0, 0, said)])
    try:
        with only_catalogue():
            return reference(Said(None, _flags(asked, run)))
    except InputError:  # the usual batch does not divide: one sequence a replica, as in `predict`
        return Reference(predict(run))


def _flags(asked: AskedRun, run: Run) -> dict[str, str]:
    """What was asked as flags of the command line; JSON is YAML."""
    stated = {**asked.fields(), "nodes": int(run.nodes), "gpus_per_node": int(run.gpus_per_node)}
    stated.pop("gpus", None)
    inner = {"layout": {"tp": 1} | stated.pop("layout", {}), "software": stated.pop("software", {})}
    flat = {f"{key}.{name}": one for key, part in inner.items() for name, one in part.items()}
    return {key: json.dumps(value) for key, value in (stated | flat).items()}


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
        raise InputError.of(_as_keys(does_not_fit(setup, [way])))
    run = start.run
    return {
        "model": run.model.title or run.model.name,
        "cluster": run.cluster.title or run.cluster.name,
        "layout": layout_words(run.layout),
        "batch": _batch(setup, way),
        "left_open": start.assumed,
        "stated_gpus": run.gpus,
        "stated_step_s": start.prediction.step_s,
        "most_gpus": setup.most,
        **_curve(side),
    }


def _curve(side: Side) -> dict[str, Any]:
    curve, kept = side.curve, _kept(side)
    efficiency = curve.efficiency(side.base)
    return {
        "verdict": side_verdict(side),
        "why": side_why(side),
        "falls": side.falls,
        "base": {"gpus": side.base.gpus, "tokens_per_s_per_gpu": side.base.tokens_per_s_per_gpu},
        "walls": [
            wall_fields(wall) | {"efficiency": _at(side, efficiency, wall.holds_to)}
            for wall in side.walls
        ],
        "fastest": peak_fields(side.peak),
        "causes_at_gpus": side.causes_at,
        "causes": {one.cause: one.share for one in side.losses},
        "main_cause": side.main_cause,
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
    ends = [end for wall in side.walls for end in (wall.holds_to, wall.falls_at)]
    marked = [*(end for end in ends if end is not None), side.peak.gpus, side.causes_at]
    return np.unique(np.concatenate([even, np.searchsorted(gpus, marked)]))


def _at(side: Side, efficiency: Any, gpus: int | None) -> float | None:
    if gpus is None:
        return None
    return float(efficiency[int(np.searchsorted(side.curve.gpus, gpus))])


def _walls(found: Any) -> list[dict[str, Any]]:
    return [wall_fields(wall) for wall in found]


def _batch(setup: Setup, way: Scaling) -> str:
    if way is Scaling.STRONG:
        return f"{setup.batch:,} sequences of {setup.case.seq:,} tokens in all"
    return f"{setup.replica_batch:,} sequences of {setup.case.seq:,} tokens for every replica"


def _as_keys(said: str) -> str:
    """Flags of the command line as the keys of a form."""
    return said.replace("--layout.global-batch", "layout.global_batch").replace("--", "")


def _plain(values: Any) -> list[float]:
    return [float(value) for value in values]
