"""Efficiency over GPUs, drawn.

Holds `terminal_chart` and `svg_chart`.
"""

from typing import Any, Final

import numpy as np

from syncwall.plan.choices import Scaling
from syncwall.plan.wall.answer import LEVELS, Side, SyncWall
from syncwall.show.draw.axes import Axis
from syncwall.show.draw.frame import Entry, legend, plot_axes
from syncwall.show.draw.svg import WIDTH, Drawing
from syncwall.show.numbers import percent

_BESIDE, _HIGH = 22, 9
"""Columns beside the chart, for its labels; and rows of it."""
WIDEST: Final = 100
_MARKS: Final = {Scaling.STRONG: "●", Scaling.WEAK: "○"}
_BOTH: Final = "◉"
_HEIGHT: Final = 240.0
_LEFT, _RIGHT, _BELOW = 62.0, WIDTH - 34, 46.0


def terminal_chart(answer: SyncWall, width: int = WIDEST) -> list[str]:
    """Lines of a chart: both curves over GPUs, which are drawn logarithmically."""
    wide = max(min(width, WIDEST) - _BESIDE, 20)
    sides = list(answer.sides.values())
    low = min(int(side.curve.gpus[0]) for side in sides)
    high = max(int(side.curve.gpus[-1]) for side in sides)
    cells = [[" "] * wide for _ in range(_HIGH)]
    for side in sides:
        mark = _MARKS[side.scaling]
        for column, row in _cells(side, low, high, wide):
            there = cells[row][column]
            cells[row][column] = mark if there in (" ", mark) else _BOTH
    names = [f"{_MARKS[side.scaling]} {side.scaling} scaling" for side in sides]
    lines = [f"         {'     '.join(names)}"]
    for row, marks in enumerate(cells):
        level = 1.0 - row / (_HIGH - 1)
        label = f"{level:4.0%}" if row % 2 == 0 else "    "
        lines.append(f"  {label} ┤{''.join(marks).rstrip()}")
    return [*lines, f"       └{'─' * wide}", _ticks(low, high, wide)]


def _cells(side: Side, low: int, high: int, wide: int) -> list[tuple[int, int]]:
    """Column and row of every drawn point: one for each column that the curve reaches."""
    gpus, efficiency = side.curve.gpus, np.clip(side.curve.efficiency(side.base), 0.0, 1.0)
    columns = np.round(_places(gpus, low, high) * (wide - 1)).astype(int)
    if side.scaling is Scaling.WEAK:  # dense enough to be a line
        columns, index = np.unique(columns, return_index=True)
        efficiency = efficiency[index]
    rows = np.round((1.0 - efficiency) * (_HIGH - 1)).astype(int)
    return list(zip(columns.tolist(), rows.tolist(), strict=True))


def _places(gpus: Any, low: int, high: int) -> Any:
    """Where counts stand between the ends, from 0 to 1."""
    return np.log(gpus / low) / max(float(np.log(high / low)), 1e-9)


def _ticks(low: int, high: int, wide: int) -> str:
    """Counts under the axis, seven at most."""
    line = [" "] * (wide + 24)
    for gpus in _powers(low, high, min(7, wide // 10)):
        column = 8 + round(float(_places(gpus, low, high)) * (wide - 1))
        text = f"{gpus:,.0f}"
        start = max(column - len(text) // 2, 0)
        line[start : start + len(text)] = text
    return "".join(line).rstrip() + (" GPUs" if high > 1 else " GPU")


def _powers(low: float, high: float, most: int) -> list[float]:
    """`low` and its doubles up to `high`, a constant factor apart."""
    octaves = int(np.floor(np.log2(high / low) + 1e-9))
    step = max(1, -(-octaves // (most - 1)))
    return [low * 2.0**power for power in range(0, octaves + 1, step)]


def svg_chart(answer: SyncWall) -> Drawing:
    """Both curves as a drawing, with the levels whose loss is reported."""
    sides = list(answer.sides.values())
    drawing = Drawing("efficiency over GPUs: " + ", ".join(f"{s.scaling} scaling" for s in sides))
    names = [Entry(f"{side.scaling} scaling", _kind(i), "line") for i, side in enumerate(sides)]
    top = legend(drawing, names, 0.0) + 8
    x_axis = Axis.log([float(g) for side in sides for g in side.curve.gpus], _LEFT, _RIGHT)
    y_axis = Axis(0.0, 1.05, top + _HEIGHT, top)
    counts = _powers(2.0 ** np.ceil(np.log2(x_axis.least)), x_axis.most, 6)
    plot_axes(
        drawing,
        (x_axis, counts, lambda gpus: f"{gpus:,.0f}", "GPUs"),
        (y_axis, [0.0, *sorted(LEVELS), 1.0], percent, "efficiency"),
    )
    for number, side in enumerate(sides):
        efficiency = side.curve.efficiency(side.base)
        points = [
            (x_axis.at(float(gpus)), y_axis.at(float(share)), int(gpus), float(share))
            for gpus, share in zip(side.curve.gpus, efficiency, strict=True)
        ]
        drawing.curve([(x, y) for x, y, _, _ in points], _kind(number))
        for x, y, gpus, share in points if len(points) < 40 else points[:: len(points) // 20]:
            title = f"{side.scaling}: {gpus:,} GPUs, {percent(share, 1)}"
            drawing.dot(x, y, 3, f"f{number}", title)
    drawing.height = y_axis.start + _BELOW
    return drawing


def _kind(number: int) -> str:
    return f"curve s{number} d0"
