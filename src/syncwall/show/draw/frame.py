"""What charts have in common: a legend, and axes with their ticks and names.

Holds `Entry`, `legend`, `value_axis`, `plot_axes` and `colour`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from syncwall.show.draw.axes import Axis, Unit
from syncwall.show.draw.svg import COLOURS, Drawing, shortened, text_width

_ROW = 17.0


def colour(number: int) -> int:
    """The number of a colour: after the last, the first again."""
    return number % COLOURS


@dataclass(frozen=True)
class Entry:
    """One line of a legend."""

    name: str
    kind: str
    """Classes of the sample."""
    sample: Literal["box", "line", "dot", "diamond", "whisker"] = "box"


def legend(drawing: Drawing, entries: Sequence[Entry], top: float, left: float = 4.0) -> float:
    """Draw `entries` from `top` on, as many in a row as fit; returns where they end."""
    x, y = left, top + 12
    for entry in entries:
        name = shortened(entry.name, drawing.width - left - 30)
        width = 28 + text_width(name) + 14
        if x > left and x + width > drawing.width + 8:
            x, y = left, y + _ROW
        _sample(drawing, entry, x, y - 4)
        drawing.text(x + 28, y, name)
        x += width
    return y + 6 if entries else top


def _sample(drawing: Drawing, entry: Entry, x: float, y: float) -> None:
    if entry.sample == "box":
        drawing.rect(x + 8, y - 5, 14, 10, entry.kind)
    elif entry.sample == "dot":
        drawing.dot(x + 15, y, 4.5, entry.kind)
    elif entry.sample == "diamond":
        drawing.diamond(x + 15, y, 5, entry.kind)
    elif entry.sample == "whisker":
        whisker(drawing, x + 4, x + 24, y)
    else:
        drawing.line((x, y), (x + 24, y), entry.kind)


def whisker(drawing: Drawing, low: float, high: float, y: float) -> None:
    """A line from `low` to `high` with ends."""
    for kind in ("halo", "whisker"):  # the halo keeps it apart from the bar
        drawing.line((low, y), (high, y), kind)
        for x in (low, high):
            drawing.line((x, y - 4), (x, y + 4), kind)


def value_axis(
    drawing: Drawing, axis: Axis, unit: Unit, name: str, ends: tuple[float, float]
) -> None:
    """Ticks of a horizontal axis under bars that reach from one of `ends` to the other."""
    top, bottom = ends
    for value in axis.ticks(unit):
        x = axis.at(value)
        drawing.line((x, top), (x, bottom), "grid")
        drawing.text(x, bottom + 15, unit.text(value), anchor="middle")
    drawing.text((axis.start + axis.end) / 2, bottom + 32, f"{name}, {unit.name}", anchor="middle")


def plot_axes(
    drawing: Drawing,
    across: tuple[Axis, Sequence[float], Callable[[float], str], str],
    upwards: tuple[Axis, Sequence[float], Callable[[float], str], str],
) -> None:
    """Grid, ticks and names of both axes; each an axis, its ticks, their text, and its name."""
    x_axis, x_ticks, x_text, x_name = across
    y_axis, y_ticks, y_text, y_name = upwards
    for value in x_ticks:
        x = x_axis.at(value)
        drawing.line((x, y_axis.start), (x, y_axis.end), "grid")
        drawing.text(x, y_axis.start + 16, x_text(value), "small", "middle")
    for value in y_ticks:
        y = y_axis.at(value)
        drawing.line((x_axis.start, y), (x_axis.end, y), "grid")
        drawing.text(x_axis.start - 6, y + 4, y_text(value), "small", "end")
    drawing.line((x_axis.start, y_axis.start), (x_axis.end, y_axis.start), "axis")
    drawing.line((x_axis.start, y_axis.start), (x_axis.start, y_axis.end), "axis")
    drawing.text((x_axis.start + x_axis.end) / 2, y_axis.start + 34, x_name, anchor="middle")
    middle = (y_axis.start + y_axis.end) / 2
    drawing.text(12, middle, y_name, anchor="middle", turned=True)
