"""Flows on the links of a network as a picture: the wider a link the busier.

Of many equal parts some are drawn, chosen by `flow_parts`; jobs have a colour each. A bundle of
cables shows its fullest one, in the direction that carries more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from syncwall.network.graph import Links
from syncwall.network.routing import Carried
from syncwall.plan.placement.placement_search import Groups, groups_of
from syncwall.show.draw.svg import Drawing, stroked
from syncwall.show.numbers import plural

_NODES: Final = 16
_GROUPS: Final = 4
"""Leaf groups that are drawn; more where they are small."""
_NICS: Final = 8
_ABOVE: Final = 8
"""Switches above others, if all of them join the same ones; of several pods twice as many."""


@dataclass(frozen=True)
class FlowParts:
    """Parts that are drawn, each standing for itself."""

    nodes: list[int]
    group: dict[int, int]
    """Of every drawn node, its leaf group."""
    nics: list[int]
    """NICs of each node, by their number in it."""
    rows: list[list[int]]
    """Switches; those of NICs first."""


def flow_parts(carried: Carried) -> FlowParts:
    """Nodes of the first leaf groups and of the last, what is above them, and the busiest link."""
    links, groups = carried.links, groups_of(carried.links)
    hot = carried.ends_of_busiest()
    nic = _hot_nic(carried)
    always = {_node_below(links, switch) for switch in hot} if nic is None else {nic // _each(links)}
    nodes = _nodes(groups, always)
    nics = some(range(_each(links)), _NICS, () if nic is None else [nic % _each(links)])
    hangs = {int(links.switch_of_nic[node * _each(links) + one]) for node in nodes for one in nics}
    rows = [sorted(hangs | {one for one in hot if links.tier[one] == 1})]
    for tier in range(2, int(links.tier.max(initial=1)) + 1):
        rows.append(_above(links, rows[-1], tier, [one for one in hot if links.tier[one] == tier]))
    of_node = {node: int(groups.of_node[node]) for node in nodes}
    return FlowParts(nodes, of_node, nics, [row for row in rows if row])


def some(every: Sequence[int], most: int, always: Iterable[int] = ()) -> list[int]:
    """All of few; of many the first ones and the last, and those in `always`."""
    if len(every) <= most:
        return list(every)
    return sorted({*every[: max(most - 1, 1)], *([every[-1]] if most > 1 else []), *always})


def _each(links: Links) -> int:
    return links.nics_per_node


def _hot_nic(carried: Carried) -> int | None:
    """The NIC of the busiest link, if it is one."""
    link = carried.busiest
    return link // 2 if link is not None and link < 2 * carried.routed.nics else None


def _nodes(groups: Groups, always: set[int]) -> list[int]:
    wanted = max(_GROUPS, _NODES // len(groups.nodes[0]))
    hot = {int(groups.of_node[node]) for node in always}
    chosen = some(range(groups.count), wanted, hot)
    each = max(1, _NODES // min(len(chosen), wanted))
    found = set(always)
    for group in chosen:
        found |= set(some(groups.nodes[group], each))
    return sorted(found, key=lambda node: (int(groups.of_node[node]), node))


def _node_below(links: Links, switch: int) -> int:
    """A node that reaches the other ones over `switch`."""
    while links.tier[switch] > 1:
        near = links.ends[links.ends[:, 0] == switch, 1]
        switch = int(near[links.tier[near] < links.tier[switch]][0])
    return int(np.flatnonzero(links.switch_of_nic == switch)[0]) // links.nics_per_node


def _above(links: Links, row: list[int], tier: int, hot: list[int]) -> list[int]:
    """Some of the switches of a tier that those of `row` are joined to, of every pod."""
    start, end = links.ends.T
    up = np.isin(start, row) & (links.tier[end] == tier)
    below: dict[int, set[int]] = {}
    for low, high in zip(start[up].tolist(), end[up].tolist(), strict=True):
        below.setdefault(high, set()).add(low)
    pods: dict[frozenset[int], list[int]] = {}
    for high in sorted(below):
        pods.setdefault(frozenset(below[high]), []).append(high)
    each = _ABOVE if len(pods) == 1 else max(1, 2 * _ABOVE // max(len(pods), 1))
    found = {one for pod in pods.values() for one in some(pod, each)}
    return sorted(found | set(hot))


_WIDTH: Final = 960.0
_LEFT: Final = 120.0
_RIGHT: Final = 950.0
_TOP: Final = 84.0
_STEP: Final = 124.0
_BOX: Final = 18.0
_WIDEST: Final = 7.0
_SCALE: Final = 5.0
"""Load that is drawn at the full width, if none is larger."""
_OPACITY: Final = 0.6
_RED: Final = "#d9304a"
"""Seen on light and on dark grounds."""
_JOBS: Final = (0, 7)
"""Colours of `chart.css`."""


@dataclass(frozen=True)
class _Places:
    """Where parts stand: x of nodes and switches, y of rows."""

    node: dict[int, float]
    switch: dict[int, float]
    y: dict[int, float]
    """Of every switch."""
    floor: float
    """Of nodes."""
    pitch: float
    """Of one node."""


@dataclass(frozen=True)
class _Line:
    """A link to be drawn."""

    start: tuple[float, float]
    end: tuple[float, float]
    link: int
    is_arc: bool = False


def flows_drawing(carried: Carried, title: str, jobs: Sequence[str] = ()) -> Drawing:
    """A picture of what `carried` says; `jobs` are names for the colours."""
    parts = flow_parts(carried)
    drawing, at = Drawing(title, width=_WIDTH), _placed(carried, parts)
    drawing.text(18, 28, title, "strong")
    drawing.text(18, 46, _legend(carried))
    for number, name in enumerate(jobs):
        drawing.rect(600 + 170 * number, 55, 12, 12, f"f{_JOBS[number]}")
        drawing.text(618 + 170 * number, 65, name)
    lines = _lines(carried, parts, at)
    for line in sorted(lines, key=lambda one: _rank(carried, one.link)):
        _draw(drawing, carried, line)
    _labels(drawing, carried, parts, at)
    _boxes(drawing, carried, parts, at)
    drawing.height = at.floor + 66
    drawing.text(18, drawing.height - 10, _says(carried, parts), "small")
    return drawing


def _legend(carried: Carried) -> str:
    width = "the wider a link, the longer it takes over NICs alone"
    if carried.busiest is None:
        return f"{width}; none takes longer"
    load = carried.loads[:, carried.busiest].sum()
    return f"{width}; red: {carried.routed.name(carried.busiest)}, {load:.2f} times"


def _says(carried: Carried, parts: FlowParts) -> str:
    links = carried.links
    said = [f"{len(parts.nodes)} of {plural(len(links.nodes), 'node')}"]
    said += [f"{len(row)} of {_row_name(carried, row)}" for row in parts.rows]
    if len(parts.nics) < links.nics_per_node:
        said.append(f"{len(parts.nics)} of {links.nics_per_node} NICs of a node")
    return f"drawn are {', '.join(said)}; each stands for itself"


def _row_name(carried: Carried, row: list[int]) -> str:
    """How many there are, as their names call them."""
    links, tier = carried.links, int(carried.links.tier[row[0]])
    names = [name for name, one in zip(links.switches, links.tier.tolist(), strict=True) if one == tier]
    kinds = {name.partition(":")[0] if ":" in name else "" for name in names}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return f"{len(names):,} {kind}" if 0 < len(kind) < 9 else f"{len(names):,} switches"


def _placed(carried: Carried, parts: FlowParts) -> _Places:
    groups = list(dict.fromkeys(parts.group.values()))
    gap = 14.0 if len(groups) > 1 else 0.0
    pitch = min(112.0, (_RIGHT - _LEFT - gap * (len(groups) - 1)) / len(parts.nodes))
    node: dict[int, float] = {}
    x = _LEFT
    for number, one in enumerate(parts.nodes):
        if number and parts.group[one] != parts.group[parts.nodes[number - 1]]:
            x += gap
        node[one] = x + pitch / 2
        x += pitch
    is_flat = len(parts.rows) == 1 and bool(carried.links.ends.size)
    top = _TOP + (70.0 if is_flat else 0.0)
    floor = top + len(parts.rows) * _STEP
    y = {switch: floor - (depth + 1) * _STEP for depth, row in enumerate(parts.rows) for switch in row}
    switch = _leaf_places(carried, parts, node, pitch)
    for row in parts.rows[1:]:
        step = (_RIGHT - _LEFT) / len(row)
        switch |= {one: _LEFT + step * (place + 0.5) for place, one in enumerate(row)}
    return _Places(node, switch, y, floor, pitch)


def _leaf_places(
    carried: Carried, parts: FlowParts, node: dict[int, float], pitch: float
) -> dict[int, float]:
    """Switches of NICs above the leaf group that they serve, evenly."""
    links = carried.links
    home: dict[int, int] = {}
    for one in parts.nodes:
        for nic in parts.nics:
            leaf = int(links.switch_of_nic[one * links.nics_per_node + nic])
            home.setdefault(leaf, parts.group[one])
    found: dict[int, float] = {}
    for group in dict.fromkeys(parts.group.values()):
        mine = [leaf for leaf in parts.rows[0] if home.get(leaf) == group]
        xs = [node[one] for one in parts.nodes if parts.group[one] == group]
        left, right = min(xs) - pitch / 2, max(xs) + pitch / 2
        step = (right - left) / max(len(mine), 1)
        found |= {leaf: left + step * (place + 0.5) for place, leaf in enumerate(mine)}
    return found


def _lines(carried: Carried, parts: FlowParts, at: _Places) -> list[_Line]:
    links, found = carried.links, []
    for node in parts.nodes:
        for place, number in enumerate(parts.nics):
            nic = node * links.nics_per_node + number
            leaf = int(links.switch_of_nic[nic])
            x = at.node[node] + (place - (len(parts.nics) - 1) / 2) * _nic_step(parts, at)
            top = (at.switch[leaf], at.y[leaf] + _BOX / 2)
            found.append(_Line((x, at.floor), top, carried.nic(nic)))
    every = [one for row in parts.rows for one in row if one in at.switch]
    for number, one in enumerate(every):
        for other in every[number + 1 :]:
            link = carried.cable(one, other)
            if link is None or not _is_cable(carried, one, other):
                continue
            flat = at.y[one] == at.y[other]
            down = (at.switch[one], at.y[one] - _BOX / 2)
            up = (at.switch[other], at.y[other] + (-_BOX / 2 if flat else _BOX / 2))
            found.append(_Line(down, up, link, flat))
    return found


def _is_cable(carried: Carried, one: int, other: int) -> bool:
    """True if a cable joins just these two, not only two that are equal for flows."""
    ends = carried.links.ends
    return bool(((ends[:, 0] == one) & (ends[:, 1] == other)).any())


def _nic_step(parts: FlowParts, at: _Places) -> float:
    return min((at.pitch - 10) / len(parts.nics), 12.0)


def _rank(carried: Carried, link: int) -> tuple[bool, float]:
    """Busy links are drawn over others, the busiest at last."""
    return link == carried.busiest, float(carried.loads[:, link].sum())


def _draw(drawing: Drawing, carried: Carried, line: _Line) -> None:
    loads = carried.loads[:, line.link]
    if not loads.sum() > 0.0:
        if not line.is_arc:
            drawing.line(line.start, line.end, "grid")
        return
    title = f"{carried.routed.name(line.link)}: {loads.sum():.2f} times as long as NICs alone"
    widths = [
        max(_WIDEST * one / max(carried.most, _SCALE), 0.5) if one > 0 else 0.0 for one in loads.tolist()
    ]
    if line.link == carried.busiest:
        more = 4.0 if len(loads) > 1 else 0.0
        _stroke(drawing, line, 0.0, "load red", stroked(sum(widths) + more, colour=_RED), title)
        if len(loads) == 1:
            return
    shift, opacity = -sum(widths) / 2, 1.0 if line.link == carried.busiest else _OPACITY
    for job, width in enumerate(widths):
        if width:
            stroke = stroked(width, opacity)
            _stroke(drawing, line, shift + width / 2, f"load s{_JOBS[job]}", stroke, title)
        shift += width


def _stroke(drawing: Drawing, line: _Line, shift: float, kind: str, stroke: str, title: str) -> None:
    (x1, y1), (x2, y2) = line.start, line.end
    if not line.is_arc:
        drawing.line((x1 + shift, y1), (x2 + shift, y2), kind, stroke, title)
        return
    rise, inset = 12 + 0.08 * abs(x2 - x1) - shift, 0.1 * (x2 - x1)
    corners = [(x1, y1), (x1 + inset, y1 - rise), (x2 - inset, y2 - rise), (x2, y2)]
    drawing.curve(corners, kind, stroke, title)


def _labels(drawing: Drawing, carried: Carried, parts: FlowParts, at: _Places) -> None:
    for row in parts.rows:
        drawing.text(18, at.y[row[0]] + 4, _row_name(carried, row), "strong")
    drawing.text(18, at.floor + 20, plural(len(carried.links.nodes), "node"), "strong")


def _boxes(drawing: Drawing, carried: Carried, parts: FlowParts, at: _Places) -> None:
    links = carried.links
    for row in parts.rows:
        places = sorted(at.switch[one] for one in row if one in at.switch)
        near = min((b - a for a, b in pairwise(places)), default=30.0)
        wide = max(3.0, min(30.0, near - 2))
        for one in row:
            if one not in at.switch:
                continue
            x, y, name = at.switch[one], at.y[one], links.switches[one]
            drawing.rect(x - wide / 2, y - _BOX / 2, wide, _BOX, "f5 pale", name)
            short = name.rpartition(":")[2]
            if 6.5 * len(short) < wide:
                drawing.text(x, y + 4, short, "small strong", "middle")
    for node in parts.nodes:
        x, wide = at.node[node], at.pitch - 6
        job = int(carried.job_of_node[node])
        several = len(carried.loads) > 1
        tint = f"f{_JOBS[job] if several and job >= 0 else 5} pale"
        drawing.rect(x - wide / 2, at.floor, wide, 26, tint, f"node {links.nodes[node]}")
        if 5.8 * len(links.nodes[node]) < wide:
            drawing.text(x, at.floor + 17, links.nodes[node], "small strong", "middle")
