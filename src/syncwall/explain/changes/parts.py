"""Which part of a step became longer, on which ranks, and how sure that is.

Holds `Part`, `Difference` and `difference`. A step ends when the last rank has done its work and
the data has moved, so a change of the step is the change that all ranks share in a kind of their
own time, plus the most that single ranks changed beyond that, plus that of transfers. What others
wait for a slow rank is its effect, not a cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.explain.changes.days import OWN, Day

MATTERS: Final = 0.05
"""Changes under this share of the step are not worth a verdict."""
_SURE: Final = 4.0
"""Standard errors of the step that a change must exceed."""
NAMED_FROM: Final = 0.5
"""Share of the change that one part must explain to be named alone."""
_RESAMPLES: Final = 200
_PATIENCE: Final = 0.8
"""Share of the steps from a first bad one on that must be bad, too."""


@dataclass(frozen=True, slots=True)
class Part:
    """One reason for a change."""

    kind: str
    """compute, data, gc, host, sync, other, or transfer."""
    seconds: float
    """Longer, or shorter if negative."""
    ranks: tuple[int, ...] = ()
    """Those that changed more than the others; empty if all did alike."""


@dataclass(frozen=True)
class Difference:
    """What became of a step."""

    before_s: float
    """Median over the steps of the good days."""
    now_s: float
    least_s: float
    """Changes below this are noise: of steps within a day, and of good days among each other."""
    parts: tuple[Part, ...]
    """The largest first, in the direction of the change."""
    sure: float
    """Share of resamples of the steps with the same verdict."""
    first_bad: int | None = None
    """Number of the step from which on it is slow, if earlier ones were not."""

    @property
    def change_s(self) -> float:
        """What a step takes longer."""
        return self.now_s - self.before_s

    @property
    def is_changed(self) -> bool:
        """True if the step is slower or faster than noise explains."""
        return abs(self.change_s) > self.least_s

    @property
    def is_slower(self) -> bool:
        """True if it is slower."""
        return self.is_changed and self.change_s > 0

    @property
    def named(self) -> tuple[Part, ...]:
        """The part that explains most, or the two largest."""
        first = self.parts[:1]
        enough = first and abs(first[0].seconds) >= NAMED_FROM * abs(self.change_s)
        return first if enough else self.parts[:2]


def difference(now: Day, good: Sequence[Day]) -> Difference:
    """What of `now` differs from the good days."""
    before = np.concatenate([day.step_s for day in good])
    change = float(np.median(now.step_s) - np.median(before))
    within = _error(now.step_s) ** 2 + max(_error(day.step_s) for day in good) ** 2
    days = np.array([np.median(day.step_s) for day in good])
    between = float(days.max() - days.min())
    least = max(MATTERS * float(np.median(before)), _SURE * within**0.5, between)
    parts = _ordered(_parts(*_medians(now, good)), change, now.ranks)
    return Difference(
        float(np.median(before)), float(np.median(now.step_s)), least, parts,
        _same_verdict(now, good, change, least, parts),
        _first_bad(now, float(np.median(before)) + least) if change > least else None,
    )  # fmt: skip


def _error(step_s: Any) -> float:
    """Standard error of the median of the steps of a day, from their absolute deviations."""
    spread = 1.4826 * float(np.median(np.abs(step_s - np.median(step_s))))
    return float(1.2533 * spread / len(step_s) ** 0.5)


def _medians(
    now: Day, good: Sequence[Day], rng: np.random.Generator | None = None
) -> tuple[Any, Any]:
    """Changes of own time (N, kinds) and of transfers (N,), of steps or of a draw of them."""

    def middle(day: Day, values: Any, rows: Any) -> Any:
        return np.median(values[rows], axis=0)

    def drawn(day: Day) -> Any:
        count = len(day.step_s)
        return np.arange(count) if rng is None else rng.integers(count, size=count)

    rows = drawn(now)
    own, moved = middle(now, now.own_s, rows), middle(now, now.transfer_s, rows)
    same = [day for day in good if day.ranks == now.ranks]
    if not same:  # another number of ranks: each beside the usual one
        usual = np.mean([np.median(day.own_s, axis=(0, 1)) for day in good], axis=0)
        sent = np.mean([np.median(day.transfer_s) for day in good])
        return own - usual, moved - sent
    taken = [(day, drawn(day)) for day in same]
    return (
        own - np.mean([middle(day, day.own_s, rows) for day, rows in taken], axis=0),
        moved - np.mean([middle(day, day.transfer_s, rows) for day, rows in taken], axis=0),
    )


def _parts(own: Any, moved: Any) -> dict[tuple[str, tuple[int, ...]], float]:
    """Seconds by kind and by index of the ranks that changed beyond the others."""
    shared = np.where((own > 0).all(axis=0), own.min(axis=0), 0.0)
    shared = np.where((own < 0).all(axis=0), own.max(axis=0), shared)
    found: dict[tuple[str, tuple[int, ...]], float] = {}
    for n, kind in enumerate(OWN):
        found[kind, ()] = float(shared[n])
    excess = own - shared
    total = excess.sum(axis=1)
    if len(own) > 1:
        worst = int(np.argmax(np.abs(total)))
        like = tuple(
            np.flatnonzero(total * np.sign(total[worst]) > 0.5 * abs(total[worst])).tolist()
        )
        for n, kind in enumerate(OWN):
            found[kind, like] = found.get((kind, like), 0.0) + float(excess[worst, n])
    found["transfer", ()] = float(np.median(moved))
    return found


def _ordered(
    found: dict[tuple[str, tuple[int, ...]], float], change: float, ranks: Sequence[int]
) -> tuple[Part, ...]:
    same_way = [(key, s) for key, s in found.items() if s * change > 0]
    return tuple(
        Part(kind, seconds, tuple(ranks[n] for n in who))
        for (kind, who), seconds in sorted(same_way, key=lambda one: -abs(one[1]))
    )


def _same_verdict(
    now: Day, good: Sequence[Day], change: float, least: float, parts: Sequence[Part]
) -> float:
    """Share of draws of the steps that say the same: changed or not, and by which part."""
    rng, same = np.random.default_rng(0), 0
    before = np.concatenate([day.step_s for day in good])
    for _ in range(_RESAMPLES):
        one, other = (values[rng.integers(len(values), size=len(values))]
                      for values in (now.step_s, before))  # fmt: skip
        drawn = float(np.median(one) - np.median(other))
        if abs(change) <= least:
            same += abs(drawn) <= least
        elif drawn * change > 0 and abs(drawn) > least:
            first = _ordered(_parts(*_medians(now, good, rng)), change, now.ranks)[:1]
            same += not parts or (bool(first) and first[0].kind == parts[0].kind)
    return same / _RESAMPLES


def _first_bad(now: Day, limit_s: float) -> int | None:
    """The first step above the limit after which most are, if good ones come before it."""
    bad = now.step_s > limit_s
    for at in np.flatnonzero(bad).tolist():
        if bad[at:].mean() >= _PATIENCE:
            return int(now.numbers[at]) if at > 0 else None
    return None
