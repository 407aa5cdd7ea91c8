"""What measured runs of one site say about all its other runs.

Holds `Site` and `trusted_share`. Sites differ for reasons that no description holds (software
builds, clocks, cooling, neighbours). One bias for the site takes part of that away: the more runs
back it, and the more they are like the run asked for, the more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt

from syncwall.answer.traits import Traits, site_distances

BETWEEN_SITES = 0.08
"""Deviation of ln(measured / predicted) between sites."""
WITHIN_SITE = 0.05
"""The same between runs of one site that are alike, after its bias is known."""
PER_DISTANCE = 0.12
"""What every unit of distance between two runs of a site adds to it. These three make one known run
help most on the calibration sources; see docs/explanation/accuracy.md."""


def trusted_share(distances: Sequence[float]) -> float:
    """How much of the bias that runs at these `distances` show is taken over, from 0 to 1.

    The posterior mean of a normal bias with the deviations above.
    """
    weight = sum(_weight(far) for far in distances)
    return weight / (weight + 1.0 / BETWEEN_SITES**2)


def _weight(far: float) -> float:
    return 1.0 / (WITHIN_SITE**2 + (PER_DISTANCE * far) ** 2)


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster with its people and software."""

    ratios: tuple[float, ...] = ()
    """Measured over predicted step time of each known run."""
    known: tuple[Traits, ...] = ()
    """What these runs are like; nothing if they are like the run asked for."""
    distances: tuple[float, ...] = ()
    """How far each of them is from the run asked for; nothing if that is not known yet."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], known: Sequence[Traits] = ()) -> "Site":
        """From measured and predicted step times."""
        return cls(tuple(measured / predicted for measured, predicted in pairs), tuple(known))

    def seen_from(self, traits: Traits) -> "Site":
        """The same site as far as it concerns a run with `traits`."""
        return replace(self, distances=tuple(site_distances(self.known, traits).tolist()))

    @property
    def bias(self) -> float:
        """Factor for the prediction at this site; 1 if nothing is known."""
        far = self._far
        if not far:
            return 1.0
        weights = [_weight(one) for one in far]
        shown = sum(w * log(r) for w, r in zip(weights, self.ratios, strict=True)) / sum(weights)
        return exp(trusted_share(far) * shown)

    def narrowed(self, deviation: float) -> float:
        """Standard deviation of ln(measured / predicted) that is left of `deviation`."""
        far = self._far
        if not far:
            return deviation
        least = WITHIN_SITE**2 * (1.0 + 1.0 / len(far))
        explained = trusted_share(far) * BETWEEN_SITES**2
        return min(deviation, sqrt(max(least, deviation**2 - explained)))

    @property
    def _far(self) -> tuple[float, ...]:
        return self.distances or (0.0,) * len(self.ratios)


NOWHERE = Site()
"""A site of which nothing is known."""
