"""The numbers of the Sync wall page.

Holds `compared` (curves of a run and of others beside it) and `moves`
(what moves the wall).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, log2, log10
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
from syncwall.plan.wall.answer import (
    EXPLAINED,
    LEVELS,
    Moved,
    Side,
    Wall,
    band,
    does_not_fit,
    setup_of,
    side_of,
    wall_of,
)
from syncwall.plan.wall.moves import WallChange
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.blocks import Cell, Table
from syncwall.show.layout import layout_words
from syncwall.show.numbers import duration, gigabytes, many, percent
from syncwall.show.wall import (
    batch_words,
    change_words,
    side_verdict,
    side_why,
    top_count,
    wall_count,
)
from syncwall.show.write.parts import Markup, markup, quiet, swatch, table, tag, term
from syncwall.web.figures import flag, named_ticks, upright
from syncwall.web.questions import AskedMoves, AskedRun, AskedWall
from syncwall.web.streams import problem_list

POINTS: Final = 48
"""Counts of a curve that are shown, beside its walls and its ends."""
_RELAID: Final = (
    "tp", "sp", "pp", "virtual_stages", "schedule", "cp", "ep", "etp", "shard", "micro_batch",
    "recompute",
)  # fmt: skip
"""Fields in which layouts that are searched differ."""
_COLOURS: Final = (
    "--accent", "--exposed-tp", "--optimizer", "--attention", "--exposed-dp", "--host",
)  # fmt: skip
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SHOWN: Final = (
    "gpus", "efficiency", "tokens_per_s", "tokens_per_s_per_gpu", "step_s", "memory_bytes",
)  # fmt: skip


def compared(asked: AskedWall) -> dict[str, Any]:
    """Speed, efficiency and ledger over GPU counts; where efficiency falls, and why.

    `html` are parts of the page by their places, `figures` its charts as Plotly takes them.
    """
    others = (_attempted(one, asked.most, asked.scaling) for one in asked.others)
    runs = [_scaled(asked.run, asked.most, asked.scaling), *others]
    given = [*asked.names, *(f"run {n}" for n in range(2, 7))][: len(asked.others)]
    shown = [
        _Shown(n, *both) for n, both in enumerate(zip(["this run", *given], runs, strict=True))
    ]
    drawn = [one for one in shown if "gpus" in one.run]
    chosen = next((one for one in drawn if one.number == asked.of), drawn[0])
    return {
        "scaling": asked.scaling,
        "levels": list(LEVELS),
        "runs": runs,
        "of": chosen.number,
        "html": _html(runs[0]) | {
            "summary": _summary(shown), "table": _counts(chosen.run), "legend": _legend(chosen.run),
        },
        "figures": {"curve": _curves(drawn, asked.measure), "area": _area(chosen)},
    }  # fmt: skip


@dataclass(frozen=True)
class _Shown:
    """A run beside others; `run` are its numbers, or what is wrong with it."""

    number: int
    name: str
    run: dict[str, Any]

    @property
    def colour(self) -> str:
        return _COLOURS[self.number]

    @property
    def wall(self) -> dict[str, Any] | None:
        """Where 80% efficiency ends, if it does."""
        ends = "holds_to_gpus", "falls_at_gpus"
        found = next(one for one in self.run["walls"] if one["level"] == EXPLAINED)
        return None if None in (found[end] for end in ends) else found

    def at(self, place: int) -> str:
        """What is said of one count."""
        of = {key: self.run[key][place] for key in _SHOWN}
        return (
            f"{of['gpus']:,} GPUs ({self.name})<br>efficiency {percent(of['efficiency'], 1)}<br>"
            f"{many(of['tokens_per_s'])} tokens/s<br>"
            f"{many(of['tokens_per_s_per_gpu'])} tokens/s/GPU<br>"
            f"step {duration(of['step_s'])}<br>memory {gigabytes(of['memory_bytes'])}"
        )


def _html(first: dict[str, Any]) -> dict[str, str]:
    return {
        "why": markup(first["why"]),
        "means": markup(
            f"{first['model']} on {first['cluster']}; {first['layout']} as on "
            f"{first['stated_gpus']:,} GPUs, data parallelism grows; {first['batch']}. Efficiency: "
            f"speed of a GPU over that on {first['base']['gpus']:,} GPUs, the fewest on which it "
            "fits. A + means that the curve ends there. The band is the 80% interval: of a step as "
            "Predict states it, of efficiency what is added to the doubt at the base."
        ),
    }


def _summary(shown: list[_Shown]) -> Markup:
    """One row for each run: where it starts, its walls, what stops it."""
    levels = map(percent, LEVELS)
    several = len(shown) > 1
    last = tag("span", "remove", class_="visually-hidden")
    names = ["run", "from", *levels, "fastest", "tokens/s there", "what stops it"]
    head = [tag("th", term(name), scope="col", class_="words" if name in ("run", names[-1]) else "")
            for name in names]  # fmt: skip
    rows = (_summary_row(one, several) for one in shown)
    top = tag("thead", tag("tr", head, tag("th", last, scope="col") if several else None))
    return tag("table", top, tag("tbody", rows), aria_label="Walls of the runs")


def _summary_row(one: _Shown, several: bool) -> Markup:
    run, removing = one.run, None
    if one.number:
        data = {"remove": one.number - 1}
        removing = tag("button", "×", type="button", aria_label=f"Remove {one.name}", data=data)
    end = tag("td", removing) if several else None
    line = tag("span", class_="line", data={"colour": one.colour.removeprefix("--")})
    name = tag("th", line, one.name, scope="row", class_="words")
    if "problems" in run:
        said = "; ".join(filter(None, (_problem(p) for p in run["problems"])))
        wide = tag("td", said, class_="words fault", colspan=len(LEVELS) + 4)
        return tag("tr", name, wide, end)
    walls = (
        tag("td", wall_count(Wall(wall["level"], wall["holds_to_gpus"], wall["falls_at_gpus"])),
            tag("div", _ends(of), class_="quiet small"),
            data={"level": wall["level"], "value": wall["holds_to_gpus"]})
        for wall, of in zip(run["walls"], run["wall_ranges"], strict=True)
    )  # fmt: skip
    top = run["fastest"]
    more = f"{top['gpus']:,}{'+' if top['ended_by'] == 'range' else ''}", many(top["tokens_per_s"])
    stops = run["main_cause"] or ("several" if run["falls"] else "–")
    cells = tag("td", f"{run['base']['gpus']:,}"), walls, (tag("td", text) for text in more)
    last = tag("td", stops, class_="words")
    return tag("tr", name, cells, last, end, data={"run": one.number})


def _problem(found: dict[str, str]) -> str:
    return ": ".join(filter(None, (found["where"], found["what"])))


def _ends(of: dict[str, Any], between: str = " – ") -> str:
    ends = ("none" if of[end] is None else f"{of[end]:,}" for end in ("least_gpus", "most_gpus"))
    return between.join(ends) + ("+" if of["is_open"] else "")


def _counts(run: dict[str, Any]) -> Markup:
    """Every count of one run."""
    columns = zip(*(run[key] for key in _SHOWN), strict=True)
    rows = (
        (Cell(f"{gpus:,}", row={"gpus": gpus}),
         Cell(percent(share, 1), data={"value": share}), many(speed), many(each),
         Cell(duration(step_s), data={"value": step_s}), gigabytes(memory))
        for gpus, share, speed, each, step_s, memory in columns
    )  # fmt: skip
    head = ("GPUs", "efficiency", "tokens/s", "tokens/s/GPU", "step", "memory")
    return table(Table(head, tuple(rows)))


def _legend(run: dict[str, Any]) -> Markup:
    """The causes of the ledger with their colours, from the bottom up."""
    lines = (
        tag("li", swatch(cause.colour, f"swatch{' wait' * cause.is_wait}"), str(cause))
        for cause in Cause if cause in run["ledger_s"]
    )  # fmt: skip
    return tag("ul", lines, class_="legend small")


def _curves(shown: list[_Shown], measure: str) -> dict[str, Any]:
    """All curves with their walls; around the first its band, and where its run stands."""
    first = shown[0].run
    values = [value for one in shown for value in one.run[measure]]
    traces = [
        *_band_edges(first, measure),
        *(trace for one in shown for trace in (_line(one, measure), _marks(one, measure))),
        _here(shown[0], measure),
    ]
    walls = [(one, one.wall) for one in shown if one.wall]
    levels = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level,
         "layer": "below", "opacity": 0.6, "line": {"color": "--quiet", "width": 1, "dash": "dot"}}
        for level in LEVELS
    ]  # fmt: skip
    layout = {
        "xaxis": _gpu_axis(shown),
        "yaxis": _measured_axis(measure, values),
        "margin": {"l": 64, "t": 12 + 16 * len(walls), "b": 48},
        "shapes": [
            *(upright(wall["holds_to_gpus"], one.colour, dash=_DASHES[one.number] if one.number
                      else "dot") for one, wall in walls),
            *(levels if measure == "efficiency" else ()),
        ],
        "annotations": [
            _flag(one, wall, shown, place) for place, (one, wall) in enumerate(walls)
        ],
    }  # fmt: skip
    return {"traces": traces, "layout": layout}


def _measured_axis(measure: str, values: list[float]) -> dict[str, Any]:
    if measure == "efficiency":
        title = "efficiency over the fewest GPUs"
        return {"tickformat": ".0%", "rangemode": "tozero", "title": title}
    if measure == "tokens_per_s_per_gpu":
        return {"rangemode": "tozero", "title": "tokens/s/GPU"}
    text, title = (
        (many, "tokens/s of all GPUs") if measure == "tokens_per_s" else (duration, "step")
    )
    powers = range(floor(log10(min(values))), ceil(log10(max(values))) + 1)
    return {
        "type": "log",
        "title": title,
        **named_ticks([(10.0**n, text(10.0**n)) for n in powers]),
    }


def _gpu_axis(shown: list[_Shown]) -> dict[str, Any]:
    low, high = _reach(shown)
    first, last = floor(log2(low)), ceil(log2(high))

    def marks(most: int) -> dict[str, Any]:
        by = max(1, round((last - first) / most))
        return named_ticks([(2**n, f"{2**n:,}") for n in range(first, last + 1, by)])

    ends = [log10(low / 1.15), log10(high * 1.15)]
    return {"type": "log", "title": "GPUs", "range": ends, **marks(9), "narrow": marks(4)}


def _reach(shown: list[_Shown]) -> tuple[int, int]:
    return min(one.run["gpus"][0] for one in shown), max(one.run["gpus"][-1] for one in shown)


def _band_edges(run: dict[str, Any], measure: str) -> list[dict[str, Any]]:
    """Where 80% of all such curves lie: an edge that is not seen, and the area under the other."""
    factors = run["efficiency_factor" if measure == "efficiency" else "step_factor"]
    pairs = list(zip(run[measure], factors, strict=True))
    edge = {"x": run["gpus"], "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip",
            "hovertemplate": None, "name": "80% interval"}  # fmt: skip
    low, high = [value / by for value, by in pairs], [value * by for value, by in pairs]
    return [edge | {"y": low}, edge | {"y": high, "fill": "tonexty", "fillcolor": "--accent/0.17"}]


def _line(one: _Shown, measure: str) -> dict[str, Any]:
    gpus = one.run["gpus"]
    return {
        "x": gpus, "y": one.run[measure], "name": one.name,
        "mode": "lines" if len(gpus) > 20 else "lines+markers",
        "line": {"color": one.colour, "width": 2 if one.number else 3, "dash": _DASHES[one.number]},
        "marker": {"color": one.colour, "size": 5},
        "text": [one.at(place) for place in range(len(gpus))],
    }  # fmt: skip


def _marks(one: _Shown, measure: str) -> dict[str, Any]:
    """The walls on the curve."""
    run, ends = one.run, ("holds_to_gpus", "falls_at_gpus")
    found = [wall for wall in run["walls"] if None not in (wall[end] for end in ends)]
    main = [wall["level"] == EXPLAINED for wall in found]
    return {
        "x": [wall["holds_to_gpus"] for wall in found],
        "y": [run[measure][run["gpus"].index(wall["holds_to_gpus"])] for wall in found],
        "mode": "markers", "name": "",
        "marker": {
            "symbol": ["diamond" if is_main else "circle-open" for is_main in main],
            "size": [13 if is_main else 10 for is_main in main],
            "color": one.colour, "line": {"color": one.colour, "width": 2},
        },
        "text": [
            f"holds {percent(wall['level'])} up to {wall['holds_to_gpus']:,} GPUs<br>"
            f"{wall['falls_at_gpus']:,} fall under it"
            for wall in found
        ],
    }  # fmt: skip


def _here(one: _Shown, measure: str) -> dict[str, Any]:
    """Where the run in the form stands."""
    gpus, stated = one.run["gpus"], one.run["stated_gpus"]
    place = min(range(len(gpus)), key=lambda n: abs(log2(gpus[n] / stated)))
    is_here = gpus[place] == stated
    return {
        "x": [gpus[place]], "y": [one.run[measure][place]], "mode": "markers+text",
        "name": "you are here", "marker": {"symbol": "star", "size": 14, "color": "--ink"},
        "textposition": "bottom center", "cliponaxis": False,
        "text": [f"you are here: {stated:,}" if is_here else "nearest to you"],
        "textfont": {"color": "--ink", "size": 12},
        "hovertext": [one.at(place)], "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _flag(one: _Shown, wall: dict[str, Any], shown: list[_Shown], place: int = 0) -> dict[str, Any]:
    """Words above a wall, beside it where the chart ends."""
    low, high = _reach(shown)
    share = log2(wall["holds_to_gpus"] / low) / (log2(high / low) or 1)
    text = f"wall: {wall['holds_to_gpus']:,} GPUs"
    of = next(of for of in one.run["wall_ranges"] if of["level"] == wall["level"])
    is_same = of["least_gpus"] == of["most_gpus"] and not of["is_open"]
    sure = "at both ends of the band" if is_same else f"80% interval {_ends(of, ' to ')}"
    anchor = "right" if share > 0.9 else "left" if share < 0.1 else "center"
    return flag(
        log10(wall["holds_to_gpus"]), f"{text} ({sure})", one.colour, xanchor=anchor,
        yshift=16 * place, narrow={"text": text},
    )  # fmt: skip


def _area(one: _Shown) -> dict[str, Any]:
    """The ledger along the axis, as shares of the step."""
    run, wall = one.run, one.wall
    hatched = {"shape": "/", "size": 5, "solidity": 0.12, "fgcolor": "rgba(255,255,255,.55)",
               "fillmode": "overlay"}  # fmt: skip
    traces = [
        {
            "x": run["gpus"], "y": seconds, "name": str(cause), "stackgroup": "all",
            "groupnorm": "percent", "mode": "lines", "hoveron": "points",
            "line": {"width": 0.5, "color": f"--{cause.colour}"}, "fillcolor": f"--{cause.colour}",
            "text": [
                f"{cause} {percent(s / step_s, 1)}, {duration(s)}"
                for s, step_s in zip(seconds, run["step_s"], strict=True)
            ],
            **({"fillpattern": hatched} if cause.is_wait else {}),
        }
        for cause in Cause if (seconds := run["ledger_s"].get(cause))
    ]  # fmt: skip
    over = {"hoverformat": ",d", "unifiedhovertitle": {"text": "%{x} GPUs"}}
    layout = {
        "xaxis": _gpu_axis([one]) | over,
        "yaxis": {"ticksuffix": "%", "range": [0, 100], "title": "of the step"},
        "hovermode": "x unified",
        "margin": {"l": 64, "t": 28 if wall else 12, "b": 48},
        "shapes": [upright(wall["holds_to_gpus"], "--ink", dash="dash")] if wall else [],
        "annotations": [],
    }
    if wall:
        named = _flag(one, wall, [one])
        layout["annotations"] = [
            {**named, **named["narrow"], "font": {"color": "--ink", "size": 12}}
        ]
    return {"traces": traces, "layout": layout}


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
    rows += [(change_words(one), one.walls, one.peaks) for one in answer.moved]
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
        return (
            0.0
            if one.holds_to_gpus is None
            else one.holds_to_gpus + 0.5 * (one.falls_at_gpus is None)
        )

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


def _attempted(asked: AskedRun | dict[str, Any], most: int, way: Scaling) -> dict[str, Any]:
    try:
        return _scaled(AskedRun.model_validate(asked), most, way)
    except InputError as error:
        return {"problems": problem_list(error)}
    except ValidationError as error:
        found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
        return {"problems": [{"where": where, "what": what} for where, what in found]}


def _scaled(asked: AskedRun, most: int, way: Scaling) -> dict[str, Any]:
    return _scaled_run(asked.model_dump_json(), most, way)


@lru_cache(maxsize=32)
def _scaled_run(asked: str, most: int, way: Scaling) -> dict[str, Any]:
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
            plain(wall) | {"efficiency": _at(side, efficiency, wall.holds_to_gpus)}
            for wall in side.walls
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
