"""Which parts of a network a picture of flows shows: some dozens, the busiest link among them.

Holds `FlowParts` with `flow_parts`, and `some`: all of few things, of many the first and the last.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from syncwall.network.carried import Carried
from syncwall.network.graph import Links
from syncwall.plan.placement.search import Groups, groups_of

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
    always = (
        {_node_below(links, switch) for switch in hot} if nic is None else {nic // _each(links)}
    )
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
