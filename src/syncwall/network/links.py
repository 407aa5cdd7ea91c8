"""Directed links of a network, with what each carries in a second.

Holds `Links`, made of cables by `links_of` or of tiers by `links_of_tiers`, and `pooled`, the same
network for traffic that is spread over all equal ways, with `alike`, the switches that are one for
it. Every NIC has a link out and a link in,
every cable between switches one in each direction.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncwall.describe import Cluster
from syncwall.problems import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
GLOBAL_LENGTH = 3
"""Length of a cable between groups of a dragonfly: two of them are farther than one and a hop at
each end, so that the shortest way is the minimal one of Kim et al. 2008."""

NOWHERE = 127
"""Distance between switches that no cables join."""


@dataclass(frozen=True)
class Links:
    """NICs, switches and cables; link 2i is NIC i out, 2i + 1 NIC i in, cables follow."""

    nodes: tuple[str, ...]
    nics_per_node: int
    switch_of_nic: Ints
    """Of every NIC, node by node, the switch that it hangs on."""
    switches: tuple[str, ...]
    tier: Ints
    """Of every switch: 1 if NICs hang on it, 2 above that."""
    ends: Ints
    """Of every directed link between switches, from and to."""
    rates: Floats
    """Bytes a second of every link."""
    length: Ints
    """Of every link between switches; ways with the smallest sum are used."""
    group: Ints
    """Of every switch: its group in a dragonfly, else 0."""
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

    @cached_property
    def edges(self) -> Ints:
        """Switches that NICs hang on."""
        return np.unique(self.switch_of_nic)

    @cached_property
    def distance(self) -> NDArray[np.int8]:
        """From every switch to every one of `edges`; `NOWHERE` if there is no way."""
        count, targets = len(self.switches), len(self.edges)
        start = np.zeros((count, (targets + 7) // 8), np.uint8)
        column = np.arange(targets)
        start[self.edges, column // 8] = 128 >> (column % 8)
        found = np.full((count, targets), NOWHERE, np.int8)
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

    def with_rates(self, factors: Mapping[int, float]) -> "Links":
        """The same with some links at a part of their rate."""
        rates = self.rates.copy()
        for link, factor in factors.items():
            rates[link] *= factor
        return replace(self, rates=rates)


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
        tier=_tiers(len(switches), hangs, both),
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


def alike(links: Links) -> Ints:
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
    same = alike(links)
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
        links, switches=names, ends=merged[index], length=links.length[index],
        rates=np.concatenate([links.rates[: 2 * links.nics], rates]),
    )  # fmt: skip
