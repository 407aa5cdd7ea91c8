"""Horizontal bars: one for each thing, with its spread and a second value, or stacks of parts.

Holds `Bar`, `bar_chart`, `memory_chart`, `Stack` and `stack_chart`; `label_width`, `beside_bar` and
`BELOW` for charts like them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from syncwall.cause import Cause
from syncwall.show.draw.axes import Axis, Unit, unit_for
from syncwall.show.draw.frame import Entry, colour, legend, value_axis, whisker
from syncwall.show.draw.svg import FONT, SMALL_FONT, WIDTH, Drawing, shortened, text_width
from syncwall.show.numbers import gigabytes
from syncwall.units import Dimension

_WIDEST_LABEL = 220.0
BELOW = 42.0
"""Room for the axis."""
Parts = Mapping[Cause, float] | Mapping[str, float]


@dataclass(frozen=True)
class Bar:
    """One value."""

    label: str
    value: float
    spread: tuple[float, float] | None = None
    """P10 and P90."""
    mark: float | None = None
    """A second value, drawn as a mark."""
    note: str = ""
    """Shown to those who point at it."""
    kind: str = "f0"
    """Its colour, as a class of `chart.css`."""


@dataclass(frozen=True)
class Names:
    """What a chart calls its axis, its bars and its marks."""

    axis: str
    bar: str = ""
    mark: str = ""
    spread: str = "P10 to P90"
    kinds: tuple[Entry, ...] = ()
    """What the colours mean, if there are several."""
    unit: Unit | None = None
    """Of the axis; the one that fits if None."""


def bar_chart(
    bars: Sequence[Bar], dimension: Dimension, names: Names, text: Callable[[float], str]
) -> Drawing:
    """A bar for each of `bars`, its value beside it."""
    drawing = Drawing(f"{names.axis}: {', '.join(f'{b.label} {text(b.value)}' for b in bars)}")
    reach = [max(bar.value, *(bar.spread or ()), bar.mark or 0.0) for bar in bars]
    left = label_width([bar.label for bar in bars])
    beside = max((text_width(text(bar.value)) for bar in bars), default=0.0) + 14
    axis = Axis.from_zero(reach, left, WIDTH - beside)
    top = legend(drawing, _bar_legend(bars, names), 0.0) + 4
    height, bottom = 24.0, top + 24.0 * len(bars)
    unit = names.unit or unit_for(dimension, max(reach, default=0))
    value_axis(drawing, axis, unit, names.axis, (top, bottom))
    for number, bar in enumerate(bars):
        middle = top + height * number + height / 2
        beside_bar(drawing, bar.label, left, middle)
        note = bar.note or f"{bar.label}: {text(bar.value)}"
        drawing.rect(left, middle - 8, axis.at(bar.value) - left, 16, bar.kind, note)
        if bar.spread is not None:
            whisker(drawing, axis.at(bar.spread[0]), axis.at(bar.spread[1]), middle)
        if bar.mark is not None:
            drawing.diamond(axis.at(bar.mark), middle, 5, "mark", f"{names.mark}: {text(bar.mark)}")
        drawing.text(axis.at(reach[number]) + 9, middle + 4, text(bar.value), "strong")
    drawing.line((left, top), (left, bottom), "axis")
    drawing.height = bottom + BELOW
    return drawing


def memory_chart(parts: Sequence[tuple[str, float]]) -> Drawing:
    """A bar for each part of the memory of a GPU."""
    bars = [Bar(cause, used) for cause, used in parts if used > 0]
    names = Names("memory of the fullest GPU", unit=Unit("GB", 1e9))
    return bar_chart(bars, Dimension.BYTES, names, gigabytes)


def _bar_legend(bars: Sequence[Bar], names: Names) -> list[Entry]:
    entries = [Entry(names.bar, "f0")] if names.bar else list(names.kinds)
    if any(bar.spread is not None for bar in bars):
        entries.append(Entry(names.spread, "whisker", "whisker"))
    if any(bar.mark is not None for bar in bars):
        entries.append(Entry(names.mark, "mark", "diamond"))
    return entries


@dataclass(frozen=True)
class Stack:
    """Parts of a whole, measured and perhaps predicted."""

    label: str
    measured: Parts
    predicted: Parts | None = None


def stack_chart(
    stacks: Sequence[Stack], dimension: Dimension, name: str, text: Callable[[float], str]
) -> Drawing:
    """Two bars for each stack: the measured parts, and paler under them the predicted ones."""
    drawing = Drawing(f"{name}: parts of {', '.join(stack.label for stack in stacks)}")
    every = [parts for stack in stacks for parts in (stack.measured, stack.predicted or {})]
    causes = list(
        dict.fromkeys(cause for parts in every for cause, value in parts.items() if value)
    )
    kinds = {cause: f"f{colour(number)}" for number, cause in enumerate(causes)}
    left = label_width([stack.label for stack in stacks])
    totals = [sum(parts.values()) for parts in every]
    axis = Axis.from_zero(totals, left, WIDTH - 16)
    entries = [Entry(cause, kind) for cause, kind in kinds.items()]
    if any(stack.predicted for stack in stacks):
        entries += [Entry("measured (above)", "f5"), Entry("predicted (below)", "f5 pale")]
    top = legend(drawing, entries, 0.0) + 4
    height = 30.0
    bottom = top + height * len(stacks)
    value_axis(drawing, axis, unit_for(dimension, max(totals, default=0)), name, (top, bottom))
    for number, stack in enumerate(stacks):
        middle = top + height * number + height / 2
        beside_bar(drawing, stack.label, left, middle)
        rows = [("measured", stack.measured, "")]
        rows += [("predicted", stack.predicted, " pale")] if stack.predicted else []
        thick = 11.0 if len(rows) == 2 else 16.0
        for row, (who, parts, pale) in enumerate(rows):
            y = middle - thick * len(rows) / 2 + row * thick
            whose = f"{stack.label}, {who}"
            _parts(drawing, axis, y, thick, [
                (value, kinds.get(cause, "f5") + pale, f"{whose} {cause}: {text(value)}")
                for cause, value in parts.items()
            ])  # fmt: skip
    drawing.line((left, top), (left, bottom), "axis")
    drawing.height = bottom + BELOW
    return drawing


def _parts(
    drawing: Drawing, axis: Axis, y: float, thick: float, parts: list[tuple[float, str, str]]
) -> None:
    """One bar made of parts: seconds, classes and note of each."""
    done = 0.0
    for value, kind, note in parts:
        start, end = axis.at(done), axis.at(done + value)
        drawing.rect(start, y, end - start, thick - 1, kind, note)
        done += value


def label_width(labels: Sequence[str]) -> float:
    """Room for `labels` beside bars."""
    return min(_WIDEST_LABEL, max(map(text_width, labels), default=0.0)) + 14


def beside_bar(drawing: Drawing, label: str, left: float, middle: float) -> None:
    """Write `label` beside a bar; a long one in small letters."""
    is_long = text_width(label) > _WIDEST_LABEL
    words = shortened(label, _WIDEST_LABEL, SMALL_FONT if is_long else FONT)
    kind = "small strong" if is_long else "strong"
    drawing.text(left - 7, middle + 4, words, kind, "end")
