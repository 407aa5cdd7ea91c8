"""The graph of a network: NICs, switches and directed links with what each carries in a second.

Holds `Links`, made of cables by `links_of` or of tiers by `links_of_tiers`, and `CutOffError`;
`pooled`, the same network for traffic that is spread over all equal ways, with `alike`, the
switches that are one for it; and parts by name: `part_named`, the `NetworkPart` of a name,
`slowed`, the network with some parts slow or dead, and `without`, with them dead. Every NIC has a
link out and a link in, every cable between switches one in each direction.

A part is `nic:3-1` (NIC 1 of node 3), `node:3` (all of its NICs), a switch (`leaf:2`,
`switch:leaf:2`) with all of its ports, or one cable between two switches (`link:leaf:2-spine:1`,
short `link:2-1` for a leaf and a spine).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncwall import units
from syncwall.describe import Cluster
from syncwall.problems import InputError, did_you_mean
from syncwall.units import Dimension

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
GLOBAL_LENGTH = 3
"""Length of a cable between groups of a dragonfly: two of them are farther than one and a hop at
each end, so that the shortest way is the minimal one of Kim et al. 2008."""

UNREACHABLE = 127
"""Distance between switches that no cables join."""


class CutOffError(InputError):
    """Some of a job's GPUs have no way to others: it stops."""


@dataclass(frozen=True)
class Links:
    """NICs, switches and cables; link 2i is NIC i out, 2i + 1 NIC i in, cables follow."""

    nodes: tuple[str, ...]
    nics_per_node: int
    switch_of_nic: Ints
    """Of every NIC, node by node, the switch that it hangs on."""
    switches: tuple[str, ...]
    tier: Ints
    """Of every switch: 1 if NICs hang on it, 2 above that; 1 for every router of a dragonfly."""
    ends: Ints
    """Of every directed link between switches, from and to."""
    rates: Floats
    """Bytes a second of every link; 0 for those of a dead NIC."""
    length: Ints
    """Of every link between switches; ways with the smallest sum are used."""
    group: Ints
    """Of every switch: its group in a dragonfly, from 1; else 0."""
    nic_bytes_per_s: float
    """A NIC in order."""
    rails: bool = False
    """True if NIC i of every node hangs on rail i."""
    forwards: bool = False
    """True if nothing joins the rails: GPUs hand on what is for another rail."""

    @property
    def nics(self) -> int:
        """All NICs."""
        return len(self.switch_of_nic)

    @cached_property
    def works(self) -> Truths:
        """Of every node and of every NIC in it, True unless it is dead."""
        return (self.rates[: 2 * self.nics : 2] > 0.0).reshape(-1, self.nics_per_node)

    def name(self, link: int) -> str:
        """As operators would call it."""
        if link < 2 * self.nics:
            nic = link // 2
            node, number = self.nodes[nic // self.nics_per_node], nic % self.nics_per_node + 1
            return f"nic:{node}-{number} {'in' if link % 2 else 'out'}"
        start, end = self.ends[link - 2 * self.nics]
        return f"{self.switches[start]} > {self.switches[end]}"

    @cached_property
    def out(self) -> tuple[Ints, Ints]:
        """Links between switches sorted by start and end, and the first one of each switch."""
        order = np.lexsort((self.ends[:, 1], self.ends[:, 0]))
        first = np.searchsorted(self.ends[order, 0], np.arange(len(self.switches) + 1))
        return order, first

    def neighbours(self, switch: int) -> Ints:
        """The other end of every cable of a switch."""
        order, first = self.out
        found: Ints = self.ends[order[first[switch] : first[switch + 1]], 1]
        return found

    @cached_property
    def edges(self) -> Ints:
        """Switches that NICs hang on."""
        return np.unique(self.switch_of_nic)

    @cached_property
    def distance(self) -> NDArray[np.int8]:
        """From every switch to every one of `edges`; `UNREACHABLE` if there is no way."""
        count, targets = len(self.switches), len(self.edges)
        start = np.zeros((count, (targets + 7) // 8), np.uint8)
        column = np.arange(targets)
        start[self.edges, column // 8] = 128 >> (column % 8)
        found = np.full((count, targets), UNREACHABLE, np.int8)
        order, first = self.out
        sources = np.flatnonzero(np.diff(first))
        reached, known = [start], start.copy()
        found[self.edges, column] = 0
        longest = int(self.length.max(initial=1))
        while any(one.any() for one in reached[-longest:]):
            level = np.zeros_like(start)
            for length in np.unique(self.length):
                if len(reached) >= length:
                    level |= self._behind(reached[-length], length, order, first, sources)
            level &= ~known
            known |= level
            new = np.unpackbits(level, axis=1, count=targets).astype(bool)
            found[new] = len(reached)
            reached.append(level)
        return found

    @cached_property
    def next_hops(self) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """From every switch to every one of `edges`: where in `out` the cables on shortest ways
        begin, and how many follow; -1 where others stand between them.
        """
        order, first = self.out
        start = np.zeros(self.distance.shape, np.int32)
        count = np.zeros(self.distance.shape, np.int16)
        for switch in np.flatnonzero(np.diff(first)):
            mine = order[first[switch] : first[switch + 1]]
            small = np.uint8 if len(mine) < 255 else np.uint16
            left = self.distance[switch] - self.length[mine, None].astype(np.int8)
            good = (self.distance[self.ends[mine, 1]] == left).astype(small)
            place = np.arange(1, len(mine) + 1, dtype=small)[:, None]
            many = np.add.reduce(good, 0, dtype=small).astype(np.int16)
            after = (good * place).max(0).astype(np.int16)
            begin = len(mine) - (good * place[::-1]).max(0).astype(np.int32)
            start[switch] = first[switch] + begin
            count[switch] = np.where((many > 0) & (after - begin != many), -1, many)
        return start, count

    def _behind(
        self, bits: NDArray[np.uint8], length: int, order: Ints, first: Ints, sources: Ints
    ) -> NDArray[np.uint8]:
        """What a switch reaches over its cables of one length."""
        found = np.zeros_like(bits)
        for part in np.array_split(sources, max(1, len(sources) // 256)):
            if len(part):
                mine = order[first[part[0]] : first[part[-1] + 1]]
                seen = bits[self.ends[mine, 1]]
                seen[self.length[mine] != length] = 0
                starts = first[part] - first[part[0]]
                found[part] = np.bitwise_or.reduceat(seen, starts, axis=0)
        return found


def links_of(
    nodes: Sequence[str],
    switch_of_nic: Any,
    nic_bytes_per_s: Any,
    switches: Sequence[str],
    cables: Iterable[tuple[int, int, float]] | NDArray[Any],
    *,
    group: Any = None,
    **more: Any,
) -> Links:
    """Links of NICs and of cables (two switches, and bytes a second one way)."""
    table = np.array(cables if isinstance(cables, np.ndarray) else list(cables), float)
    table = table.reshape(-1, 3)
    hangs = np.asarray(switch_of_nic, np.int64)
    ends = table[:, :2].astype(np.int64)
    both = np.stack([ends, ends[:, ::-1]], 1).reshape(-1, 2)
    of_nics = np.broadcast_to(np.asarray(nic_bytes_per_s, float), hangs.shape)
    groups = np.zeros(len(switches), np.int64) if group is None else np.asarray(group, np.int64)
    apart = groups[both[:, 0]] != groups[both[:, 1]]
    return Links(
        nodes=tuple(nodes),
        nics_per_node=len(hangs) // len(nodes),
        switch_of_nic=hangs,
        switches=tuple(switches),
        tier=_tiers(len(switches), hangs, both) if group is None else np.ones_like(groups),
        ends=both,
        rates=np.concatenate([np.repeat(of_nics, 2), np.repeat(table[:, 2], 2)]),
        length=np.where(apart, GLOBAL_LENGTH, 1),
        group=groups,
        nic_bytes_per_s=float(of_nics.max()),
        **more,
    )


def _tiers(count: int, hangs: Ints, ends: Ints) -> Ints:
    tier = np.zeros(count, np.int64)
    tier[hangs] = 1
    for level in range(2, 9):
        near = ends[tier[ends[:, 0]] == level - 1, 1]
        tier[near[tier[near] == 0]] = level
    return tier


def links_of_tiers(cluster: Cluster) -> Links:
    """The network that a cluster's tiers describe: cables as fast as a NIC, as many as they say."""
    nics, fabric = cluster.node.nics, cluster.fabric
    if nics is None:
        raise InputError.of(f"{cluster.name} has no NICs, so nothing shares a link")
    rails, each = fabric.rails, nics.count // fabric.rails
    node, nic = np.divmod(np.arange(cluster.nodes * nics.count), nics.count)
    units = [min(tier.nodes or cluster.nodes, cluster.nodes) for tier in fabric.tiers]
    if len(units) == 1:
        rails = 1
    hangs = node // units[0] * rails + (nic // each if rails > 1 else 0)
    names = [f"{fabric.tiers[0].name}:{index + 1}" for index in range(int(hangs.max()) + 1)]
    below = np.unique(hangs)
    cables: list[tuple[int, int, float]] = []
    ends_below = np.bincount(hangs)
    for tier, reach, under in zip(fabric.tiers[1:], units[1:], units, strict=False):
        share = rails if len(cables) == 0 else 1
        above = (np.arange(len(below)) // share * under) // reach
        count = np.maximum(1, np.rint(ends_below / tier.oversubscription)).astype(int)
        total = ends_below * nics.rate_bytes_per_s / tier.oversubscription
        cables += [
            (int(switch), len(names) + int(up), float(rate / many))
            for switch, up, many, rate in zip(below, above, count, total, strict=True)
            for _ in range(many)
        ]
        below = len(names) + np.unique(above)
        ends_below = np.bincount(above, weights=ends_below)
        names += [f"{tier.name}:{index + 1}" for index in range(len(below))]
    hosts = [str(index + 1) for index in range(cluster.nodes)]
    rate = nics.rate_bytes_per_s
    return links_of(hosts, hangs, rate, names, cables, rails=rails > 1)


def equivalent_switches(links: Links) -> Ints:
    """Of every switch, the first one that stands above the same ones."""
    same = np.arange(len(links.switches))
    for level in range(2, int(links.tier.max(initial=1)) + 1):
        start, end = links.ends.T
        down = (links.tier[start] == level) & (links.tier[end] < level)
        below: dict[int, set[int]] = {}
        for upper, lower in zip(start[down].tolist(), same[end[down]].tolist(), strict=True):
            below.setdefault(upper, set()).add(lower)
        first: dict[frozenset[int], int] = {}
        for upper, lowers in below.items():
            same[upper] = first.setdefault(frozenset(lowers), upper)
    return same


def pooled(links: Links) -> Links:
    """The network as packets see it that take every way as it is free (adaptive, spraying).

    Switches above the same ones are one, and cables between the same two.
    """
    same = equivalent_switches(links)
    merged = same[links.ends]
    key = merged[:, 0] * len(same) + merged[:, 1]
    _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    rates = np.bincount(inverse, weights=links.rates[2 * links.nics :])
    others = np.bincount(same, minlength=len(same))[same] - 1
    names = tuple(
        f"{name} (+{more})" if more > 0 else name
        for name, more in zip(links.switches, others.tolist(), strict=True)
    )
    return replace(
        links,
        switches=names,
        ends=merged[index],
        length=links.length[index],
        rates=np.concatenate([links.rates[: 2 * links.nics], rates]),
    )


_MOST_COMPARED = 2000
"""Names of one kind among which the nearest are looked for."""


@dataclass(frozen=True)
class NetworkPart:
    """A part of a network, and the links that are slow or dead with it."""

    name: str
    """As it was asked for."""
    links: Ints
    nodes: tuple[int, ...]
    """Nodes with one of these links; empty for what stands between switches."""
    switch: int = -1
    """The switch that it is; -1 if it is none."""


def part_named(links: Links, name: str) -> NetworkPart:
    """The part called `name`; InputError with the nearest names if there is none."""
    kind, _, rest = name.partition(":")
    found: Ints | None = None
    switch = -1
    if kind == "nic":
        node, _, number = rest.rpartition("-")
        each = links.nics_per_node
        if node in links.nodes and number.isdecimal() and 1 <= int(number) <= each:
            nic = links.nodes.index(node) * each + int(number) - 1
            found = np.array([2 * nic, 2 * nic + 1])
    elif kind == "node":
        if rest in links.nodes:
            first = 2 * links.nodes.index(rest) * links.nics_per_node
            found = np.arange(first, first + 2 * links.nics_per_node)
    elif kind == "link":
        found = _cable(links, rest)
    else:
        switch = _switch_named(links, rest if kind == "switch" else name)
        found = _ports(links, switch) if switch >= 0 else None
    if found is None:
        forms = ": write nic:NODE-NIC, node:NODE, the name of a switch, or link:LEAF-SPINE"
        raise InputError.of(f'this fabric has no part "{name[:60]}"{_nearest(links, name) or forms}')
    nics = np.unique(found[found < 2 * links.nics] // 2)
    nodes = np.unique(nics // links.nics_per_node)
    return NetworkPart(name, found, tuple(nodes.tolist()), switch)


def slowed(links: Links, parts: Mapping[str, float]) -> Links:
    """The same with each part at that many bytes a second, one way; a part with 0 is dead.

    InputError if a rate is not one from 0 to the part's own. A dead cable is gone; a dead NIC stays
    where it is, and carries nothing.
    """
    rates: Floats = links.rates.copy()
    for name, bytes_per_s in parts.items():
        part = part_named(links, name)
        full = float(links.rates[part.links].max(initial=0.0))
        if not 0.0 <= bytes_per_s <= full * (1.0 + 1e-9):
            most = units.format(full, Dimension.BYTES_PER_S, unit="Gb/s")
            raise InputError.of(f"{name} runs at {most}: write a rate from 0 (dead) up to that")
        rates[part.links] = np.minimum(rates[part.links], bytes_per_s)
    kept = rates[2 * links.nics :] > 0.0
    return replace(
        links,
        ends=links.ends[kept],
        length=links.length[kept],
        rates=np.concatenate([rates[: 2 * links.nics], rates[2 * links.nics :][kept]]),
    )


def without(links: Links, names: Iterable[str]) -> Links:
    """The same with these parts dead."""
    return slowed(links, dict.fromkeys(names, 0.0))


def _cable(links: Links, name: str) -> Ints | None:
    """The first of the cables between two switches, both ways."""
    numbers = {switch: place for place, switch in enumerate(links.switches)}
    parts = name.split("-")
    for at in range(1, len(parts)):
        one, other = "-".join(parts[:at]), "-".join(parts[at:])
        for start, end in ((one, other), (f"leaf:{one}", f"spine:{other}")):
            if start in numbers and end in numbers:
                pair = (numbers[start], numbers[end])
                there = np.flatnonzero((links.ends == pair).all(1))[:1]
                back = np.flatnonzero((links.ends == pair[::-1]).all(1))[:1]
                if len(there):
                    return 2 * links.nics + np.concatenate([there, back])
    return None


def _switch_named(links: Links, name: str) -> int:
    """Its number, -1 if there is none; the routers of a dragonfly are its leaves, too."""
    router = name.replace("leaf:", "router:")
    name = name if name in links.switches else router
    return links.switches.index(name) if name in links.switches else -1


def _ports(links: Links, switch: int) -> Ints:
    nics = np.flatnonzero(links.switch_of_nic == switch)
    cables = np.flatnonzero((links.ends == switch).any(1))
    return np.concatenate([2 * nics, 2 * nics + 1, 2 * links.nics + cables])


def _nearest(links: Links, name: str) -> str:
    """The names most like `name`, those of its kind first."""
    kind = name.partition(":")[0]
    each = range(1, links.nics_per_node + 1)
    if kind == "nic":
        known = [f"nic:{node}-{number}" for node in links.nodes for number in each]
    elif kind == "node":
        known = [f"node:{node}" for node in links.nodes]
    elif kind == "link":
        pairs = links.ends[::2].tolist()
        long = [f"link:{links.switches[start]}-{links.switches[end]}" for start, end in pairs]
        known = [one.replace("link:leaf:", "link:").replace("-spine:", "-") for one in long]
    else:
        known = list(links.switches)
    length = len(name)
    near = sorted(known, key=lambda one: abs(len(one) - length))
    return did_you_mean(name, near[:_MOST_COMPARED], count=3)
