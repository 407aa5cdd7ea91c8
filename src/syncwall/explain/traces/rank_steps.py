"""Ranks of a job beside each other: their own time by step, and one step of some of them in time.

Holds `RankSteps`, `Lane`, `Meeting` and `rank_steps`. A rank's own time is its step without
collectives that nothing hides: in these it may wait for others. Times of several ranks are brought
onto one clock through the collectives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.explain.traces.matching import Clocks, MatchedCollectives, aligned, matched
from syncwall.explain.traces.rank_summary import KINDS, RankSummary

LANES: Final = 8
"""Ranks whose step is drawn in time, at most."""


@dataclass(frozen=True)
class Meeting:
    """One collective on one rank; seconds since the step began on the first rank."""

    kind: str
    start_s: float
    arrived_s: float
    """When the last of its ranks had come: until then this one waits."""
    end_s: float


@dataclass(frozen=True)
class Lane:
    """One step of one rank."""

    rank: int
    start_s: float
    end_s: float
    meetings: tuple[Meeting, ...]


@dataclass(frozen=True)
class RankSteps:
    """R ranks, S steps that all of them have."""

    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    own_s: Any
    """(R, S)"""
    step: int | None
    """The step that `lanes` show: the one of median length."""
    lanes: tuple[Lane, ...]


def rank_steps(summaries: Sequence[RankSummary], blamed: Sequence[int]) -> RankSteps | None:
    """What is comparable of the ranks, those that are `blamed` always among the lanes."""
    common = set.intersection(*(set(one.step_numbers.tolist()) for one in summaries))
    steps = tuple(sorted(int(number) for number in common))
    if len(summaries) < 2 or not steps:
        return None
    waits = KINDS.index("communication")
    own, whole = [], []
    for one in summaries:
        place = np.searchsorted(one.step_numbers, steps)
        own.append(one.step_s[place] - one.own_s[place, waits])
        whole.append(one.step_s[place])
    length_s = np.median(np.array(whole), axis=0)
    typical = steps[int(np.argsort(length_s)[len(steps) // 2])]
    return RankSteps(
        ranks=tuple(one.rank for one in summaries),
        steps=steps,
        own_s=np.array(own),
        step=typical,
        lanes=_lanes(_chosen(summaries, blamed), typical),
    )


def _chosen(summaries: Sequence[RankSummary], blamed: Sequence[int]) -> list[RankSummary]:
    """Those that are blamed, and others spread over the job."""
    first = [one for one in summaries if one.rank in set(blamed)][: LANES // 2]
    others = [one for one in summaries if one not in first]
    room = LANES - len(first)
    spread = np.linspace(0, len(others) - 1, min(room, len(others))).round().astype(int)
    return sorted([*first, *(others[n] for n in spread)], key=lambda one: one.rank)


def _lanes(summaries: Sequence[RankSummary], step: int) -> tuple[Lane, ...]:
    blocks = matched(summaries)
    if not blocks:
        return ()
    clocks = aligned(blocks, len(summaries))
    origin_ns = min(int(one.start_ns[0]) for one in summaries if len(one.start_ns))
    bounds = [_bounds(one, step, origin_ns, clocks, n) for n, one in enumerate(summaries)]
    first_s = min(start for start, _ in bounds)
    meetings = _meetings(blocks, clocks, step, first_s, len(summaries))
    return tuple(
        Lane(one.rank, start - first_s, end - first_s, tuple(found))
        for one, (start, end), found in zip(summaries, bounds, meetings, strict=True)
    )


def _bounds(
    one: RankSummary, step: int, origin_ns: int, clocks: Clocks, index: int
) -> tuple[float, float]:
    """Begin and end of a step of a rank, on the common clock."""
    place = int(np.searchsorted(one.step_numbers, step))
    start_s = (int(one.step_start_ns[place]) - origin_ns) / 1e9
    start_s -= float(clocks.offset_s[index] + clocks.drift[index] * start_s)
    return start_s, start_s + float(one.step_s[place])


def _meetings(
    blocks: Sequence[MatchedCollectives], clocks: Clocks, step: int, first_s: float, ranks: int
) -> list[list[Meeting]]:
    """By rank, the collectives of a step."""
    found: list[list[Meeting]] = [[] for _ in range(ranks)]
    for block in blocks:
        rows = np.flatnonzero(block.step == step)
        if not len(rows):
            continue
        start_s, end_s = clocks.start_s(block)[rows] - first_s, clocks.end_s(block)[rows] - first_s
        arrived_s = np.nanmax(start_s, axis=1)
        for column, rank in enumerate(block.ranks.tolist()):
            for row in np.flatnonzero(np.isfinite(start_s[:, column])):
                begin, end = float(start_s[row, column]), float(end_s[row, column])
                arrived = begin if block.sends else min(max(float(arrived_s[row]), begin), end)
                found[rank].append(Meeting(block.kinds[rows[row]], begin, arrived, end))
    return found
