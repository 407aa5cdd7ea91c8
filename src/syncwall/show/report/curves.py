"""Charts with two axes of values: rates over sizes, and predicted against measured times.

Holds `Series`, `size_chart`, `Point` and `error_chart`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from syncwall.show.measurement import duration, rate
from syncwall.show.report.axes import Axis, binary_ticks, size_text, unit_for
from syncwall.show.report.frame import Entry, colour, legend, plot_axes
from syncwall.show.report.svg import WIDTH, Drawing
from syncwall.units import Dimension

_LEFT, _RIGHT, _BELOW = 62.0, WIDTH - 16, 46.0
_DASHES = 4


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
        (x_axis, binary_ticks(x_axis), size_text, "size of the vector"),
        (y_axis, y_axis.ticks(unit), unit.text, f"{name}, {unit.name}"),
    )
    for one in series:
        shown = [(x_axis.at(s), y_axis.at(v), s, v) for s, v in one.points if s > 0 and v > 0]
        drawing.curve([(x, y) for x, y, _, _ in shown], _kind(one))
        for x, y, size, value in shown:
            note = f"{one.name}: {size_text(size)}, {rate(value)}"
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
    for point in points:
        note = f"{point.label}: measured {duration(point.measured_s)}, predicted " + duration(
            point.predicted_s
        )
        x, y = x_axis.at(point.measured_s), y_axis.at(point.predicted_s)
        drawing.dot(x, y, 4.5, kinds[point.group], note)
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
