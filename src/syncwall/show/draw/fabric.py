"""A fabric as a picture: some of its switches, with how many there are.

Holds `fabric_drawing`, which gives SVG for 8 to 1,000,000 GPUs: of many equal things the first ones
and the last one are drawn, with dots between them. `Row`, `title_of`, `top_of` and `columns_of`:
what a drawing of a fabric shows: its rows of switches, its columns, its captions.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from syncwall import units
from syncwall.plan.fabric.question import Wiring
from syncwall.plan.fabric.sized import Sized
from syncwall.show.draw.svg import COLOURS, Drawing, shortened, text_width
from syncwall.show.numbers import percent, plural
from syncwall.units import Dimension


def bisection(one: Sized) -> str:
    """How much of the NICs' rate there is between two halves of the nodes."""
    share = "full" if one.bisection_share >= 1 else percent(one.bisection_share)
    return f"{share} bisection"


def nic_rate(wired: Wiring) -> str:
    """The rate of one NIC as it is sold."""
    return units.format(wired.nic_bytes_per_s, Dimension.BYTES_PER_S, unit="Gb/s")


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """Equal switches side by side."""

    tier: str
    count: int
    ports: str
    """How a switch's ports are used, in words."""
    most: int = 6
    """Switches that are drawn at most."""
    rails: bool = False
    """True if each switch belongs to another rail."""
    under: str = ""
    """What hangs below."""
    under_last: str = ""
    """What hangs below the last column, which may be less."""
    named: str = ""
    """What the column is, with `{index}` for its number and `{count}` for that of its switches."""
    in_last: int = 0
    """Switches in the last column if they are fewer; 0 if they are as many."""

    def in_column(self, last: bool) -> "SwitchRow":
        """The row of one column."""
        if not last:
            return self
        return replace(self, count=self.in_last or self.count, under=self.under_last)


def drawing_title(one: Sized) -> tuple[str, str]:
    """Two lines that say what is drawn."""
    switches = plural(one.total_switches, "switch", "switches")
    title = f"{plural(one.gpus, 'GPU')} on a {one.kind} fabric: {switches}"
    return title, (
        f"{plural(one.total_cables, 'cable')} of {nic_rate(one.wiring)} · {bisection(one)} · "
        f"at most {plural(one.hops, 'switch', 'switches')} between two NICs"
        f"{'' if one.joins_all else ' of a rail; GPUs forward between rails'}"
    )


def top_of(one: Sized) -> SwitchRow | None:
    """The row that all columns hang on; None if the columns stand alone."""
    if one.kind in ("dragonfly", "rail-only"):
        return None
    for tier in ("core", "spine"):
        if one.switches[tier]:
            return SwitchRow(tier, one.switches[tier], "all ports down")
    return None


def columns_of(one: Sized) -> tuple[int, list[SwitchRow]]:
    """How many equal columns there are, and the rows of one, the highest first."""
    if one.kind == "dragonfly":
        return _groups(one)
    if one.kind == "rail-only":
        return _rails(one)
    if one.tiers == 3:
        return _pods(one)
    rails = one.shape["rails"]
    leaves = one.switches["leaf"] // rails
    named = f"group {{index}}: {rails} leaf, one a rail" if rails > 1 else "leaf {index}"
    return leaves, [_leaf(one, rails, leaves, one.shape["leaf_nodes"], named)]


def _pods(one: Sized) -> tuple[int, list[SwitchRow]]:
    """Spines and leaves of one pod, full."""
    shape = one.shape
    leaves = min(shape["spine_down"], one.switches["leaf"])
    if shape["rails"] > 1:
        leaves = leaves // shape["rails"] * shape["rails"]
    named = f"pod {{index}}: {shape['up']:,} spine · {{count}} leaf"
    rest = one.switches["leaf"] - (shape["pods"] - 1) * leaves
    spines = SwitchRow("spine", shape["up"], f"{shape['spine_down']} down, {shape['spine_up']} up")
    lowest = _leaf(one, leaves, shape["pods"], shape["pod_nodes"], named)
    return shape["pods"], [spines, replace(lowest, in_last=max(rest, 1))]


def _rails(one: Sized) -> tuple[int, list[SwitchRow]]:
    """The tree of one rail."""
    rails, shape = one.shape["rails"], one.shape
    counts = {tier: count // rails for tier, count in one.switches.items()}
    rows = []
    if counts["core"]:
        rows.append(SwitchRow("core", counts["core"], "all ports down", most=4))
    if counts["spine"]:
        up = f"{shape['spine_down']} down, {shape['spine_up']} up"
        rows.append(SwitchRow("spine", counts["spine"], up if counts["core"] else "all ports down", most=4))
    numbers = " + ".join(f"{count:,}" for count in counts.values() if count)
    every = "one NIC of every node" if one.wiring.domain_nodes == 1 else "one NIC of every domain"
    ports = _down_and_up(one)
    rows.append(
        SwitchRow(
            "leaf",
            counts["leaf"],
            ports,
            under=every,
            under_last=every,
            named=f"rail {{index}}: {numbers}",
        )
    )
    return rails, rows


def _groups(one: Sized) -> tuple[int, list[SwitchRow]]:
    shape = one.shape
    routers = min(shape["group"], one.switches["router"])
    ports = f"{shape['down']} + {shape['group'] - 1} + {shape['up']} ports"
    under, last = _held(one, shape["pods"], shape["pod_nodes"])
    rest = one.switches["router"] - (shape["pods"] - 1) * routers
    named = "group {index}: {count} router"
    return shape["pods"], [SwitchRow("router", routers, ports, 5, False, under, last, named, rest)]


def _leaf(one: Sized, count: int, columns: int, nodes: int, named: str) -> SwitchRow:
    """The `count` leaves of each of `columns` columns, each of which holds up to `nodes`."""
    rails = one.shape["rails"] > 1
    under, last = _held(one, columns, nodes)
    return SwitchRow("leaf", count, _down_and_up(one), 8 if rails else 6, rails, under, last, named)


def _down_and_up(one: Sized) -> str:
    up = one.shape["up"]
    return f"{one.shape['down']} down, {up} up" if up else "all ports down"


def _held(one: Sized, columns: int, nodes: int) -> tuple[str, str]:
    """Nodes and GPUs of a full column, and of the last one."""
    full = max(1, min(nodes, one.nodes))
    rest = max(1, one.nodes - (columns - 1) * full)
    words = []
    for count in (full, min(rest, full)):
        gpus = min(count * one.wiring.gpus_per_node, one.gpus)
        words.append(f"{plural(count, 'node')}, {plural(gpus, 'GPU')}")
    return words[0], words[1]


_WIDTH: Final = 960.0
_LEFT: Final = 132.0
_RIGHT: Final = 946.0
_TOP: Final = 84.0
_STEP: Final = 84.0
"""Between two rows of switches."""
_BOX: Final = 18.0
_COLUMNS: Final = 4
_TINTS: Final = {"core": 3, "spine": 0, "leaf": 2, "router": 0}


def fabric_drawing(one: Sized) -> Drawing:
    """A picture of `one`, light or dark as its reader prefers."""
    title, under = drawing_title(one)
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
    return drawing


def _columns(
    drawing: Drawing,
    one: Sized,
    rows: list[SwitchRow],
    places: list[tuple[float, float, int]],
    start: tuple[list[float], float],
) -> float:
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


def _column(rows: list[SwitchRow], number: int, places: list[tuple[float, float, int]]) -> list[SwitchRow]:
    """The rows of a drawn column."""
    return [row.in_column(number == len(places) - 1) for row in rows]


def _cables(
    drawing: Drawing,
    rows: list[SwitchRow],
    span: tuple[float, float],
    above: list[float],
    top: float,
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
    drawing: Drawing,
    span: tuple[float, float],
    y: float,
    row: SwitchRow,
    *,
    most: int | None = None,
    tint: int | None = None,
) -> list[float]:
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


def _label(drawing: Drawing, y: float, row: SwitchRow, one: Sized) -> None:
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
