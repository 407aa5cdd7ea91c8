"""Which kernels and collectives changed.

Holds `NameChange` and `changed_names`; `CollectiveChange` and `changed_collectives`;
`BenchmarkChange` and `changed_benchmarks`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.explain.benchmarks.collective import CollectiveBenchmark
from syncwall.explain.changes.days import Day
from syncwall.explain.traces.rank_summary import RankSummary

_SHARE: Final = 0.1
"""Of the change of a step that a kernel must have to be named."""
_CALLS: Final = 1.2
_SLOWER: Final = 1.25
_HIDDEN: Final = 0.25
"""Share of a collective's time that is no longer hidden, from which overlap is lost."""
_LARGE_BYTES: Final = 2**20
_BENCHMARK: Final = 1.08
"""Median ratio of two tables from which they differ: repeats on one node agree within 2%."""


@dataclass(frozen=True, slots=True)
class NameChange:
    """A kernel or operator of a step, of the rank that is shown."""

    name: str
    before_s: float
    now_s: float


def changed_names(now: Day, before: Day, change_s: float) -> tuple[NameChange, ...]:
    """Those that changed most in the direction of the step, at least a tenth of its change."""
    one, other = before.job.names_s, now.job.names_s
    every = [
        NameChange(n, one.get(n, 0.0), other.get(n, 0.0)) for n in dict.fromkeys([*one, *other])
    ]
    least = _SHARE * abs(change_s)
    moved = [c for c in every if (c.now_s - c.before_s) * change_s > 0
             and abs(c.now_s - c.before_s) >= max(least, 1e-9)]  # fmt: skip
    return tuple(sorted(moved, key=lambda c: -abs(c.now_s - c.before_s))[:5])


@dataclass(frozen=True, slots=True)
class CollectiveChange:
    """All calls of one kind in a step."""

    kind: str
    calls: tuple[float, float]
    """Before and now, in a step."""
    bytes: tuple[float, float]
    """Of a call; NaN if unknown."""
    call_s: tuple[float, float]
    """A call on the rank that waits least."""
    exposed: tuple[float, float]
    """Share of its time behind which nothing is computed."""

    @property
    def what(self) -> str:
        """What about it changed: calls, overlap or rate."""
        if not 1 / _CALLS <= self.calls[1] / max(self.calls[0], 1e-9) <= _CALLS:
            return "calls"
        if abs(self.exposed[1] - self.exposed[0]) > _HIDDEN:
            return "overlap"
        return "rate"


def changed_collectives(now: Day, before: Day) -> tuple[CollectiveChange, ...]:
    """Kinds whose calls, overlap or rate changed."""
    one, other = (_kinds(day.job.summaries) for day in (before, now))
    found = [
        CollectiveChange(kind, *((one[kind][n], other[kind][n]) for n in range(4)))
        for kind in one
        if kind in other
    ]
    return tuple(each for each in found if each.what != "rate" or _other_rate(each))


def _other_rate(one: CollectiveChange) -> bool:
    ratio = one.call_s[1] / max(one.call_s[0], 1e-12)
    return not 1 / _SLOWER <= ratio <= _SLOWER


def _kinds(ranks: Sequence[RankSummary]) -> dict[str, tuple[float, float, float, float]]:
    """By kind: calls of a step, bytes of a call, seconds of a call, exposed share."""
    found = {}
    for kind in dict.fromkeys(kind for one in ranks for kind in one.kinds):
        rows = [row for one in ranks if kind in one.kinds and (row := _of_rank(one, kind))]
        if rows:
            calls, size, seconds, exposed = (np.array(column) for column in zip(*rows, strict=True))
            known = size[~np.isnan(size)]
            middle = float(np.median(known)) if len(known) else float("nan")
            least = int(np.argmin(seconds))
            found[kind] = (
                float(calls[least]),
                middle,
                float(seconds[least]),
                float(exposed[least]),
            )
    return found


def _of_rank(one: RankSummary, kind: str) -> tuple[float, float, float, float] | None:
    own: Any = (one.kind == one.kinds.index(kind)) & (one.step >= 0)
    total = float(one.duration_ns[own].sum())
    if not own.any() or total <= 0:
        return None
    sizes = one.bytes[own][~np.isnan(one.bytes[own])]
    return (
        own.sum() / len(one.step_s), float(np.median(sizes)) if len(sizes) else float("nan"),
        float(np.median(one.duration_ns[own])) / 1e9, float(one.exposed_ns[own].sum()) / total,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class BenchmarkChange:
    """A benchmark that was run on both days."""

    kind: str
    ranks: int
    ratio: float
    """Median of its time now over that before, at sizes from 1 MiB on."""
    sizes: tuple[float, float]
    """From and to which size it changed most."""

    @property
    def is_slower(self) -> bool:
        """True if it is slower than repeats differ."""
        return self.ratio > _BENCHMARK

    @property
    def is_changed(self) -> bool:
        """True if it is slower or faster."""
        return self.is_slower or self.ratio < 1 / _BENCHMARK


def changed_benchmarks(
    now: Sequence[CollectiveBenchmark], before: Sequence[CollectiveBenchmark]
) -> Iterator[BenchmarkChange]:
    """Each of `now` beside the fastest of the same kind and ranks before, changed or not."""
    for one in now:
        found = [each for other in before if (each := _beside(one, other)) is not None]
        if found:
            yield max(found, key=lambda each: each.ratio)


def _beside(one: CollectiveBenchmark, other: CollectiveBenchmark) -> BenchmarkChange | None:
    if (one.kind, one.ranks) != (other.kind, other.ranks):
        return None
    sizes, here, there = np.intersect1d(one.sizes, other.sizes, return_indices=True)
    large = sizes >= min(_LARGE_BYTES, sizes[-1]) if len(sizes) else sizes
    if not len(sizes):
        return None
    ratio = (one.seconds[here] / other.seconds[there])[large]
    middle = float(np.median(ratio))
    moved = sizes[large][np.abs(np.log(ratio)) >= min(abs(np.log(middle)), np.log(_BENCHMARK))]
    ends = (float(moved[0]), float(moved[-1])) if len(moved) else (0.0, 0.0)
    return BenchmarkChange(one.kind, one.ranks, middle, ends)
