"""Who stands out among peers: one robust test, for times that are too long and rates too low.

Holds `stands_out`, `middle_and_spread` and `farther_out`. Ranks are compared with the median of
the others, so that one that is slow does not hide itself, and by two measures at once: a share of
what is usual, below which nobody cares, and the spread of the peers, below which it may be chance.
Thresholds are the caller's, each with its reason. Everything works on numbers and on arrays;
NumPy is not imported, since agents of running jobs load this.
"""

from collections.abc import Iterable
from math import log, sqrt
from statistics import median
from typing import Any, Final

TO_DEVIATION: Final = 1.4826
"""Standard deviations in a median absolute deviation, of a normal distribution."""


def stands_out(
    excess: Any, usual: Any, *, share: float = 0.0, spread: Any = 0.0, deviations: float = 0.0
) -> Any:
    """True where something is worse than its peers by more than chance and by enough to matter.

    `excess` is by how much it is worse than `usual`, its peers' median: more seconds, or less of a
    rate. It has to exceed `share` of what is usual, and `deviations` times the peers' `spread`.
    """
    return (excess > share * usual) & (excess > deviations * spread)


def middle_and_spread(values: Iterable[float]) -> tuple[float, float]:
    """Median, and median absolute deviation from it."""
    found = list(values)
    middle = median(found)
    return middle, median(abs(value - middle) for value in found)


def farther_out(peers: int, few: int = 4) -> float:
    """Median deviations by which the worst of many healthy peers lies beyond that of a few.

    The largest of n normal values lies at about sqrt(2 ln n) standard deviations.
    """
    return TO_DEVIATION * max(sqrt(2 * log(peers)) - sqrt(2 * log(few)), 0.0)
