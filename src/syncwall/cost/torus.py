"""Collectives on a torus of links: rings in both directions along each axis; unvalidated.

Holds `Torus` (a slice of chips: the length of each axis, and which of them close to a ring) and
`torus_time`. Every rank receives the data over all links of the axes that its group spans, as in
"How To Scale Your Model" (J. Austin et al. 2025, chapters 2 and 3); no collective on such a machine
was compared with it. Formulas in docs/explanation/communication.md.
"""

from dataclasses import dataclass
from math import prod
from typing import Final, Self

import numpy as np

from syncwall.cost.link_efficiency import CollectiveTime
from syncwall.cost.path import Path
from syncwall.describe.cluster import Cluster
from syncwall.work.number import Number, least, most
from syncwall.work.operations import CollectiveKind, Group

REACHED: Final = 0.9
"""Of a link's rate: 45 GB/s of 50 on TPU v5e, 90 of 100 on v5p and v6e (same source)."""
_HOP_S: Final = 1e-6
"""From one chip to the next (same source)."""
_NIC_S: Final = 30e-6
"""Start of what leaves the torus, for each doubling of tori; assumed."""
_PASSES: Final = {"all-reduce": 2.0}


@dataclass(frozen=True, slots=True)
class Torus:
    """Chips in use of one torus, the fastest changing axis of their numbers first."""

    axes: tuple[int, ...]
    """Chips along each axis."""
    rings: tuple[bool, ...]
    """Whether the last chip of an axis is joined to the first; else it is a line."""
    link_bytes_per_s: float
    """One link, one way; a chip has two on each axis."""

    @classmethod
    def of(cls, cluster: Cluster) -> Self | None:
        """The torus of `cluster`; None if nobody states its axes."""
        domain = cluster.scale_up
        if domain is None or not domain.axes:
            return None
        built, unit = tuple(map(int, domain.axes)), domain.ring_unit
        axes = _sliced(built, int(cluster.domain_gpus))
        rings = tuple(
            used > 2 and (used == whole or bool(unit and used % unit == 0))
            for used, whole in zip(axes, built, strict=True)
        )
        return cls(axes, rings, domain.rate_bytes_per_s / (2 * len(built)))

    def spans(self, group: Group) -> list[tuple[Number, Number]]:
        """For each axis the chips of it that `group` has, and how far they are from each other."""
        found, inner = [], 1
        for length in self.axes:
            apart = least(most(group.stride / inner, 1), length)
            reach = least(most(group.ranks * group.stride / inner, 1), length)
            found.append((most(np.floor(reach / apart), 1), apart))
            inner *= length
        return found

    def rate(self, group: Group) -> Number:
        """Bytes per second that a rank of `group` receives while all such groups work."""
        total: Number = 0.0
        for (chips, apart), length, ring in zip(self.spans(group), self.axes, self.rings, strict=True):
            ways = np.where(ring & (chips * apart >= length) & (chips > 2), 2.0, 1.0)
            total = total + np.where(chips > 1, ways / apart, 0.0)
        return np.maximum(total, 1e-9) * self.link_bytes_per_s * REACHED

    def hops(self, group: Group) -> Number:
        """Links between the ranks of `group` that are farthest from each other."""
        total: Number = 0.0
        for (chips, apart), ring in zip(self.spans(group), self.rings, strict=True):
            farthest = chips / 2.0 if ring else chips - 1.0
            total = total + np.where(chips > 1, farthest * apart, 0.0)
        return total

    def all_to_all_s_per_byte(self, group: Group) -> Number:
        """Of what a rank sends to all ranks of `group` together: the axis that is busiest."""
        worst: Number = 0.0
        for (chips, apart), ring in zip(self.spans(group), self.rings, strict=True):
            mean_hops = chips * apart / (4.0 if ring else 3.0)
            worst = np.maximum(worst, np.where(chips > 1, mean_hops, 0.0))
        return worst / (2.0 * self.link_bytes_per_s * REACHED)


def _sliced(built: tuple[int, ...], chips: int) -> tuple[int, ...]:
    """Axes of a slice with `chips` chips, as near to a cube as doubling them gives."""
    if chips >= prod(built):
        return built
    axes = [1] * len(built)
    while True:
        fits = [i for i, used in enumerate(axes) if 2 * used <= built[i]]
        if not fits or 2 * prod(axes) > chips:
            break
        shortest = min(fits, key=lambda i: axes[i])
        axes[shortest] *= 2
    axes[-1] = -(-chips // prod(axes[:-1]))
    return tuple(axes)


def torus_time(
    kind: CollectiveKind, group: Group, path: Path, torus: Torus, nic_reached: Number
) -> CollectiveTime:
    """Time of one collective in `group`: inside its torus, and over NICs to others."""
    passes, within = _PASSES.get(kind, 1.0), path.ranks_in_domain
    inside = Group(group.axis, within, group.stride)
    start_s = passes * _HOP_S * torus.hops(inside)
    if kind == "all-to-all":
        near = torus.all_to_all_s_per_byte(inside) * within / path.ranks
        leaving = (path.ranks - within) / path.ranks
    else:
        near = passes * (within - 1.0) / within / torus.rate(inside)
        leaving = passes * (path.domains - 1.0) / path.domains / within
    nic = np.maximum(path.nic_bytes_per_s_per_gpu * nic_reached, 1.0)
    far = np.where(path.domains > 1, leaving / nic * path.crossing.ring, 0.0)
    start_s = start_s + passes * _NIC_S * np.log2(path.domains)
    return CollectiveTime({"Torus": (start_s, near + far)})
