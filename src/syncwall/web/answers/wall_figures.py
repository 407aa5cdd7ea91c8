"""The charts of the Sync wall page, as Plotly takes them.

Holds `curves` of several runs with their walls, `area`, the ledger of one along the axis, and
`ShownWall`, a run beside others; `range_text` says between which counts a wall lies.
"""

from dataclasses import dataclass
from math import ceil, floor, log2, log10
from typing import Any, Final

from syncwall.cause import Cause
from syncwall.plan.wall.answer import EXPLAINED, LEVELS
from syncwall.show.numbers import duration, gigabytes, many, percent
from syncwall.web.figures import flag, named_ticks, upright

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
            f"{of['gpus']:,} GPUs ({self.name})<br>efficiency {percent(of['efficiency'], 1)}<br>"
            f"{many(of['tokens_per_s'])} tokens/s<br>"
            f"{many(of['tokens_per_s_per_gpu'])} tokens/s/GPU<br>"
            f"step {duration(of['step_s'])}<br>memory {gigabytes(of['memory_bytes'])}"
        )


def range_text(of: dict[str, Any], between: str) -> str:
    """GPUs between the ends of the band."""
    ends = ("none" if of[end] is None else f"{of[end]:,}" for end in ("least_gpus", "most_gpus"))
    return between.join(ends) + ("+" if of["is_open"] else "")


def curves(shown: list[ShownWall], measure: str) -> dict[str, Any]:
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
            [
                (2**n, f"{2**n:,}")
                for n in range(first, last + 1, max(1, round((last - first) / most)))
            ]
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
    shapes = [
        ("diamond", 13) if w["level"] == EXPLAINED else ("circle-open", 10) for w in one.walls
    ]
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


def _flag(
    one: ShownWall, wall: dict[str, Any], shown: list[ShownWall], place: int = 0
) -> dict[str, Any]:
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


def area(one: ShownWall) -> dict[str, Any]:
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
