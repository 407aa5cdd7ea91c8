"""Charts of the Sync wall and the Job page, as Plotly takes them.

Colours are variables of `colours.css`, such as "--ink"; what stands under `narrow` is laid over the
rest on a phone. Holds `wall_curves` of several runs, each a `ShownWall`, and `wall_area`, the
ledger of one along the axis; `range_text` says between which counts a wall lies. Of a job,
`finish_chart` says when it ends and `interval_chart` how often to save; `dates_of` are moments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from math import ceil, floor, inf, isfinite, log2, log10
from typing import Any, Final

from syncwall.cause import Cause
from syncwall.describe import Job
from syncwall.job.completion import Completion
from syncwall.plan.wall.sync_wall import EXPLAINED, LEVELS
from syncwall.show.numbers import duration, gigabytes, many, percent, span
from syncwall.show.wall import gpu_count

_DAY_S: Final = 86400.0
_TICKS: Final = {
    1.0: "1 s",
    10.0: "10 s",
    60.0: "1 min",
    300.0: "5 min",
    900.0: "15 min",
    3600.0: "1 h",
    14400.0: "4 h",
    43200.0: "12 h",
    _DAY_S: "1 day",
    7 * _DAY_S: "7 days",
    30 * _DAY_S: "30 days",
    365 * _DAY_S: "1 year",
}


def upright(x: Any, colour: str, width: float = 1.5, dash: str = "solid") -> dict[str, Any]:
    """A line from the bottom to the top."""
    line = {"color": colour, "width": width, "dash": dash}
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def flag(x: Any, text: str, colour: str, **more: Any) -> dict[str, Any]:
    """Words above the chart."""
    place = {"x": x, "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False}
    return place | {"text": text, "font": {"color": colour, "size": 12}} | more


def named_ticks(ticks: Sequence[tuple[float, str]]) -> dict[str, Any]:
    """Marks of an axis with their words."""
    return {"tickvals": [at for at, _ in ticks], "ticktext": [words for _, words in ticks]}


SHOWN: Final = (
    "gpus",
    "efficiency",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "step_s",
    "memory_bytes",
)
"""What is shown of every count."""
_COLOURS: Final = ["accent", "exposed-tp", "optimizer", "attention", "exposed-dp", "host"]
_DASHES: Final = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"]


@dataclass(frozen=True)
class ShownWall:
    """A run beside others; `run` are its numbers, or what is wrong with it."""

    number: int
    name: str
    run: dict[str, Any]

    @property
    def colour(self) -> str:
        """As a chart names it."""
        return f"--{_COLOURS[self.number]}"

    @property
    def walls(self) -> list[dict[str, Any]]:
        """Where efficiency falls under a level within the curve."""
        ends = "holds_to_gpus", "falls_at_gpus"
        return [wall for wall in self.run["walls"] if None not in map(wall.get, ends)]

    @property
    def wall(self) -> dict[str, Any] | None:
        """Where 80% efficiency ends, if it does."""
        return next((wall for wall in self.walls if wall["level"] == EXPLAINED), None)

    def at(self, place: int) -> str:
        """What is said of one count."""
        of = {key: self.run[key][place] for key in SHOWN}
        return (
            f"{gpu_count(of['gpus'])} GPUs ({self.name})<br>efficiency {percent(of['efficiency'], 1)}<br>"
            f"{many(of['tokens_per_s'])} tokens/s<br>"
            f"{many(of['tokens_per_s_per_gpu'])} tokens/s/GPU<br>"
            f"step {duration(of['step_s'])}<br>memory {gigabytes(of['memory_bytes'])}"
        )


def range_text(of: dict[str, Any], between: str) -> str:
    """GPUs between the ends of the band."""
    ends = ("none" if of[end] is None else gpu_count(of[end]) for end in ("least_gpus", "most_gpus"))
    return between.join(ends) + ("+" if of["is_open"] else "")


def wall_curves(shown: list[ShownWall], measure: str) -> dict[str, Any]:
    """All curves with their walls; around the first its band, and where its run stands."""
    lines = [trace for one in shown for trace in (_line(one, measure), _marks(one, measure))]
    traces = [*_band(shown[0].run, measure), *lines, _here(shown[0], measure)]
    walls = [(one, one.wall) for one in shown if one.wall]
    dashes = ["dot", *_DASHES[1:]]
    marks = [upright(w["holds_to_gpus"], o.colour, dash=dashes[o.number]) for o, w in walls]
    levels = [_level(level) for level in LEVELS] if measure == "efficiency" else []
    layout = {
        "xaxis": _gpu_axis(shown),
        "yaxis": _axis(measure, [value for one in shown for value in one.run[measure]]),
        "margin": {"l": 64, "t": 12 + 16 * len(walls), "b": 48},
        "shapes": marks + levels,
        "annotations": [_flag(*both, shown, place) for place, both in enumerate(walls)],
    }
    return {"traces": traces, "layout": layout}


def _level(level: float) -> dict[str, Any]:
    line = {"color": "--quiet", "width": 1, "dash": "dot"}
    ends = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
    return ends | {"line": line, "layer": "below", "opacity": 0.6}


def _axis(measure: str, values: list[float]) -> dict[str, Any]:
    if measure == "efficiency":
        title = "efficiency over the fewest GPUs"
        return {"tickformat": ".0%", "rangemode": "tozero", "title": title}
    if measure == "tokens_per_s_per_gpu":
        return {"rangemode": "tozero", "title": "tokens/s/GPU"}
    is_step = measure == "step_s"
    powers = [10.0**n for n in range(floor(log10(min(values))), ceil(log10(max(values))) + 1)]
    ticks = named_ticks([(one, duration(one) if is_step else many(one)) for one in powers])
    return {"type": "log", "title": "step" if is_step else "tokens/s of all GPUs", **ticks}


def _gpu_axis(shown: list[ShownWall]) -> dict[str, Any]:
    low, high = _reach(shown)
    first, last = floor(log2(low)), ceil(log2(high))
    ends = [log10(low / 1.15), log10(high * 1.15)]
    wide, narrow = (
        named_ticks(
            [(2**n, gpu_count(2**n)) for n in range(first, last + 1, max(1, round((last - first) / most)))]
        )
        for most in (9, 4)
    )
    return {"type": "log", "title": "GPUs", "range": ends, **wide, "narrow": narrow}


def _reach(shown: list[ShownWall]) -> tuple[int, int]:
    return min(one.run["gpus"][0] for one in shown), max(one.run["gpus"][-1] for one in shown)


def _band(run: dict[str, Any], measure: str) -> list[dict[str, Any]]:
    """Where 80% of all such curves lie: an edge that is not seen, and the area under the other."""
    factors = run["efficiency_factor" if measure == "efficiency" else "step_factor"]
    pairs = list(zip(run[measure], factors, strict=True))
    edge = {"x": run["gpus"], "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    edge |= {"hovertemplate": None, "name": "80% interval"}
    low, high = [value / by for value, by in pairs], [value * by for value, by in pairs]
    return [edge | {"y": low}, edge | {"y": high, "fill": "tonexty", "fillcolor": "--accent/0.17"}]


def _line(one: ShownWall, measure: str) -> dict[str, Any]:
    gpus, width = one.run["gpus"], 2 if one.number else 3
    return {
        "x": gpus,
        "y": one.run[measure],
        "name": one.name,
        "mode": "lines" if len(gpus) > 20 else "lines+markers",
        "line": {"color": one.colour, "width": width, "dash": _DASHES[one.number]},
        "marker": {"color": one.colour, "size": 5},
        "text": [one.at(place) for place in range(len(gpus))],
    }


def _marks(one: ShownWall, measure: str) -> dict[str, Any]:
    """The walls on the curve."""
    counts = [wall["holds_to_gpus"] for wall in one.walls]
    shapes = [("diamond", 13) if w["level"] == EXPLAINED else ("circle-open", 10) for w in one.walls]
    line = {"color": one.colour, "width": 2}
    marker = {"symbol": [shape for shape, _ in shapes], "size": [size for _, size in shapes]}
    text = [
        f"holds {percent(wall['level'])} up to {wall['holds_to_gpus']:,} GPUs<br>"
        f"{wall['falls_at_gpus']:,} fall under it"
        for wall in one.walls
    ]
    heights = [one.run[measure][one.run["gpus"].index(count)] for count in counts]
    look = {"mode": "markers", "name": "", "marker": marker | {"color": one.colour, "line": line}}
    return {"x": counts, "y": heights, "text": text} | look


def _here(one: ShownWall, measure: str) -> dict[str, Any]:
    """Where the run in the form stands."""
    gpus, stated = one.run["gpus"], one.run["stated_gpus"]
    place = min(range(len(gpus)), key=lambda n: abs(log2(gpus[n] / stated)))
    return {
        "x": [gpus[place]],
        "y": [one.run[measure][place]],
        "mode": "markers+text",
        "name": "you are here",
        "marker": {"symbol": "star", "size": 14, "color": "--ink"},
        "text": [f"you are here: {stated:,}" if gpus[place] == stated else "nearest to you"],
        "textfont": {"color": "--ink", "size": 12},
        "textposition": "bottom center",
        "cliponaxis": False,
        "hovertext": [one.at(place)],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _flag(one: ShownWall, wall: dict[str, Any], shown: list[ShownWall], place: int = 0) -> dict[str, Any]:
    """Words above a wall, beside it where the chart ends."""
    low, high = _reach(shown)
    share = log2(wall["holds_to_gpus"] / low) / (log2(high / low) or 1)
    text = f"wall: {wall['holds_to_gpus']:,} GPUs"
    of = next(of for of in one.run["wall_ranges"] if of["level"] == wall["level"])
    is_same = of["least_gpus"] == of["most_gpus"] and not of["is_open"]
    sure = "at both ends of the band" if is_same else f"80% interval {range_text(of, ' to ')}"
    anchor = "right" if share > 0.9 else "left" if share < 0.1 else "center"
    more = {"xanchor": anchor, "yshift": 16 * place, "narrow": {"text": text}}
    return flag(log10(wall["holds_to_gpus"]), f"{text} ({sure})", one.colour, **more)


def wall_area(one: ShownWall) -> dict[str, Any]:
    """The ledger along the axis, as shares of the step."""
    run, wall = one.run, one.wall
    hatched = {"shape": "/", "size": 5, "solidity": 0.12, "fillmode": "overlay"}
    waits = {"fillpattern": hatched | {"fgcolor": "rgba(255,255,255,.55)"}}
    stacked = {"stackgroup": "all", "groupnorm": "percent", "mode": "lines", "hoveron": "points"}
    traces = []
    for cause in Cause:
        if seconds := run["ledger_s"].get(cause):
            shares = zip(seconds, run["step_s"], strict=True)
            text = [f"{cause} {percent(s / step_s, 1)}, {duration(s)}" for s, step_s in shares]
            colour = f"--{cause.colour}"
            look = {"line": {"width": 0.5, "color": colour}, "fillcolor": colour}
            made = {"x": run["gpus"], "y": seconds, "name": str(cause), "text": text}
            traces.append(made | stacked | look | (waits if cause.is_wait else {}))
    over = {"hoverformat": ",d", "unifiedhovertitle": {"text": "%{x} GPUs"}}
    layout: dict[str, Any] = {
        "xaxis": _gpu_axis([one]) | over,
        "yaxis": {"ticksuffix": "%", "range": [0, 100], "title": "of the step"},
        "hovermode": "x unified",
        "margin": {"l": 64, "t": 28 if wall else 12, "b": 48},
    }
    if wall:
        named = _flag(one, wall, [one])
        ink = named["font"] | {"color": "--ink"}
        layout["shapes"] = [upright(wall["holds_to_gpus"], "--ink", dash="dash")]
        layout["annotations"] = [named | named["narrow"] | {"font": ink}]
    return {"traces": traces, "layout": layout}


def finish_chart(completion: Completion, found: dict[str, Any]) -> dict[str, Any]:
    """Shares of the simulated jobs over days or dates, with P10, P50 and P90."""
    edges = found["edges_s"]
    is_dated = found["edge_dates"] is not None
    unit_s, unit = (_DAY_S, "days") if edges[-1] >= 3 * _DAY_S else (3600.0, "hours")

    def at(seconds: float) -> Any:
        dates = dates_of(completion.job, [seconds]) if is_dated else None
        return dates[0] if dates else seconds / unit_s

    def said(seconds: float) -> str:
        return str(at(seconds))[:10] if is_dated else span(seconds)

    ends = [said(edge) for edge in edges]
    width_s = (edges[1] - edges[0]) * 0.92
    bars = {
        "type": "bar",
        "x": [at((low + high) / 2) for low, high in pairwise(edges)],
        "y": found["shares"],
        "width": width_s * 1000 if is_dated else width_s / unit_s,
        "marker": {"color": "--accent"},
        "text": [
            f"{low} to {high}<br>{percent(share, 1)} of the jobs; {percent(done)} are done by then"
            for (low, high), share, done in zip(
                pairwise(ends), found["shares"], found["done_by"], strict=True
            )
        ],
        "textposition": "none",
    }
    marks = [
        (name, one)
        for name, one in zip(("P10", "P50", "P90"), completion.finish_s, strict=True)
        if isfinite(one)
    ]
    layout = {
        "bargap": 0,
        "margin": {"t": 46},
        "xaxis": {"type": "date"} if is_dated else {"title": f"{unit} from the start"},
        "yaxis": {"tickformat": ".0%", "title": "of the jobs", "rangemode": "tozero"},
        "shapes": [
            upright(at(one), "--ink", *((2, "solid") if name == "P50" else (1, "dot"))) for name, one in marks
        ],
        "annotations": [
            flag(at(one), f"{name}<br>{said(one)}", "--ink", narrow={"text": name}) for name, one in marks
        ],
    }
    return {"traces": [bars], "layout": layout}


def interval_chart(found: dict[str, Any]) -> dict[str, Any]:
    """Share of the time that is work, over the checkpoint interval."""
    best, chosen = found["best"], found["chosen"]
    is_same = abs(chosen["interval_s"] / best["interval_s"] - 1) < 1e-6
    points = [("chosen, the best", best)] if is_same else [("best", best), ("chosen", chosen)]

    def said(interval_s: float, share: float) -> str:
        lost = span(found["work_s"] * (1 / share - 1) if share else inf)
        return (
            f"every {span(interval_s)}<br>{percent(share, 2)} of the time is work<br>"
            f"saving, lost work and restarts: {lost} of the job"
        )

    low, top = min(one["share"] for _, one in points), max(found["share"])
    ticks = [
        (at, words) for at, words in _TICKS.items() if found["interval_s"][0] <= at <= found["interval_s"][-1]
    ]
    curve = {
        "x": found["interval_s"],
        "y": found["share"],
        "mode": "lines",
        "line": {"color": "--accent", "width": 2.5},
        "text": list(map(said, found["interval_s"], found["share"])),
    }
    later = chosen["interval_s"] > best["interval_s"]
    marks = {
        "x": [one["interval_s"] for _, one in points],
        "y": [one["share"] for _, one in points],
        "mode": "markers+text",
        "textposition": ["top center", "middle right" if later else "middle left"],
        "marker": {"size": 11, "symbol": ["diamond", "circle"], "color": ["--good", "--warn"]},
        "text": [f"{name}: {span(one['interval_s'])}" for name, one in points],
        "textfont": {"color": "--ink"},
        "cliponaxis": False,
        "hovertext": [f"{name}: {said(**one)}" for name, one in points],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    lowest = max(0.0, min(low, top - 4 * (1 - top)) - 0.15 * (1 - top))
    layout = {
        "xaxis": {
            "type": "log",
            "title": "time between checkpoints",
            "tickangle": 0,
            **named_ticks(ticks),
            "narrow": named_ticks(ticks[::2]),
        },
        "yaxis": {
            "tickformat": ".1~%",
            "title": "of the time is work",
            "range": [lowest, min(1.0, top + 0.6 * (1 - top))],
        },
    }
    return {"traces": [curve, marks], "layout": layout}


def dates_of(job: Job, seconds: Any) -> list[str] | None:
    """The same as dates, if the job says when it starts and the calendar goes so far."""
    if job.start is None:
        return None
    try:
        return [(job.start + timedelta(seconds=float(one))).isoformat() for one in seconds]
    except OverflowError:
        return None
