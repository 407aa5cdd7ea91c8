"""What measured runs of one site say about all its other runs.

Holds `KnownStep`, `Site`, `deviation_of_repeats`, `WANTED` and `UNKNOWN_SITE`. Sites differ for
reasons that no description holds (software builds, clocks, cooling, neighbours). Each kind of work
has a knob for that, the same in every layout: the more runs back it, and the more they are like the
run asked for, the further it is turned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Final

import numpy as np

from syncwall.answer.knob_model import Covariances, Evidence, site_prior
from syncwall.answer.traits import Traits, site_distances
from syncwall.cost.knobs import AS_CATALOGUED, Knobs

WANTED: Final = 3
"""Known runs that are asked for: one alone may be an outlier, and cannot tell knobs apart."""


@dataclass(frozen=True, slots=True)
class KnownStep:
    """A measured run beside its prediction."""

    ratio: float
    """Measured over predicted step time."""
    shares: tuple[float, ...]
    """Part of the predicted step that goes with each knob of `cost.knobs.KNOBS`."""
    traits: Traits
    same_build: bool = False
    """True if the runs asked for are of the same build on the same machines."""


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster with its people and software."""

    known: tuple[KnownStep, ...] = ()
    measured: tuple[str, ...] = ()
    """Knobs whose kernels or collectives were measured alone on the machine."""
    asked: Traits | None = None
    """The run asked for; None if it is like the known ones."""
    left_out: tuple[float, ...] = ()
    """Measured over predicted time of known runs that are too far off to say anything of a site."""

    @property
    def was_asked(self) -> bool:
        """True if somebody named known runs, whether they are used or not."""
        return bool(self.known or self.left_out)

    def seen_from(self, traits: Traits, measured: Sequence[str] = ()) -> "Site":
        """The same site as far as it concerns a run with `traits`, whatever its layout."""
        return replace(self, asked=traits, measured=tuple(measured))

    @property
    def knobs(self) -> Knobs:
        """What every price is multiplied by; as the catalogue says if nothing is known."""
        if not self.known:
            return AS_CATALOGUED
        return Knobs(*self._evidence().knobs().tolist())

    def narrowed(self, deviation: float) -> float:
        """Standard deviation of ln(measured / predicted) that is left of `deviation`."""
        if not self.known:
            return deviation
        least = deviation_of_repeats(len(self.known)) ** 2
        left = max(least, deviation**2 - self._evidence().explained())
        return min(deviation, sqrt(left))

    def _evidence(self) -> Evidence:
        traits = [one.traits for one in self.known]
        far = np.zeros(len(traits)) if self.asked is None else site_distances(traits, self.asked)
        return Evidence(
            Covariances(site_prior(), self.measured),
            np.array([log(one.ratio) for one in self.known]),
            np.array([one.shares for one in self.known]),
            np.array([site_distances(traits, one) for one in traits]),
            far,
            np.array([one.same_build for one in self.known]),
        )


def deviation_of_repeats(known: int) -> float:
    """Standard deviation of the logarithm of a step's time beside the mean of `known` runs like it.

    No prediction can be surer.
    """
    return site_prior().run * sqrt(1.0 + 1.0 / known)


UNKNOWN_SITE: Final = Site()
"""A site of which nothing is known."""
