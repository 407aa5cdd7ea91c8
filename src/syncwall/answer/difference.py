"""Two predictions beside each other, and whether they can be told apart.

Holds `Ratio` (how many times as much, and how sure that is), `step_deviation`, `memory_deviation`
and `ledger_difference`. What two steps have in common is wrong in both of them alike, so that only
what differs leaves doubt about their ratio; how much is learned from pairs of published runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import exp, hypot, log
from typing import Any, Final

from syncwall.answer.interval import Z80, interval
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import HIGH, LOW
from syncwall.answer.site import site_distances
from syncwall.cause import Cause
from syncwall.public import published

_ROUNDING: Final = 1e-9
FLOOR: Final = 0.16
HALFWAY: Final = 0.12
"""Doubt about the ratio of two steps on one device, over what independent errors would give: the
floor if hardly anything of them differs, half-way to 1 if this share of them does. By `python -m
bench fit pairs`, on first contacts with every organisation left out."""


INDEPENDENT_MEMORIES: Final = hypot(1.0, 1.0) * log(HIGH / LOW) / 2.0 / Z80
"""Deviation of the ratio of two memories with independent errors."""


class Certainty(StrEnum):
    """What can be said of a difference."""

    SAME = "the same"
    APART = "told apart"
    LIKELY = "size uncertain"
    TIED = "cannot be told apart"


LIKELY: Final = 0.75
"""Probability from which on the larger one is named, though its size is uncertain: a choice of
words."""


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
    def certainty(self) -> Certainty:
        """What can be concluded of the difference."""
        if self.difference == 0 and self.deviation == 0:
            return Certainty.SAME
        if self.is_told_apart:
            return Certainty.APART
        likely = max(self.probability, 1.0 - self.probability) >= LIKELY
        return Certainty.LIKELY if likely else Certainty.TIED

    @property
    def probability(self) -> float:
        """That the second one really has more.

        Errors of pairs of published runs follow Laplace's distribution, not the normal one: a half,
        four and nine of ten are within 0.41, 1.07 and 1.54 half-widths (0.43, 1 and 1.43).
        """
        if not self.deviation:
            return 0.5 if self.after == self.before else float(self.after > self.before)
        beyond = 0.5 * exp(log(0.2) * abs(self.logarithm) / (Z80 * self.deviation))
        return beyond if self.logarithm < 0 else 1.0 - beyond


def is_same_setup(one: Prediction, other: Prediction) -> bool:
    """True for runs that differ in layout, batch and number of GPUs only."""
    if one.is_recorded or other.is_recorded:
        return False
    machines = {(run.cluster.name, run.cluster.device.name) for run in (one.run, other.run)}
    return len(machines) == 1 and not site_distances([one.traits], other.traits)[0]


def changed_share(one: Mapping[Any, float], other: Mapping[Any, float]) -> float:
    """Share of two ledgers, or of two memories by cause, that is not common to both."""
    apart = sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in dict.fromkeys((*one, *other)))
    share = apart / (sum(one.values()) + sum(other.values()))
    return share if share > _ROUNDING else 0.0


def shared_error(
    changed: float, *, other_device: bool = False, floor: float = FLOOR, halfway: float = HALFWAY
) -> float:
    """Doubt about a ratio over that of independent errors, if a share `changed` is not common."""
    if other_device:
        return 1.0
    return floor + (1.0 - floor) * changed / (changed + halfway)


def step_changed(one: Prediction, other: Prediction) -> float:
    """Share of the time of a GPU for a token that is not common to two steps."""
    ledgers = []
    for run in (one, other):
        each = float(run.work.gpus) / (run.tokens if one.tokens and other.tokens else 1.0)
        ledgers.append({cause: float(seconds) * each for cause, seconds in run.ledger.items()})
    return changed_share(*ledgers)


def step_deviation(one: Prediction, other: Prediction) -> float:
    """Deviation of the logarithm of the ratio of two steps, and of all that goes with their time.

    Zero if nothing of the step differs; never more than if errors were independent.
    """
    return ratio_deviation(one, other, one.interval.deviation, other.interval.deviation)


def ratio_deviation(one: Prediction, other: Prediction, deviation: float, other_deviation: float) -> float:
    """Deviation of a ratio, of those of its two parts."""
    changed = step_changed(one, other)
    if not changed and _is_same_software(one, other):
        return 0.0
    share = shared_error(changed, other_device=_device(one) != _device(other))
    independent = hypot(deviation, other_deviation)
    if not any(run.site.known for run in (one, other)):
        return share * independent
    return min(independent, share * hypot(*map(_unanchored, (one, other))))


def _device(one: Prediction) -> str:
    return one.cluster.device.name


def _is_same_software(one: Prediction, other: Prediction) -> bool:
    """True if nothing differs that a ledger may not know of."""
    if one.is_recorded or other.is_recorded:
        return one.is_recorded == other.is_recorded and one.cluster.name == other.cluster.name
    return is_same_setup(one, other) and one.run.software == other.run.software


def _unanchored(one: Prediction) -> float:
    """Deviation of a step without what known runs of the site took away, which both share."""
    if one.is_recorded:
        return one.interval.deviation
    return interval(one.traits, waiting=one.waiting, unsaid=one.unsaid).deviation


def memory_deviation(one: Prediction, other: Prediction) -> float:
    """The same for the memory of two runs.

    It shares as much of its error as steps do: 75% of pairs of first contacts are covered, 87% of others.
    """
    changed = changed_share(one.memory_by_cause, other.memory_by_cause)
    if not changed:
        return 0.0
    return shared_error(changed) * INDEPENDENT_MEMORIES


def ledger_difference(one: Prediction, other: Prediction) -> dict[Cause, float]:
    """Seconds of the step by cause that `other` has more than `one`, in the order of causes."""
    causes = sorted({*one.ledger, *other.ledger}, key=lambda cause: cause.order)
    return {c: float(other.ledger.get(c, 0.0)) - float(one.ledger.get(c, 0.0)) for c in causes}
