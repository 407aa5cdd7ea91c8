"""Who waits in collectives, and for whom.

Holds `Skew` and `skew`. A collective takes as long as on the rank where it is shortest; what it
takes longer elsewhere is waiting. The rank that arrives last is waited for. `Late`, `late_ranks`,
`Reason` and `cause`: what the late ranks did more of than the others before they arrived. A cause
is named only if it explains most of the waiting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.traces.matching import Clocks, MatchedCollectives
from syncwall.explain.traces.rank_summary import KINDS, RankSummary

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
    blocks: tuple[MatchedCollectives, ...]
    """The collectives that were counted."""

    @property
    def blame(self) -> Any:
        """(N,): share of all waiting that was for this rank."""
        by_rank = self.blamed_s.sum(axis=0)
        return by_rank / max(float(by_rank.sum()), 1e-12)


def skew(blocks: Sequence[MatchedCollectives], clocks: Clocks, steps: Any, ranks: int) -> Skew:
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


def _meet(block: MatchedCollectives, clocks: Clocks) -> bool:
    """True if what may be one collective does end together on all ranks."""
    end = clocks.end_s(block)
    apart = np.nanmax(end, axis=1) - np.nanmin(end, axis=1)
    longest = np.nanmax(block.duration_s, axis=1)
    return bool(np.median(apart) <= max(_APART * float(np.median(longest)), 1e-3))


EXPLAINS = 0.8
"""Share of the waiting that a named cause explains at least."""
ALWAYS = 0.6
"""Share of the waiting for which ranks are last that are called late."""
STEADY = 0.75
"""Share of the steps in which a cause must be there: what comes and goes is noise."""
EVERYTHING = "compute and host"
"""Kernels and the host between them take longer together: the machine is slow."""
_WHOLE = ("compute", "host", "sync")
_TOGETHER = 0.8
"""The same for a host or group: half of all ranks are last half of the time by chance."""
_OFTEN = 0.6
"""And the share of the steps in which they must hold the others up."""


@dataclass(frozen=True)
class Late:
    """Ranks that the others wait for, by index of the summary."""

    ranks: tuple[int, ...]
    host: str | None
    """The host, if it is all ranks of one that are late."""
    group: str | None
    """The process group, if it is all its ranks."""
    blame: float
    """Share of all waiting that was for them."""


@dataclass(frozen=True)
class Reason:
    """What explains the waiting for late ranks, on the mean step."""

    kind: str
    """One of `KINDS`, or `EVERYTHING`."""
    excess_s: float
    """The late ranks did this much more of it than the others, in a step."""
    waiting_s: float
    """The others waited this long, in a step."""
    lost_s: float
    """What the late ranks do more than the others of all kinds, or the waiting, if that is more."""
    explained: float
    """Share of the lost time that this explains, at most 1."""
    work: float
    """Kernels or operators of the late ranks over those of the others."""
    steady: float
    """Share of the steps in which at least half of the excess was there."""


def late_ranks(found: Skew, summaries: Sequence[RankSummary]) -> Late | None:
    """The rank, host or group that is last for most of the waiting; None if that changes."""
    count = len(summaries)
    if count < 2 or not found.blamed_s.any():
        return None
    candidates = [Late((index,), None, None, float(found.blame[index])) for index in range(count)]
    sets: dict[tuple[int, ...], Late] = {}
    hosts = dict.fromkeys(one.host for one in summaries if one.host)
    for host in hosts:
        own = tuple(i for i, one in enumerate(summaries) if one.host == host)
        sets.setdefault(own, Late(own, host, None, float(found.blame[list(own)].sum())))
    for block in found.blocks:
        own = tuple(int(rank) for rank in block.ranks)
        sets.setdefault(own, Late(own, None, block.group, float(found.blame[list(own)].sum())))
    together = [one for own, one in sets.items() if 1 < len(own) <= count // 2]
    for group, least in ((candidates, ALWAYS), (together, _TOGETHER)):
        best = max(group, key=lambda one: one.blame, default=None)
        if best and best.blame >= least and _often(found, best.ranks) >= _OFTEN:
            return best
    return None


def _often(found: Skew, ranks: tuple[int, ...]) -> float:
    """Share of the steps in which most of the waiting was for `ranks`."""
    by_step = found.blamed_s.sum(axis=1)
    theirs = found.blamed_s[:, list(ranks)].sum(axis=1)
    return float(np.mean(theirs[by_step > 0] > 0.5 * by_step[by_step > 0]))


def cause(found: Skew, late: Late, own_s: Any, events: Any) -> Reason:
    """The kind of work of which the late ranks did most more; `own_s` is (S, N, kinds)."""
    theirs = np.zeros(own_s.shape[1], dtype=bool)
    theirs[list(late.ranks)] = True
    waiting_s = float(found.wait_s[:, ~theirs].mean())
    waits = KINDS.index("communication")
    last = np.array(late.ranks)[np.argmin(own_s[:, theirs, waits], axis=1)]  # it waits least
    more = own_s[np.arange(len(own_s)), last] - np.median(own_s[:, ~theirs], axis=1)
    excess = more.mean(axis=0)  # means, unlike medians, add up to the waiting
    lost_s = max(waiting_s, float(np.delete(excess, waits).sum()))
    excess[waits] = -np.inf
    best = int(np.argmax(excess))
    kind, seconds, by_step = KINDS[best], float(excess[best]), more[:, best]
    together = more[:, [KINDS.index(one) for one in _WHOLE]].sum(axis=1)
    both = float(together.mean())
    if kind in _WHOLE and seconds < EXPLAINS * lost_s <= both:
        kind, seconds, by_step = EVERYTHING, both, together
    work = np.median(events[:, theirs].mean(axis=1)) / max(np.median(events[:, ~theirs]), 1.0)
    explained = min(seconds / max(lost_s, 1e-12), 1.0)
    steady = float(np.mean(by_step >= 0.5 * seconds)) if seconds > 0 else 0.0
    return Reason(kind, seconds, waiting_s, lost_s, max(explained, 0.0), float(work), steady)
