"""Who waits in collectives, and for whom.

Holds `Skew` and `skew`. A collective takes as long as on the rank where it is shortest; what it
takes longer elsewhere is waiting. The rank that arrives last is waited for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.aligned import Clocks
from syncwall.explain.matching import Block

_ALL_MEET = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "barrier")
"""Collectives that nobody leaves before all have come."""
_APART = 0.5
"""Without a group's name, and of sends: ends that lie further apart than this share of the length
mean that the ranks did not meet."""


@dataclass(frozen=True)
class Skew:
    """Waiting of N ranks in S steps."""

    wait_s: Any
    """(S, N): exposed time in collectives that only waited for others."""
    transfer_s: Any
    """(S, N): exposed time in collectives that was not waiting."""
    blamed_s: Any
    """(S, N): waiting, mean of all ranks, at collectives to which this rank came last."""
    lateness_s: Any
    """(N,): how much later than the median rank it starts a collective, on average."""
    last_share: Any
    """(N,): share of its collectives to which it came last."""
    blocks: tuple[Block, ...]
    """The collectives that were counted."""

    @property
    def blame(self) -> Any:
        """(N,): share of all waiting that was for this rank."""
        by_rank = self.blamed_s.sum(axis=0)
        return by_rank / max(float(by_rank.sum()), 1e-12)


def skew(blocks: Sequence[Block], clocks: Clocks, steps: Any, ranks: int) -> Skew:
    """Waiting in the steps numbered `steps`; collectives outside them are left out."""
    shape = (len(steps), ranks)
    wait, transfer, blamed = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    late, last, taken = np.zeros(ranks), np.zeros(ranks), np.zeros(ranks)
    counted = tuple(one for one in blocks if (one.group and not one.sends) or _meet(one, clocks))
    for block in counted:
        row = np.searchsorted(steps, block.step)
        use = (row < len(steps)) & np.isin(block.step, steps)
        row = row[use]
        start = clocks.start_s(block)[use]
        longer = _above_least(block.duration_s[use])
        exposed = np.nan_to_num(block.exposed_s[use])
        waited = np.minimum(longer, _above_least(block.exposed_s[use]))
        place = (row[:, None], block.ranks[None, :])
        np.add.at(wait, place, waited)
        np.add.at(transfer, place, exposed - waited)
        kinds = [kind for kind, taken_in in zip(block.kinds, use, strict=True) if taken_in]
        own = start - _held_up(kinds, row, waited)
        comes_last = block.ranks[np.nanargmax(own, axis=1)]
        np.add.at(blamed, (row, comes_last), waited.sum(axis=1) / ranks)
        ahead = start - np.nanmedian(start, axis=1, keepdims=True)
        late[block.ranks] += np.nansum(ahead, axis=0)
        taken[block.ranks] += np.isfinite(start).sum(axis=0)
        np.add.at(last, comes_last, 1)
    each = np.maximum(taken, 1)
    return Skew(wait, transfer, blamed, late / each, last / each, counted)


def _held_up(kinds: Sequence[str], step: Any, waited_s: Any) -> Any:
    """(K, R): how much later a rank comes because it waited itself, since all last met.

    The root of a broadcast may wait for one of the others and then come late to the next.
    """
    held, now = np.zeros_like(waited_s), np.zeros(waited_s.shape[1])
    for number, kind in enumerate(kinds):
        if number and step[number] != step[number - 1]:
            now = np.zeros_like(now)
        held[number] = now
        now = np.zeros_like(now) if kind in _ALL_MEET else now + waited_s[number]
    return held


def _above_least(seconds: Any) -> Any:
    """(K, R): what each rank has more than the one with least; 0 where a rank has none."""
    return np.nan_to_num(seconds - np.nanmin(seconds, axis=1, keepdims=True))


def _meet(block: Block, clocks: Clocks) -> bool:
    """True if what may be one collective does end together on all ranks."""
    end = clocks.end_s(block)
    apart = np.nanmax(end, axis=1) - np.nanmin(end, axis=1)
    longest = np.nanmax(block.duration_s, axis=1)
    return bool(np.median(apart) <= max(_APART * float(np.median(longest)), 1e-3))
