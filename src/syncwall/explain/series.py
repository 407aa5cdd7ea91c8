"""Laws of a series of times: shifts of its level, drift, outliers, and their period.

Holds `level_shifts`, `first_above`, `drift_of`, `outliers_of` and `period_of`, functions of arrays.
Most work on logarithms and on medians, so that spikes hide nothing and are nothing but spikes.
Thresholds are such that noise alone is silent, also noise with heavy tails, of two kinds in turn or
with a memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from syncwall.outliers import TO_DEVIATION, middle_and_spread

FEWEST: Final = 5
"""Values below which a series is not judged."""
MATTERS: Final = 0.05
"""Change of a level that is worth a finding."""
_SURE: Final = 6.0
"""Standard errors by which two parts of a log must differ, more if they are short."""
_SHORT: Final = 25.0
"""Further standard errors, over the steps of the shorter part."""
_WINDOW: Final = 15
"""Steps around one, whose median is its usual time."""
_SPIKE: Final = 0.10
"""Share above its surroundings from which a value stands out ..."""
_NOISE: Final = 8.0
"""... and deviations of the noise, both."""
_RARE: Final = 0.2
"""Share of a series up to which outliers are left out; more of them are another kind of step."""
_SEGMENTS: Final = 6
_PATIENCE: Final = 0.8
"""Share of the steps from a first bad one on that must be bad, too."""
_CHOSEN: Final = 300
"""Steps of which every pair has its slope taken."""
_AS_WELL: Final = 1.15
"""A line explains a series as well as levels do, if it leaves no more than so many times as much."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A level that changed."""

    at: int
    """Index of the first step of the new level."""
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """After over before."""
        return self.after / self.before


def level_shifts(values: Any) -> list[Shift]:
    """Where a series of positive values jumps to another level, and stays there for a while."""
    at, usual = outliers_of(values)
    logs = np.log(np.asarray(values, dtype=float))
    if len(at) <= _RARE * len(logs):
        logs[at] = np.log(usual[at])
    cuts = sorted(_cuts(logs, 0, len(logs), _SEGMENTS - 1))
    while True:
        edges = [0, *cuts, len(logs)]
        medians = [float(np.median(logs[a:b])) for a, b in pairwise(edges)]
        steps = [abs(b - a) for a, b in pairwise(medians)]
        if not steps or min(steps) >= np.log1p(MATTERS):
            break
        del cuts[int(np.argmin(steps))]
    pairs = zip(cuts, medians[:-1], medians[1:], strict=True)
    return [Shift(at, float(np.exp(a)), float(np.exp(b))) for at, a, b in pairs]


def first_above(values: Any, limit: float) -> int | None:
    """Index of the first value above the limit after which most are, if good ones come before it."""
    bad = np.asarray(values) > limit
    staying = np.cumsum(bad[::-1])[::-1] >= _PATIENCE * np.arange(len(bad), 0, -1)
    at = np.flatnonzero(bad & staying)
    return int(at[0]) if len(at) and at[0] > 0 else None


def _cuts(logs: Any, begin: int, end: int, most: int) -> Iterator[int]:
    """Binary segmentation: the best cut of all, then those of both sides."""
    part = logs[begin:end]
    at = _best_cut(part)
    if at is None or not most or not differs(part[:at], part[at:]):
        return
    yield begin + at
    yield from _cuts(logs, begin, begin + at, most - 1)
    yield from _cuts(logs, begin + at, end, most - 1)


def _best_cut(logs: Any) -> int | None:
    """Where the means of both sides are farthest apart, in standard errors; outliers are held."""
    count = len(logs)
    if count < 2 * FEWEST:
        return None
    smooth = rolling_median(logs, 5)
    middle = np.median(smooth)
    most = max(5.0 * deviation(smooth), np.log(2.0))
    held = np.clip(smooth, middle - most, middle + most)
    left = np.arange(1, count)
    sums = np.cumsum(held)[:-1]
    apart = np.abs(sums / left - (held.sum() - sums) / (count - left)) * np.sqrt(
        left * (count - left) / count
    )
    allowed = (left >= FEWEST) & (count - left >= FEWEST)
    at = int(left[allowed][np.argmax(apart[allowed])])
    near = range(max(FEWEST, at - 5), min(count - FEWEST, at + 5) + 1)
    low, high = np.median(logs[:at]), np.median(logs[at:])
    return min(near, key=lambda k: float(np.abs(logs[:k] - low).sum() + np.abs(logs[k:] - high).sum()))


def differs(first: Any, second: Any) -> bool:
    """True if two parts of a series of logarithms differ by more than chance, and enough to matter."""
    change = min(abs(float(middle(second) - middle(first))) for middle in (np.median, _held_mean))
    together = _spread(np.concatenate([first - np.median(first), second - np.median(second)]))
    error = float(np.hypot(_error(first, together), _error(second, together)))
    sure = _SURE + _SHORT / min(len(first), len(second))
    return change >= np.log1p(MATTERS) and change > sure * error


def _held_mean(part: Any) -> float:
    """Mean without outliers: of two kinds of steps in turn the median is one or the other."""
    return float(np.mean(np.clip(part, *np.percentile(part, [10, 90]))))


def _spread(away: Any) -> float:
    """Of distances from a median: of the bulk, or of all without the ends."""
    return max(deviation(away), float(np.std(np.clip(away, *np.percentile(away, [10, 90])))))


def _error(part: Any, least_spread: float = 0.0) -> float:
    """Standard error of the median of a part whose neighbours are alike (correlated)."""
    away = part - np.median(part)
    spread = max(_spread(away), least_spread)
    held = np.clip(away, -3 * spread, 3 * spread)
    power = float((held * held).sum())
    alike = float((held[1:] * held[:-1]).sum()) / power if power > 0 else 0.0
    alike = min(max(alike, 0.0), 0.95)
    return float(1.2533 * spread * np.sqrt((1 + alike) / (1 - alike) / len(part)))


def deviation(values: Any) -> float:
    """Standard deviation of the bulk of `values`."""
    return TO_DEVIATION * middle_and_spread(values.tolist())[1]


def rolling_median(values: Any, window: int) -> Any:
    """Median of each value's surroundings; at the ends of those that there are."""
    window = min(window, len(values) - 1 + len(values) % 2)
    half = window // 2
    padded = np.pad(values, half, mode="reflect") if half else values
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)


def drift_of(steps: Any, values: Any) -> float | None:
    """End over start of a series that grows or falls steadily; None if it does not."""
    count = len(values)
    if count < 2 * FEWEST:
        return None
    logs = np.log(values)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _CHOSEN)).astype(int))
    x, y = steps[chosen].astype(float), logs[chosen]
    first, second = np.triu_indices(len(chosen), 1)
    slope = float(np.median((y[second] - y[first]) / (x[second] - x[first])))
    whole = slope * float(steps[-1] - steps[0])
    rest = logs - slope * (steps - steps[0])
    first_half, second_half = np.array_split(rest, 2)
    error = float(np.hypot(_error(first_half), _error(second_half)))
    if abs(whole) < np.log1p(MATTERS) or abs(whole) / 2 < (_SURE + _SHORT / (count // 2)) * error:
        return None
    edges = [0, *(one.at for one in level_shifts(values)), count]
    parts = (logs[a:b] for a, b in pairwise(edges))
    if _away(rest) > _AS_WELL * sum(map(_away, parts)):
        return None
    return float(np.exp(whole))


def _away(part: Any) -> float:
    """Sum of the distances from the median."""
    return float(np.abs(part - np.median(part)).sum())


def outliers_of(values: Any, share: float = _SPIKE) -> tuple[Any, Any]:
    """Indices of values far above their surroundings, and what is usual at each value."""
    usual = rolling_median(values, _WINDOW) if len(values) >= FEWEST else np.full(len(values), np.nan)
    over = np.log(values / usual)
    noise = deviation(over) if len(values) >= FEWEST else 0.0
    return np.flatnonzero(over > max(np.log1p(share), _NOISE * noise)), usual


def period_of(at: Any, steps: Any) -> tuple[int, int] | None:
    """Steps between outliers that come regularly, and the remainder of their numbers; None else."""
    if len(at) < 3:
        return None
    every = np.bincount(np.clip(np.diff(at), 0, 1_000_000)).argmax()
    if every < 2:
        return None
    rest = int(np.bincount(at % every).argmax())
    hit = at % every == rest
    inside = steps[(steps >= at.min()) & (steps <= at.max()) & (steps % every == rest)]
    if hit.sum() < 3 or hit.mean() < 0.7 or hit.sum() < 0.7 * len(inside):
        return None
    return int(every), rest
