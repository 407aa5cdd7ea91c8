"""Two predictions beside each other, and whether they can be told apart.

Holds `Ratio` (how many times as much, and how sure that is), `is_same_setup`, `step_deviation`,
`memory_deviation`, `together` and `ledger_difference`. Errors of two predictions are taken to be
independent, unless both are of the same model on the same machine with the same software: of such
pairs it is known how much of the error both share (`python -m bench fit pairs`).
"""

from dataclasses import dataclass
from math import exp, hypot, log
from statistics import NormalDist
from typing import Final

from syncwall.answer.interval import Z80
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import HIGH, LOW
from syncwall.answer.site import site_distances
from syncwall.cause import Cause
from syncwall.public import published

ALIKE: Final = 0.24
"""Doubt about the ratio of two runs of one setup, over what two independent errors would give: 80%
of 24,172 pairs of published runs lie within 0.23, the mean over 14 organisations, and within 0.24
whichever of them is left out."""


@published(
    "before after difference ratio=value ratio_interval=interval told_apart=is_told_apart",
    "probability_larger=probability",
)
@dataclass(frozen=True, slots=True)
class Ratio:
    """One quantity of two runs, of a job the P50; both are above zero."""

    before: float
    after: float
    deviation: float
    """Standard deviation of the logarithm of the true ratio over the predicted one."""

    @property
    def difference(self) -> float:
        """What the second one has more; less if negative."""
        return self.after - self.before

    @property
    def logarithm(self) -> float:
        """Of the ratio; the other way round it is the same with the other sign."""
        return log(self.after) - log(self.before)

    @property
    def value(self) -> float:
        """How many times as much the second one has."""
        return self.after / self.before

    @property
    def interval(self) -> tuple[float, float]:
        """P10 and P90 of it."""
        factor = exp(Z80 * self.deviation)
        return self.value / factor, self.value * factor

    @property
    def is_told_apart(self) -> bool:
        """True if the difference is larger than the doubt: 1 lies outside of the interval."""
        return abs(self.logarithm) > Z80 * self.deviation

    @property
    def probability(self) -> float:
        """That the second one really has more."""
        if not self.deviation:
            return 0.5 if self.after == self.before else float(self.after > self.before)
        return NormalDist().cdf(self.logarithm / self.deviation)


def is_same_setup(one: Prediction, other: Prediction) -> bool:
    """True for runs that differ in layout, batch and number of GPUs only."""
    if one.is_recorded or other.is_recorded:
        return False
    machines = {(run.cluster.name, run.cluster.device.name) for run in (one.run, other.run)}
    return len(machines) == 1 and not site_distances([one.traits], other.traits)[0]


def step_deviation(one: Prediction, other: Prediction) -> float:
    """Deviation of the logarithm of the ratio of two steps, and of all that goes with their time.

    What known runs of a site say has already taken away what its runs share.
    """
    return ratio_deviation(one, other, one.interval.deviation, other.interval.deviation)


def ratio_deviation(one: Prediction, other: Prediction, deviation: float, other_deviation: float) -> float:
    """Deviation of a ratio, of those of its two parts."""
    independent = hypot(deviation, other_deviation)
    anchored = any(run.site.known for run in (one, other))
    return independent * ALIKE if is_same_setup(one, other) and not anchored else independent


def memory_deviation() -> float:
    """The same for the memory of two runs, taken to be independent."""
    return hypot(1.0, 1.0) * log(HIGH / LOW) / 2.0 / Z80


def ledger_difference(one: Prediction, other: Prediction) -> dict[Cause, float]:
    """Seconds of the step by cause that `other` has more than `one`, in the order of causes."""
    causes = sorted({*one.ledger, *other.ledger}, key=lambda cause: cause.order)
    return {c: float(other.ledger.get(c, 0.0)) - float(one.ledger.get(c, 0.0)) for c in causes}
