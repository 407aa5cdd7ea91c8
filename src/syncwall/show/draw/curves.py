"""Charts with two axes of values: rates over sizes, predicted against measured, values of steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from syncwall.show.draw.svg import (
    WIDTH,
    Axis,
    AxisUnit,
    Drawing,
    Entry,
    binary_ticks,
    colour,
    legend,
    plot_axes,
    shortened,
    unit_for,
)
from syncwall.show.numbers import byte_size, duration, rate, span
from syncwall.units import Dimension

_LEFT, _RIGHT, _BELOW = 62.0, WIDTH - 16, 46.0
_DASHES = 4
_MANY: Final = 100
"""Dots from which on they are small and let others shine through."""


@dataclass(frozen=True)
class Series:
    """Rates of one thing over sizes."""

    name: str
    points: tuple[tuple[float, float], ...]
    """Bytes, and bytes/s."""
    colour: int = 0
    dash: int = 0


def size_chart(series: Sequence[Series], name: str) -> Drawing:
    """Rates over sizes, both axes logarithmic."""
    drawing = Drawing(f"{name} over size: {', '.join(one.name for one in series)}")
    points = [p for one in series for p in one.points if p[0] > 0 and p[1] > 0]
    entries = [Entry(one.name, _kind(one), "line") for one in series]
    top = legend(drawing, entries, 0.0) + 8
    x_axis = Axis.log([size for size, _ in points], _LEFT, _RIGHT)
    y_axis = Axis.log([value for _, value in points], top + 240, top, room=1.3)
    unit = unit_for(Dimension.BYTES_PER_S, max((value for _, value in points), default=0.0))
    plot_axes(
        drawing,
        (x_axis, binary_ticks(x_axis), byte_size, "size of the vector"),
        (y_axis, y_axis.ticks(unit), unit.text, f"{name}, {unit.name}"),
    )
    for one in series:
        shown = [(x_axis.at(s), y_axis.at(v), s, v) for s, v in one.points if s > 0 and v > 0]
        drawing.curve([(x, y) for x, y, _, _ in shown], _kind(one))
        for x, y, size, value in shown:
            note = f"{one.name}: {byte_size(size)}, {rate(value)}"
            drawing.dot(x, y, 3, f"f{colour(one.colour)}", note)
    drawing.height = y_axis.start + _BELOW
    return drawing


def _kind(series: Series) -> str:
    return f"curve s{colour(series.colour)} d{series.dash % _DASHES}"


@dataclass(frozen=True)
class Point:
    """A measured and a predicted time."""

    label: str
    group: str
    measured_s: float
    predicted_s: float
    source: str = ""
    """Where it comes from; within a group, points of one source follow each other."""


def error_chart(points: Sequence[Point], band: float) -> Drawing:
    """Predicted over measured times, both logarithmic, with a band of relative error."""
    drawing = Drawing(f"predicted against measured step times of {len(points)} steps")
    groups = list(dict.fromkeys(point.group for point in points))
    kinds = {group: f"f{colour(number)}" for number, group in enumerate(groups)}
    top = legend(drawing, [Entry(group, kind, "dot") for group, kind in kinds.items()], 0.0) + 8
    times = [time for point in points for time in (point.measured_s, point.predicted_s)]
    side = 360.0
    x_axis = Axis.log(times, _LEFT, _LEFT + side, room=1.25)
    y_axis = Axis.log(times, top + side, top, room=1.25)
    unit = unit_for(Dimension.SECONDS, max(times, default=0.0))
    ticks = x_axis.ticks(unit)
    _band(drawing, x_axis, y_axis, band)
    plot_axes(
        drawing,
        (x_axis, ticks, unit.text, f"measured step, {unit.name}"),
        (y_axis, ticks, unit.text, f"predicted step, {unit.name}"),
    )
    radius, pale = (4.5, "") if len(points) < _MANY else (3.0, " pale")
    for (group, source), alike in groupby(points, key=lambda one: (one.group, one.source)):
        with drawing.group(group, source):
            for point in alike:
                measured, predicted = duration(point.measured_s), duration(point.predicted_s)
                note = f"{point.label}: measured {measured}, predicted {predicted}"
                x, y = x_axis.at(point.measured_s), y_axis.at(point.predicted_s)
                drawing.dot(x, y, radius, kinds[group] + pale, note)
    drawing.height = y_axis.start + _BELOW
    return drawing


def _band(drawing: Drawing, x_axis: Axis, y_axis: Axis, band: float) -> None:
    """The line of equal times, and around it the band."""
    low, high = x_axis.least, x_axis.most
    above = [(low, low * (1 + band)), (high / (1 + band), high)]
    below = [(high, high * (1 - band)), (low / (1 - band), low)]
    corners = [above[0], above[1], (high, high), below[0], below[1], (low, low)]
    drawing.shape([(x_axis.at(x), y_axis.at(y)) for x, y in corners], "band")
    drawing.line((x_axis.start, y_axis.start), (x_axis.end, y_axis.end), "equal")
    room = " ± " + f"{band:.0%}"
    drawing.text(x_axis.end - 6, y_axis.start - 8, f"line: equal; band:{room}", "small", "end")


_HEIGHT, _ABOVE, _UNDER, _FROM, _TO = 150.0, 20.0, 44.0, 12.0, WIDTH - 12
_BINS: Final = 36
_UNITS: Final = (
    (2 * 86400.0, AxisUnit("days", 86400.0)),
    (7200.0, AxisUnit("h", 3600.0)),
    (120.0, AxisUnit("min", 60.0)),
    (0.0, AxisUnit("s")),
)


def has_spread(seconds: Sequence[float]) -> bool:
    """True if not all lengths are the same."""
    values = [value for value in seconds if np.isfinite(value)]
    return len(values) > 1 and max(values) - min(values) > 1e-9 * max(values)


def span_histogram(seconds: Sequence[float], marks: Sequence[tuple[str, float]], name: str) -> Drawing:
    """How often each length comes, with `marks` at P10, P50 and P90."""
    values = np.asarray([value for value in seconds if np.isfinite(value)], float)
    counts, edges = np.histogram(values, _BINS)
    axis = Axis(float(edges[0]), float(edges[-1]), _FROM, _TO)
    unit = span_unit(float(edges[-1]))
    said = ", ".join(f"{mark} {span(at)}" for mark, at in marks)
    drawing = Drawing(f"{name} of {len(values):,} simulated jobs: {said}")
    bottom = _ABOVE + _HEIGHT
    for value in axis.ticks(unit):
        x = axis.at(value)
        drawing.line((x, bottom), (x, bottom + 4), "axis")
        drawing.text(x, bottom + 17, unit.text(value), anchor="middle")
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        tall = _HEIGHT * 0.92 * float(count) / float(counts.max())
        left, right = axis.at(float(low)), axis.at(float(high))
        note = f"{span(float(low))} to {span(float(high))}: {count / len(values):.1%} of the jobs"
        drawing.rect(left, bottom - tall, right - left - 0.8, tall, "f0", note)
    drawing.line((_FROM, bottom), (_TO, bottom), "axis")
    for (mark, at), anchor in zip(marks, ("end", "middle", "start"), strict=True):
        if np.isfinite(at):
            x = axis.at(at)
            drawing.line((x, _ABOVE - 4), (x, bottom), "equal")
            drawing.text(x, _ABOVE - 8, mark, "small strong", anchor)
    drawing.text((_FROM + _TO) / 2, bottom + 36, f"{name}, {unit.name}", anchor="middle")
    drawing.height = bottom + _UNDER
    return drawing


def span_unit(most_s: float) -> AxisUnit:
    """The unit in which times up to `most_s` are written."""
    return next(unit for least, unit in _UNITS if most_s >= least)


WIDEST = 32
"""Ranks of which the whole matrix is drawn."""
_WITH_TEXT = 9
_BESIDE, _HEAD = 78.0, 44.0


def rate_matrix(names: Sequence[str], rates: Mapping[tuple[int, int], float]) -> Drawing:
    """From the rank of a row to that of a column; the stronger the colour, the faster."""
    count = max(len(names), 1)
    side = min(46.0, (WIDTH - _BESIDE - 6) / count)
    most = max(rates.values(), default=0.0)
    unit = unit_for(Dimension.BYTES_PER_S, most)
    drawing = Drawing(f"rates between {count} ranks in {unit.name}", _HEAD + side * count + 8)
    drawing.text(_BESIDE, 12, f"{unit.name}, from the rank on the left to the one above")
    for number, name in enumerate(names):
        middle = side * (number + 0.5)
        drawing.text(_BESIDE - 6, _HEAD + middle + 4, shortened(name, _BESIDE - 10), "small", "end")
        drawing.text(_BESIDE + middle, _HEAD - 6, str(number), "small", "middle")
    for (source, target), value in rates.items():
        x, y = _BESIDE + side * target, _HEAD + side * source
        share = value / most if most else 0.0
        note = f"{names[source]} to {names[target]}: {rate(value)}"
        drawing.rect(x + 1, y + 1, side - 2, side - 2, "panel")
        drawing.rect(x + 1, y + 1, side - 2, side - 2, f"f0 shade{_shade(share)}", note)
        if count <= _WITH_TEXT:
            kind = "small inside" if _shade(share) > 6 else "small strong"
            drawing.text(x + side / 2, y + side / 2 + 4, f"{value / unit.size:.3g}", kind, "middle")
    return drawing


def _shade(share: float) -> int:
    """From 0 to 10."""
    return round(10 * min(max(share, 0.0), 1.0))


_SERIES_LEFT, _SERIES_RIGHT, _HIGH = 62.0, WIDTH - 16, 150.0
_LEVELS: Final = "▁▂▃▄▅▆▇█"


def step_chart(points: Sequence[tuple[int, float]], name: str, text: Callable[[float], str]) -> Drawing:
    """`name` over the number of the step; one curve, from a little below its least value."""
    drawing = Drawing(f"{name} of steps {points[0][0]:,} to {points[-1][0]:,}")
    values = [value for _, value in points]
    room = (max(values) - min(values)) * 0.08 or abs(values[0]) * 0.05 or 1.0
    x_axis = Axis(points[0][0], max(points[-1][0], points[0][0] + 1), _SERIES_LEFT, _SERIES_RIGHT)
    y_axis = Axis(max(min(values) - room, 0.0), max(values) + room, _HIGH + 8, 8.0)
    plain = AxisUnit("", 1.0)
    plot_axes(
        drawing,
        (x_axis, x_axis.ticks(plain), lambda step: f"{step:,.0f}", "step"),
        (y_axis, y_axis.ticks(plain), text, name),
    )
    drawing.curve([(x_axis.at(step), y_axis.at(value)) for step, value in points], f"curve s{colour(0)}")
    drawing.height = y_axis.start + 42
    return drawing


def spark_line(values: Sequence[float], width: int) -> str:
    """The latest `width` values as a row of small columns."""
    shown = list(values)[-width:]
    low, high = min(shown), max(shown)
    step = (high - low) / (len(_LEVELS) - 1) or 1.0
    return "".join(_LEVELS[round((value - low) / step)] for value in shown)
