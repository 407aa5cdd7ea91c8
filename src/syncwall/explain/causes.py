"""What the late ranks did more of than the others before they arrived.

Holds `Late`, `late_ranks`, `Cause` and `cause`. A cause is named only if it explains most of the
waiting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.rank_summary import KINDS, RankSummary
from syncwall.explain.skew import Skew

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
class Cause:
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


def cause(found: Skew, late: Late, own_s: Any, events: Any) -> Cause:
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
    return Cause(kind, seconds, waiting_s, lost_s, max(explained, 0.0), float(work), steady)
