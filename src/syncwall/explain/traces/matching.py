"""The same collective on all its ranks, found again.

Holds `MatchedCollectives` and `matched`. Collectives match by group and number if the trace has
numbers, otherwise by group, kind and order; by order within steps if some rank recorded more than
others. Sends and receives are kept apart: they may be between two ranks, or all of an all-to-all.
`Clocks` and `aligned`: clocks of the ranks, brought together through the collectives. A collective
ends at almost the same moment on all its ranks, so the median difference of those ends is the
difference of two clocks; where it grows steadily, one clock is faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from syncwall.explain.traces.rank import RankSummary

_ONE_TO_ONE = "send-receive"


@dataclass(frozen=True)
class MatchedCollectives:
    """Collectives of one group: K of them on R ranks; NaN where a rank has none."""

    group: str
    ranks: Any
    """(R,): index of each rank in the summaries."""
    start_s: Any
    """(K, R): since the first collective of all, by each rank's own clock."""
    duration_s: Any
    exposed_s: Any
    """(K, R): behind which the rank computed nothing."""
    bytes: Any
    """(K,): NaN if unknown; where no rank knows it, that of the same place in other steps."""
    members: Any
    """(K,): ranks that take part, as far as known at least those of the block."""
    kinds: tuple[str, ...]
    """(K,)"""
    step: Any
    """(K,): number of the step, -1 if outside."""
    sends: bool = False
    """True for sends and receives, which may not be the same on all ranks."""

    @property
    def end_s(self) -> Any:
        """(K, R)."""
        return self.start_s + self.duration_s


def matched(summaries: Sequence[RankSummary]) -> tuple[MatchedCollectives, ...]:
    """Collectives that at least two of the ranks recorded, by group, the largest group first."""
    begun = [int(one.start_ns[0]) for one in summaries if len(one.start_ns)]
    if not begun:
        return ()
    origin_ns = min(begun)
    names = dict.fromkeys(name for one in summaries for name in one.groups)
    wanted = [(name, sends) for name in names for sends in (False, True)]
    blocks = [_block(summaries, name, origin_ns, sends=sends) for name, sends in wanted]
    return tuple(sorted((one for one in blocks if one), key=lambda one: -len(one.ranks)))


def _block(
    summaries: Sequence[RankSummary], group: str, origin_ns: int, *, sends: bool
) -> MatchedCollectives | None:
    own: list[tuple[int, Any]] = []
    for index, one in enumerate(summaries):
        if group not in one.groups:
            continue
        taken = one.group == one.groups.index(group)
        sent = [number for number, kind in enumerate(one.kinds) if kind == _ONE_TO_ONE]
        taken &= np.isin(one.kind, sent) == sends
        if taken.any():
            own.append((index, np.flatnonzero(taken)))
    if len(own) < 2:
        return None
    same = len({len(taken) for _, taken in own}) == 1
    keys = [_keys(summaries[index], same)[taken] for index, taken in own]
    every, counts = np.unique(np.concatenate(keys), return_counts=True)
    every = every[counts > 1]
    if not len(every):
        return None
    return replace(_filled(summaries, group, own, keys, every, origin_ns), sends=sends)


def _keys(one: RankSummary, same: bool) -> Any:
    return one.by_order if same else one.by_step


def _filled(
    summaries: Sequence[RankSummary],
    group: str,
    own: list[tuple[int, Any]],
    keys: list[Any],
    every: Any,
    origin_ns: int,
) -> MatchedCollectives:
    shape = (len(every), len(own))
    start, duration, exposed = (np.full(shape, np.nan) for _ in range(3))
    size, members = np.full(shape[0], np.nan), np.zeros(shape[0], dtype=int)
    step, kinds = np.full(shape[0], -1), np.full(shape[0], "", dtype=object)
    for column, ((index, taken), own_keys) in enumerate(zip(own, keys, strict=True)):
        one = summaries[index]
        row = np.minimum(np.searchsorted(every, own_keys), len(every) - 1)
        hit = every[row] == own_keys
        row, place = row[hit], taken[hit]
        start[row, column] = (one.start_ns[place] - origin_ns) / 1e9
        duration[row, column] = one.duration_ns[place] / 1e9
        exposed[row, column] = one.exposed_ns[place] / 1e9
        size[row] = np.where(np.isfinite(one.bytes[place]), one.bytes[place], size[row])
        members[row] = np.maximum(members[row], one.members[place])
        inside = one.step[place] >= 0
        step[row[inside]] = one.step_numbers[one.step[place[inside]]]
        kinds[row] = [one.kinds[k] for k in one.kind[place]]
    order = np.argsort(np.nanmedian(start, axis=1), kind="stable")
    return MatchedCollectives(
        group=group,
        ranks=np.array([index for index, _ in own]),
        start_s=start[order],
        duration_s=duration[order],
        exposed_s=exposed[order],
        bytes=_completed(size[order], step[order]),
        members=np.maximum(members[order], len(own)),
        kinds=tuple(kinds[order]),
        step=step[order],
    )


def _completed(size: Any, step: Any) -> Any:
    """Sizes, with those that are missing taken from the same place in the other steps."""
    place = np.zeros(len(step), dtype=int)
    for number in np.unique(step):
        own = np.flatnonzero(step == number)
        place[own] = np.arange(len(own))
    full = size.copy()
    for missing in np.flatnonzero(~np.isfinite(size)):
        same = size[(place == place[missing]) & np.isfinite(size)]
        if len(same) and np.ptp(same) == 0:
            full[missing] = same[0]
    return full


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

    def start_s(self, block: MatchedCollectives) -> Any:
        """(K, R): starts of the block's collectives on one clock."""
        return self._corrected(block.start_s, block.ranks)

    def end_s(self, block: MatchedCollectives) -> Any:
        """(K, R): the ends."""
        return self._corrected(block.end_s, block.ranks)

    def _corrected(self, time_s: Any, ranks: Any) -> Any:
        return time_s - self.offset_s[ranks] - self.drift[ranks] * time_s


def aligned(blocks: Sequence[MatchedCollectives], ranks: int) -> Clocks:
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
