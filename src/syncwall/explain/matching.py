"""The same collective on all its ranks, found again.

Holds `Block` and `matched`. Collectives match by group and number if the trace has numbers,
otherwise by group, kind and order; by order within steps if some rank recorded more than
others. Sends and receives are kept apart: they may be between two ranks, or all of an all-to-all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from syncwall.explain.rank_summary import RankSummary

_ONE_TO_ONE = "send-receive"


@dataclass(frozen=True)
class Block:
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


def matched(summaries: Sequence[RankSummary]) -> tuple[Block, ...]:
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
) -> Block | None:
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
) -> Block:
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
    return Block(
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
