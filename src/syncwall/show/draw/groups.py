"""Ledgers side by side: for each cause a bar of every run.

Holds `Group`, `group_chart` (a picture) and `group_lines` (the same in letters).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from syncwall.show.draw.axes import Axis, unit_for
from syncwall.show.draw.bars import BELOW, beside_bar, label_width
from syncwall.show.draw.frame import Entry, colour, legend, value_axis
from syncwall.show.draw.svg import WIDTH, Drawing, text_width
from syncwall.units import Dimension

_THICK: Final = 12.0
_BETWEEN: Final = 9.0
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"
_WIDEST: Final = 40


@dataclass(frozen=True)
class Group:
    """One quantity of every run."""

    label: str
    values: tuple[float, ...]


def group_chart(
    groups: Sequence[Group], names: Sequence[str], axis_name: str, text: Callable[[float], str]
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
    groups: Sequence[Group], letters: Sequence[str], text: Callable[[float], str], width: int
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
