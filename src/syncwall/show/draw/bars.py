"""Horizontal bars: one for each thing, stacks of parts, ledgers, and ledgers side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from syncwall.cause import Cause
from syncwall.show.blocks import Breakdown
from syncwall.show.draw.curves import span_unit
from syncwall.show.draw.svg import (
    FONT,
    SMALL_FONT,
    WIDTH,
    Axis,
    AxisUnit,
    Drawing,
    Entry,
    colour,
    legend,
    shortened,
    text_width,
    unit_for,
    value_axis,
    whisker,
)
from syncwall.show.numbers import gigabytes
from syncwall.show.terms import meaning
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
    unit: AxisUnit | None = None
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
    names = Names("memory of the fullest GPU", unit=AxisUnit("GB", 1e9))
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
    causes = list(dict.fromkeys(cause for parts in every for cause, value in parts.items() if value))
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
            _parts(
                drawing,
                axis,
                y,
                thick,
                [
                    (value, kinds.get(cause, "f5") + pale, f"{whose} {cause}: {text(value)}")
                    for cause, value in parts.items()
                ],
            )
    drawing.line((left, top), (left, bottom), "axis")
    drawing.height = bottom + BELOW
    return drawing


def _parts(drawing: Drawing, axis: Axis, y: float, thick: float, parts: list[tuple[float, str, str]]) -> None:
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


_LONG_S = 120.0
"""Times from which on axes are in minutes, hours or days."""


def ledger_drawing(ledger: Breakdown) -> Drawing:
    """A bar for each part, with its value and its share."""
    bars = [
        Bar(
            one.name,
            one.value,
            note=f"{one.name}: {ledger.text(one.value)}. {meaning(one.name)}",
            kind="f1" if one.is_wait else "f0",
        )
        for one in ledger.parts
    ]
    works, waits = ledger.kinds
    most = max((bar.value for bar in bars), default=0.0)
    names = Names(
        f"time of the {ledger.total}",
        kinds=(Entry(works, "f0"), Entry(waits, "f1")),
        unit=span_unit(most) if most >= _LONG_S else None,
    )
    whole = ledger.whole or 1.0
    return bar_chart(bars, Dimension.SECONDS, names, lambda s: f"{ledger.text(s)}, {s / whole:.1%}")


_THICK: Final = 12.0
_BETWEEN: Final = 9.0
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"
_WIDEST: Final = 40


@dataclass(frozen=True)
class BarGroup:
    """One quantity of every run."""

    label: str
    values: tuple[float, ...]


def group_chart(
    groups: Sequence[BarGroup], names: Sequence[str], axis_name: str, text: Callable[[float], str]
) -> Drawing:
    """Seconds of each group, a bar for each of `names`."""
    listed = ", ".join(f"{one.label} {' / '.join(map(text, one.values))}" for one in groups)
    drawing = Drawing(f"{axis_name} of {' and '.join(names)}: {listed}")
    every = [value for one in groups for value in one.values]
    left = label_width([one.label for one in groups])
    beside = max((text_width(text(value)) for value in every), default=0.0) + 14
    axis = Axis.from_zero(every, left, WIDTH - beside)
    kinds = [f"f{colour(number)}" for number in range(len(names))]
    entries = [Entry(name, kind) for name, kind in zip(names, kinds, strict=True)]
    top = legend(drawing, entries, 0.0) + 6
    height = _THICK * len(names) + _BETWEEN
    bottom = top + height * len(groups)
    unit = unit_for(Dimension.SECONDS, max(every, default=0.0))
    value_axis(drawing, axis, unit, axis_name, (top, bottom))
    for number, group in enumerate(groups):
        start = top + height * number + _BETWEEN / 2
        beside_bar(drawing, group.label, left, start + _THICK * len(names) / 2)
        for row, (name, value) in enumerate(zip(names, group.values, strict=True)):
            y, end = start + _THICK * row, axis.at(value)
            note = f"{group.label}, {name}: {text(value)}"
            drawing.rect(left, y, end - left, _THICK - 1, kinds[row], note)
            drawing.text(end + 6, y + _THICK - 3, text(value), "small")
    drawing.line((left, top), (left, bottom), "axis")
    drawing.height = bottom + BELOW
    return drawing


def group_lines(
    groups: Sequence[BarGroup], letters: Sequence[str], text: Callable[[float], str], width: int
) -> list[str]:
    """The same for a terminal of `width` columns: a line for each bar."""
    most = max((value for one in groups for value in one.values), default=0.0) or 1.0
    names = max((len(one.label) for one in groups), default=0)
    values = max((len(text(v)) for one in groups for v in one.values), default=0)
    wide = max(min(width - names - values - 6, _WIDEST), 4)
    return [
        f"{'' if row else group.label:<{names}}  {letter}  {_bar(value / most * wide)}{text(value)}"
        for group in groups
        for row, (letter, value) in enumerate(zip(letters, group.values, strict=True))
    ]


def _bar(length: float) -> str:
    whole, part = divmod(round(8 * length), 8)
    drawn = _FULL * whole + _PARTS[part].strip()
    return f"{drawn} " if drawn else ""
