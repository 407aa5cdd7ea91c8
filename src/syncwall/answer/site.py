"""What measured runs of one site say about all its other runs.

Holds `Site` and `trusted_share`. Sites differ by 5 to 10 % for reasons that no description holds
(software builds, clocks, cooling, neighbours); runs of one site differ much less. One bias for the
site, shrunk by how many runs back it, takes most of that away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

BETWEEN_SITES = 0.10
"""Deviation of ln(measured / predicted) between sites; see docs/explanation/accuracy.md."""
WITHIN_SITE = 0.04
"""The same between runs of one site, after its bias is known."""


def trusted_share(runs: int) -> float:
    """How much of the bias that `runs` runs show is taken over, from 0 to 1.

    The posterior mean of a normal bias with the two deviations above.
    """
    return runs / (runs + (WITHIN_SITE / BETWEEN_SITES) ** 2)


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster with its people and software."""

    ratios: tuple[float, ...] = ()
    """Measured over predicted step time of each known run."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> "Site":
        """From measured and predicted step times."""
        return cls(tuple(measured / predicted for measured, predicted in pairs))

    @property
    def bias(self) -> float:
        """Factor for every prediction at this site; 1 if nothing is known."""
        if not self.ratios:
            return 1.0
        mean = sum(log(ratio) for ratio in self.ratios) / len(self.ratios)
        return exp(trusted_share(len(self.ratios)) * mean)

    def narrowed(self, deviation: float) -> float:
        """Standard deviation of ln(measured / predicted) that is left of `deviation`."""
        count = len(self.ratios)
        if not count:
            return deviation
        left = WITHIN_SITE**2 * (1.0 + 1.0 / count)
        return min(deviation, sqrt(max(left, deviation**2 - BETWEEN_SITES**2)))


NOWHERE = Site()
"""A site of which nothing is known."""
