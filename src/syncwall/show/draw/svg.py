"""A drawing as SVG text: axes, ticks, legends; colours come from `chart.css`."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final, Literal

from syncwall import units
from syncwall.units import Dimension

WIDTH: Final = 480.0
"""Of every chart: shown at this size on a screen, and not too small on a phone."""
FONT: Final = 12.0
SMALL_FONT: Final = 10.5
COLOURS: Final = 8
"""How many different ones `chart.css` has; `colour` counts through them."""
_LETTER: Final = 0.58
"""Mean width of a letter over the size of the font."""


@cache
def style() -> str:
    """The rules of `chart.css`, with light colours first for viewers that know no variables."""
    rules = files("syncwall.show.draw").joinpath("chart.css").read_text(encoding="utf-8").strip()
    light = dict(re.findall(r"(--\w+): (#\w+);", rules.partition("@media")[0]))

    def twice(found: re.Match[str]) -> str:
        return f"{found[1]}: {light[found[2]]}; {found[0]}"

    return re.sub(r"([\w-]+): var\((--\w+)\)", twice, rules)


def text_width(words: str, size: float = FONT) -> float:
    """About how wide `words` are."""
    return len(words) * _LETTER * size


def shortened(words: str, width: float, size: float = FONT) -> str:
    """As much of `words` as fits into `width`."""
    most = max(2, int(width / (_LETTER * size)))
    return words if len(words) <= most else words[: most - 1] + "…"


@dataclass
class Drawing:
    """A picture that grows by calls; y counts downwards."""

    label: str
    """What it shows, for those who cannot see it."""
    height: float = 0.0
    width: float = WIDTH
    parts: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        kind: str = "",
        anchor: str = "start",
        turned: bool = False,
    ) -> None:
        """Words with their baseline at `y`; `turned` to read upwards."""
        turn = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
        self._add(
            f'<text x="{_n(x)}" y="{_n(y)}" class="{kind}" text-anchor="{anchor}"{turn}>'
            f"{escape(words)}</text>"
        )

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        kind: str,
        stroke: str = "",
        title: str = "",
    ) -> None:
        """A straight line; `stroke` are attributes beside its kind, as `stroked` gives them."""
        (x1, y1), (x2, y2) = start, end
        ends = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
        self._add(_titled("line", f'{ends} class="{kind}"{stroke}', title))

    def rect(self, x: float, y: float, width: float, height: float, kind: str, title: str = "") -> None:
        """A box; `title` appears when somebody points at it."""
        box = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0))}" height="{_n(max(height, 0))}"'
        self._add(_titled("rect", f'{box} class="{kind}"', title))

    def dot(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        """A disc."""
        self._add(_titled("circle", f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" class="{kind}"', title))

    def diamond(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        """A square that stands on a corner."""
        corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
        self.shape(corners, kind, title)

    def shape(self, corners: list[tuple[float, float]], kind: str, title: str = "") -> None:
        """A closed shape."""
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in corners)
        self._add(_titled("polygon", f'points="{points}" class="{kind}"', title))

    def curve(self, points: list[tuple[float, float]], kind: str, stroke: str = "", title: str = "") -> None:
        """A line through `points`; `stroke` as of `line`."""
        joined = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._add(_titled("polyline", f'points="{joined}" class="{kind}"{stroke}', title))

    @contextmanager
    def group(self, kind: str, name: str) -> Iterator[None]:
        """What is drawn within belongs together: it is `name`, one of a `kind`."""
        self._add(f'<g data-kind="{escape(kind)}" data-name="{escape(name)}">')
        yield
        self._add("</g>")

    def markup(self) -> str:
        """The element, for a page that has the style."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(self.width)} '
            f'{_n(self.height)}" width="{_n(self.width)}" height="{_n(self.height)}" role="img" '
            f'aria-label="{escape(self.label)}">' + "".join(self.parts) + "</svg>"
        )

    def file(self) -> str:
        """A file of its own, with the style and a ground."""
        head, rest = self.markup().split(">", 1)
        ground = '<rect width="100%" height="100%" rx="6" class="ground"/>'
        return f"{head}>\n<style>\n{style()}\n</style>\n{ground}\n{rest}\n"

    def _add(self, part: str) -> None:
        self.parts.append(part)


def stroked(width: float, opacity: float = 1.0, colour: str = "") -> str:
    """Attributes of a line with a width of its own, and a colour that is not its kind's."""
    own = f' stroke="{colour}"' if colour else ""
    return f'{own} stroke-width="{_n(width)}" stroke-opacity="{opacity:g}" fill="none"'


def _titled(kind: str, attributes: str, title: str) -> str:
    if not title:
        return f"<{kind} {attributes}/>"
    return f"<{kind} {attributes}><title>{escape(title)}</title></{kind}>"


def _n(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


_TICKS = 5


@dataclass(frozen=True)
class AxisUnit:
    """What one is called on an axis, and how much it is in SI."""

    name: str
    size: float = 1.0

    def text(self, value: float) -> str:
        """`value` in this unit, as a number only."""
        return f"{value / self.size:.6g}"


def unit_for(dimension: Dimension, most: float) -> AxisUnit:
    """The unit in which `most` is written."""
    if most <= 0:
        return AxisUnit(units.si_unit(dimension))
    name = units.format(most, dimension, digits=3).split(" ")[-1]
    return AxisUnit(name, units.parse(f"1 {name}", dimension))


@dataclass(frozen=True)
class Axis:
    """Values from `least` to `most`, drawn from `start` to `end`."""

    least: float
    most: float
    start: float
    end: float
    is_log: bool = False

    @classmethod
    def from_zero(cls, values: Iterable[float], start: float, end: float) -> "Axis":
        """A linear axis from zero that has room for `values`."""
        return cls(0.0, max([*values, 0.0]) * 1.03 or 1.0, start, end)

    @classmethod
    def log(cls, values: Iterable[float], start: float, end: float, room: float = 1.15) -> "Axis":
        """A logarithmic axis that has room for those of `values` above zero."""
        above = [value for value in values if value > 0] or [1.0]
        return cls(min(above) / room, max(above) * room, start, end, is_log=True)

    def at(self, value: float) -> float:
        """Where `value` is drawn; what lies outside is drawn at the nearer end."""
        value = min(max(value, self.least), self.most)
        if self.is_log:
            share = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            share = (value - self.least) / (self.most - self.least)
        return self.start + share * (self.end - self.start)

    def ticks(self, unit: AxisUnit) -> list[float]:
        """Round values on the axis, counted in `unit`."""
        if self.is_log:
            return self._log_ticks(unit)
        step = _round_step((self.most - self.least) / unit.size / _TICKS) * unit.size
        first, last = math.ceil(self.least / step), math.floor(self.most / step + 1e-9)
        return [number * step for number in range(first, min(last, first + 20) + 1)]

    def _log_ticks(self, unit: AxisUnit) -> list[float]:
        low, high = (math.log10(value / unit.size) for value in (self.least, self.most))
        decades = range(math.floor(low), math.ceil(high) + 1)
        choices: list[Callable[[int], tuple[int, ...]]] = [
            lambda _: (1, 2, 3, 5, 7),
            lambda _: (1, 2, 5),
            lambda _: (1, 3),
            lambda _: (1,),
            lambda decade: () if decade % 2 else (1,),
            lambda decade: () if decade % 4 else (1,),
        ]
        for chosen in choices:
            found = [m * 10.0**decade * unit.size for decade in decades for m in chosen(decade)]
            found = [value for value in found if self.least <= value <= self.most]
            if len(found) <= 7:
                return found
        return found[:: len(found) // 6]


def binary_ticks(axis: Axis) -> list[float]:
    """Powers of two on a logarithmic axis of bytes, a constant factor apart, 7 at most."""
    low, high = math.ceil(math.log2(axis.least)), math.floor(math.log2(axis.most))
    step = next(step for step in (1, 2, 5, 10, 20, 40, 100, 1000) if (high - low) / step <= 6)
    return [2.0**power for power in range(low, high + 1) if power % step == 0]


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5, 10, ... that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


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


def value_axis(drawing: Drawing, axis: Axis, unit: AxisUnit, name: str, ends: tuple[float, float]) -> None:
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
