"""A fabric as a picture: some of its switches, with how many there are.

Holds `fabric_drawing`, which gives SVG for 8 to 1,000,000 GPUs: of many equal things the first ones
and the last one are drawn, with dots between them.
"""

from itertools import pairwise
from typing import Final

from syncwall.plan.fabric.sized import Sized
from syncwall.show.fabric_parts import Row, columns_of, title_of, top_of
from syncwall.show.report.svg import COLOURS, Drawing, shortened, text_width

_WIDTH: Final = 960.0
_LEFT: Final = 132.0
_RIGHT: Final = 946.0
_TOP: Final = 84.0
_STEP: Final = 84.0
"""Between two rows of switches."""
_BOX: Final = 18.0
_COLUMNS: Final = 4
_TINTS: Final = {"core": 3, "spine": 0, "leaf": 2, "router": 0}


def fabric_drawing(one: Sized) -> str:
    """An SVG file of its own that shows `one`, light or dark as its reader prefers."""
    title, under = title_of(one)
    drawing = Drawing(title, width=_WIDTH)
    drawing.text(18, 28, title, "strong")
    drawing.text(18, 46, under)
    count, rows = columns_of(one)
    top = top_of(one)
    y = _TOP + (60 if one.kind == "dragonfly" and count > 1 else 0)
    above: list[float] = []
    if top is not None:
        above = _row(drawing, (_LEFT, _RIGHT), y, top, most=8)
        _label(drawing, y, top, one)
        y += _STEP
    for row_number, row in enumerate(rows):
        _label(drawing, y + row_number * _STEP, row, one)
    places = _spread(_LEFT, _RIGHT, count, _COLUMNS)
    if one.kind == "dragonfly":
        _arcs(drawing, [centre for centre, _, _ in places], y)
    last = _columns(drawing, one, rows, places, (above, y))
    drawing.height = last + 34
    return drawing.file()


def _columns(
    drawing: Drawing, one: Sized, rows: list[Row], places: list[tuple[float, float, int]],
    start: tuple[list[float], float],
) -> float:  # fmt: skip
    """Pods, groups, rails or leaves side by side; the y of the lowest line."""
    above, top = start
    foot = top + (len(rows) - 1) * _STEP + 58
    for centre, width, _ in places:
        drawing.rect(centre - width / 2, top - 26, width, foot - top + 64, "panel")
    for number, (centre, width, _) in enumerate(places):
        span = (centre - width / 2 + 8, centre + width / 2 - 8)
        _cables(drawing, _column(rows, number, places), span, above, top)
    for number, (centre, width, index) in enumerate(places):
        span = (centre - width / 2 + 8, centre + width / 2 - 8)
        column = _column(rows, number, places)
        lowest = _places(*span, column[-1].count, column[-1].most)
        if one.kind == "dragonfly":
            _mesh(drawing, lowest, top)
        for x in lowest:
            drawing.line((x, foot - 58), (x, foot - 4), "wire")
        for depth, row in enumerate(column):
            tint = number if one.kind == "rail-only" else None
            _row(drawing, span, top + depth * _STEP, row, tint=tint)
        drawing.rect(span[0], foot - 4, span[1] - span[0], 18, "f5 pale")
        under = shortened(column[-1].under, width)
        drawing.text(centre, foot + 9, under, "small strong", "middle")
        named = column[-1].named.format(index=f"{index + 1:,}", count=f"{column[-1].count:,}")
        drawing.text(centre, foot + 29, shortened(named, width, 10.5), "small", "middle")
    if len(places) > 1 and places[-1][2] != places[-2][2] + 1:
        gap = (places[-2][0] + places[-1][0] + (places[-2][1] - places[-1][1]) / 2) / 2
        drawing.text(gap, (top + foot) / 2, "…", "strong", "middle")
    return foot + 18


def _column(rows: list[Row], number: int, places: list[tuple[float, float, int]]) -> list[Row]:
    """The rows of a drawn column."""
    return [row.in_column(number == len(places) - 1) for row in rows]


def _cables(
    drawing: Drawing, rows: list[Row], span: tuple[float, float], above: list[float], top: float
) -> None:
    """Lines from each switch of a column to those above it; to the top row from three only."""
    for depth, row in enumerate(rows):
        y = top + depth * _STEP
        here = _places(*span, row.count, row.most)
        ends = here if depth else [here[0], here[len(here) // 2], here[-1]]
        for x in dict.fromkeys(ends):
            for parent in above:
                drawing.line((parent, y - _STEP + _BOX / 2), (x, y - _BOX / 2), "grid")
        above = here


def _row(
    drawing: Drawing, span: tuple[float, float], y: float, row: Row, *, most: int | None = None,
    tint: int | None = None,
) -> list[float]:  # fmt: skip
    """Boxes for the switches of a row; their places."""
    most = most or row.most
    places = _places(*span, row.count, most)
    for number, x in enumerate(places):
        colour = (number if row.rails else _TINTS[row.tier]) if tint is None else tint
        drawing.rect(x - _BOX / 2, y - _BOX / 2, _BOX, _BOX, f"f{colour % COLOURS}", row.tier)
    if row.count > len(places):
        drawing.text((places[-2] + places[-1]) / 2, y + 4, "…", "strong", "middle")
    return places


def _places(left: float, right: float, count: int, most: int) -> list[float]:
    """Where the drawn ones of `count` boxes stand; a wider step before the last if some miss."""
    drawn = min(count, most)
    slots = drawn + (1 if count > most else 0)
    step = (right - left) / slots
    found = [left + step * (slot + 0.5) for slot in range(drawn)]
    if count > most:
        found[-1] = left + step * (slots - 0.5)
    return found


def _spread(left: float, right: float, count: int, most: int) -> list[tuple[float, float, int]]:
    """Centre, width and number of the drawn ones of `count` columns."""
    drawn = min(count, most)
    gap = 34.0 if count > most else 0.0
    width = min((right - left - gap) / drawn, 480.0)
    start = left + (right - left - gap - drawn * width) / 2
    found = [(start + width * (slot + 0.5), width - 10, slot) for slot in range(drawn)]
    if gap:
        centre, wide, _ = found[-1]
        found[-1] = (centre + gap, wide, count - 1)
    return found


def _label(drawing: Drawing, y: float, row: Row, one: Sized) -> None:
    """Name and total of a tier, at the left."""
    total = one.switches[row.tier]
    drawing.text(18, y, f"{total:,} {row.tier}", "strong")
    assert text_width(f"{total:,} {row.tier}") < _LEFT
    drawing.text(18, y + 15, row.ports, "small")


def _arcs(drawing: Drawing, centres: list[float], top: float) -> None:
    """Links between groups, above them."""
    for number, first in enumerate(centres):
        for second in centres[number + 1 :]:
            rise, shift = 8 + 0.05 * (second - first), 0.02 * (second - first)
            y, left, right = top - 26, first + shift, second - shift
            corners = [(left, y), (left + 14, y - rise), (right - 14, y - rise), (right, y)]
            drawing.curve(corners, "wire")


def _mesh(drawing: Drawing, places: list[float], y: float) -> None:
    """Links inside a group."""
    for first, second in pairwise(places):
        drawing.line((first, y), (second, y), "wire")
    for number, first in enumerate(places):
        for second in places[number + 2 :]:
            drop = 14 + 0.05 * (second - first)
            middle = (first + second) / 2
            drawing.curve([(first, y), (middle, y + drop), (second, y)], "wire")
