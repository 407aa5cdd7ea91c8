"""The numbers of the Sync wall page.

Holds `compared` (curves of a run and of others beside it) and `moves`
(what moves the wall).
"""

from functools import lru_cache
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from syncwall.answer import predict
from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.describe.names import only_catalogue
from syncwall.describe.stated import StatedRun
from syncwall.plan.choices import Scaling
from syncwall.plan.reference import Reference, start_of
from syncwall.plan.wall.moves import WallChange
from syncwall.plan.wall.sync_wall import (
    LEVELS,
    Moved,
    Peak,
    Side,
    Wall,
    band,
    does_not_fit,
    setup_of,
    side_of,
    wall_of,
)
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.blocks import Cell, Table
from syncwall.show.layout import layout_words
from syncwall.show.numbers import duration, gigabytes, many, percent
from syncwall.show.wall import (
    batch_words,
    gpu_count,
    move_words,
    side_verdict,
    side_why,
    top_count,
    wall_count,
)
from syncwall.show.write.parts import Markup, markup, quiet, swatch, table, tag, unseen
from syncwall.web.answers.charts import SHOWN, ShownWall, range_text, wall_area, wall_curves
from syncwall.web.event_streams import problem_list
from syncwall.web.questions import AskedMoves, AskedRun, AskedWall

_WALL: Final = ("level", "holds_to_gpus", "falls_at_gpus")
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
    """Speed, efficiency and ledger over GPU counts; where efficiency falls, and why.

    `html` are parts of the page by their places, `figures` its charts as Plotly takes them.
    """
    others = (_attempted(one, asked.most, asked.scaling) for one in asked.others)
    runs = [_scaled(asked.run, asked.most, asked.scaling), *others]
    names = ["this run", *asked.names, *(f"run {n}" for n in range(len(asked.names) + 2, 7))]
    shown = [ShownWall(n, names[n], run) for n, run in enumerate(runs)]
    drawn = [one for one in shown if "gpus" in one.run]
    chosen = next((one for one in drawn if one.number == asked.of), drawn[0])
    first = runs[0]
    means = (
        f"{first['model']} on {first['cluster']}; {first['layout']} as on "
        f"{first['stated_gpus']:,} GPUs, data parallelism grows; {first['batch']}. Efficiency: "
        f"speed of a GPU over that on {first['base']['gpus']:,} GPUs, the fewest on which it fits. "
        "A + means that the curve ends there. The band is the 80% interval: of a step as Predict "
        "states it, of efficiency what is added to the doubt at the base."
    )
    return {
        "scaling": asked.scaling,
        "levels": list(LEVELS),
        "runs": runs,
        "of": chosen.number,
        "html": {
            "why": markup(first["why"]),
            "means": markup(means),
            "summary": table(_summary(shown), aria_label="Walls of the runs"),
            "table": table(_counts(chosen.run)),
            "legend": _legend(chosen.run),
        },
        "figures": {"curve": wall_curves(drawn, asked.measure), "area": wall_area(chosen)},
    }


def _summary(shown: list[ShownWall]) -> Table:
    """One row for each run: where it starts, its walls, what stops it."""
    head = ["run", "from", *map(percent, LEVELS), "fastest", "tokens/s there", "what stops it"]
    several = len(shown) > 1
    removed = [unseen("remove")] if several else []
    rows = tuple((*_summary_row(one), *([_removing(one)] if several else [])) for one in shown)
    return Table((*head, *removed), rows, texts=("what stops it",))


def _removing(one: ShownWall) -> str:
    said, data = f"Remove {one.name}", {"remove": one.number - 1}
    return tag("button", "×", type="button", aria_label=said, data=data) if one.number else ""


def _summary_row(one: ShownWall) -> tuple[str, ...]:
    run = one.run
    name = markup(swatch(one.colour.removeprefix("--"), "line"), one.name)
    if "problems" in run:
        said = (": ".join(filter(None, (p["where"], p["what"]))) for p in run["problems"])
        return (name, *[""] * (len(LEVELS) + 3), Cell("; ".join(said), "fault"))
    walls = (
        Cell(
            wall_count(Wall(**{key: wall[key] for key in _WALL})),
            below=range_text(of, " – "),
            data={"level": wall["level"], "value": wall["holds_to_gpus"]},
        )
        for wall, of in zip(run["walls"], run["wall_ranges"], strict=True)
    )
    top, start = run["fastest"], f"{run['base']['gpus']:,}"
    most = top_count(Peak(**top))
    stops = run["main_cause"] or ("several" if run["falls"] else "–")
    first = Cell(name, row={"run": one.number})
    return (first, start, *walls, most, many(top["tokens_per_s"]), stops)


def _counts(run: dict[str, Any]) -> Table:
    """Every count of one run."""
    rows = (
        (
            Cell(gpu_count(gpus), row={"gpus": gpus}),
            Cell(percent(share, 1), data={"value": share}),
            many(speed),
            many(each),
            Cell(duration(step_s), data={"value": step_s}),
            gigabytes(memory),
        )
        for gpus, share, speed, each, step_s, memory in zip(*map(run.get, SHOWN), strict=True)
    )
    head = ("GPUs", "efficiency", "tokens/s", "tokens/s/GPU", "step", "memory")
    return Table(head, tuple(rows))


def _legend(run: dict[str, Any]) -> Markup:
    """The causes of the ledger with their colours, from the bottom up."""
    found = [cause for cause in Cause if cause in run["ledger_s"]]
    kinds = ("swatch wait" if cause.is_wait else "swatch" for cause in found)
    lines = (
        tag("li", swatch(cause.colour, kind), str(cause)) for cause, kind in zip(found, kinds, strict=True)
    )
    return tag("ul", lines, class_="legend small")


def moves(asked: AskedMoves) -> dict[str, Any]:
    """The walls with a faster network, a larger batch, another layout, ...: the model run again.

    As they are first, then after each change, in both ways to scale; `keys` are what to set in the
    run to get it (null: leave open), where it is not another machine. `html` is the same as a
    table for each way to scale.
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
    html = {str(way): _moves_table(named, way) for way in Scaling}
    return {"levels": list(LEVELS), "rows": plain(named), "html": html}


def _moves_table(rows: list[dict[str, Any]], way: Scaling) -> Markup:
    first = rows[0]["walls"].get(way)
    if first is None:
        return quiet(f"No {way} scaling to move.")
    made = []
    for row in rows:
        found = row["walls"].get(way) or ()
        name = Cell(row["change"], keys=row["keys"].get(way))
        cells = [
            Cell(wall_count(wall), _moved(wall, before), data={"value": wall.holds_to_gpus})
            for wall, before in zip(found, first, strict=False)
        ]
        top = [top_count(row["fastest"][way])] if found else [""] * (len(LEVELS) + 1)
        made.append((name, *cells, *top))
    head = (f"{way} scaling", *map(percent, LEVELS), "fastest")
    return table(Table(head, tuple(made), strong=frozenset({0})))


def _moved(wall: Wall, before: Wall) -> str:
    """How a wall stands to one without the change."""

    def far(one: Wall) -> float:
        return (one.holds_to_gpus or 0.0) + 0.5 * (one.falls_at_gpus is None)

    return "better" if far(wall) > far(before) else "worse" if far(wall) < far(before) else "quiet"


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


def _attempted(asked: AskedRun | dict[str, Any], most: int | None, way: Scaling) -> dict[str, Any]:
    try:
        return _scaled(AskedRun.model_validate(asked), most, way)
    except InputError as error:
        return {"problems": problem_list(error)}
    except ValidationError as error:
        found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
        return {"problems": [{"where": where, "what": what} for where, what in found]}


def _scaled(asked: AskedRun, most: int | None, way: Scaling) -> dict[str, Any]:
    return _scaled_run(asked.model_dump_json(), most, way)


@lru_cache(maxsize=32)
def _scaled_run(asked: str, most: int | None, way: Scaling) -> dict[str, Any]:
    start = reference_of(AskedRun.model_validate_json(asked))
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
