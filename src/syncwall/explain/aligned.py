"""Clocks of the ranks, brought together through the collectives.

Holds `Clocks` and `aligned`. A collective ends at almost the same moment on all its ranks, so the
median difference of those ends is the difference of two clocks; where it grows steadily, one clock
is faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.matching import Block

_LEAST_FOR_DRIFT = 12
_CLEAR = 5.0
"""A drift counts if it moves the clock by this many times the scatter of the ends."""


@dataclass(frozen=True)
class Clocks:
    """What each rank's clock shows too much; by index of the summary."""

    offset_s: Any
    drift: Any
    """Seconds gained in a second."""
    scatter_s: Any
    """Median distance of the ends of collectives from the others', once corrected."""
    part: Any
    """Ranks with the same number were compared with each other; -1: with nobody."""

    def start_s(self, block: Block) -> Any:
        """(K, R): starts of the block's collectives on one clock."""
        return self._corrected(block.start_s, block.ranks)

    def end_s(self, block: Block) -> Any:
        """(K, R): the ends."""
        return self._corrected(block.end_s, block.ranks)

    def _corrected(self, time_s: Any, ranks: Any) -> Any:
        return time_s - self.offset_s[ranks] - self.drift[ranks] * time_s


def aligned(blocks: Sequence[Block], ranks: int) -> Clocks:
    """The clocks of as many `ranks`, from collectives that several of them took part in."""
    offset, drift, scatter = np.zeros(ranks), np.zeros(ranks), np.zeros(ranks)
    part = np.full(ranks, -1)
    left, parts = [one for one in blocks if not one.sends] or list(blocks), 0
    while left:
        touching = [one for one in left if (part[one.ranks] >= 0).any()]
        block = touching[0] if touching else left[0]
        left = [one for one in left if one is not block]
        end = block.end_s - offset[block.ranks] - drift[block.ranks] * block.end_s
        known = part[block.ranks] >= 0
        if not touching:
            known[:], number, parts = True, parts, parts + 1
            new = np.ones(len(known), dtype=bool)
        else:
            number, new = int(part[block.ranks[known]][0]), ~known
        middle = _middle(end[:, known])
        for column in np.flatnonzero(new):
            rank = block.ranks[column]
            offset[rank], drift[rank], scatter[rank] = _fitted(
                block.end_s[:, column], end[:, column] - middle
            )
            part[rank] = number
    return Clocks(offset, drift, scatter, part)


def _middle(end_s: Any) -> Any:
    """(K,): the median end of each collective, once every clock is set by the most complete one."""
    first = int(np.argmax(np.isfinite(end_s).sum(axis=0)))
    ahead = np.nanmedian(end_s - end_s[:, [first]], axis=0)
    return np.nanmedian(end_s - np.nan_to_num(ahead), axis=1)


def _fitted(time_s: Any, ahead_s: Any) -> tuple[float, float, float]:
    """Offset, drift and scatter of a clock that is `ahead_s` of the others at its `time_s`."""
    there = np.isfinite(ahead_s)
    time, ahead = time_s[there], ahead_s[there]
    if not len(ahead):
        return 0.0, 0.0, 0.0
    offset = float(np.median(ahead))
    scatter = float(np.median(np.abs(ahead - offset)))
    third = len(ahead) // 3
    if len(ahead) < _LEAST_FOR_DRIFT:
        return offset, 0.0, scatter
    span = float(np.median(time[-third:]) - np.median(time[:third]))
    moved = float(np.median(ahead[-third:]) - np.median(ahead[:third]))
    if span <= 0:
        return offset, 0.0, scatter
    drift = moved / span
    straight = ahead - drift * time
    level = float(np.median(straight))
    rest = float(np.median(np.abs(straight - level)))
    if abs(moved) < _CLEAR * max(rest, 1e-9):
        return offset, 0.0, scatter
    return level, drift, rest
