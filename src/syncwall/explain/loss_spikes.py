"""Spikes of the loss and of the gradient norm: noticed as they come, or in a whole series.

Holds `SpikeRule` with `RULE` and `NORM_RULE`, the one place of its thresholds, `Spike`, `LossSeries`
(fed step by step) and `spikes` (a whole series). A value is compared by its logarithm with the median
of those before it, in units of their spread: that of the bulk or that of the tail, whichever is
larger, so that curves with heavy tails are allowed their outliers. Spikes do not teach the rule what
is usual, unless the curve stays where it jumped to. NumPy is not imported, since agents of running
jobs load this.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from statistics import median
from typing import Final

from syncwall.outliers import TO_DEVIATION, farther_out

_TAIL: Final = 0.975
_TAIL_DEVIATIONS: Final = 2.2414
"""Standard deviations that 97.5 % of normal values lie within."""
_MEASURED_EVERY: Final = 16
"""Steps after which a spread is measured anew."""
_LEAST: Final = 1e-30
"""The smallest value with a logarithm that counts."""


@dataclass(frozen=True, slots=True)
class SpikeRule:
    """When a value is too high; spreads are of the logarithm."""

    trend_steps: int = 32
    """The trend is the median of so many steps."""
    spread_steps: int = 256
    """Spreads are those of so many steps around their trend."""
    first_steps: int = 64
    """Steps before anything is judged."""
    least_spread: float = 0.01
    """Smoother curves are judged as if they varied by 1 %."""
    two_over: float = 5.0
    """Two steps of three that are so many spreads above the trend are a spike ..."""
    one_over: float = 25.0
    """... and so is a single one."""
    grows_after: int | None = None
    """Steps after which the first bar is raised as the worst of ever more usual values is; None: not."""
    calm_steps: int = 16
    """A spike is over after so many usual steps in a row."""
    stays_steps: int = 128
    """After so many steps above the trend, the new level is the usual one."""
    rounding: float = 1e-4
    """Values below this share of the highest usual one are taken as it: a loss that has reached
    zero jumps a hundredfold in its rounding. 1e-6 was not enough for a regression in float32."""


RULE: Final = SpikeRule()
NORM_RULE: Final = SpikeRule(grows_after=64)
"""Of gradient norms: their tails are heavier than those of losses, and runs have many steps."""


@dataclass(frozen=True, slots=True)
class Spike:
    """A jump upwards."""

    step: int
    """Where it was noticed."""
    since_step: int
    """The first step that was too high."""
    value: float
    usual: float
    """The trend at that step."""
    spreads: float
    """How far above it; infinity for a value that is no number."""


class LossSeries:
    """One series and what is usual in it."""

    def __init__(self, rule: SpikeRule = RULE) -> None:
        self.rule = rule
        self._recent: deque[float] = deque(maxlen=rule.trend_steps)
        """Logarithms of usual values."""
        self._around: deque[float] = deque(maxlen=rule.spread_steps)
        """Their distances from the trend."""
        self._learnt = 0
        self._least = _LEAST
        self._spread = inf
        self._above: list[float] = []
        """Logarithms of values that are too high, since the curve left its trend."""
        self._last_above: int | None = None
        self._calm_steps = 0
        self._is_told = False

    def add(self, step: int, value: float) -> Spike | None:
        """Take the value of a step; a spike when it is noticed, once."""
        if not isfinite(value):
            return self._too_high(step, value, inf)
        level = log(max(value, self._least))
        spreads = (level - self._trend()) / self._spread if self._recent else 0.0
        if spreads <= self._bar():
            self._least = max(self._least, self.rule.rounding * value)
            self._learn(level)
            return None
        self._above.append(level)
        if len(self._above) >= self.rule.stays_steps:
            self._recent.extend(self._above)
            self._forget()
            return None
        return self._too_high(step, value, spreads)

    def _too_high(self, step: int, value: float, spreads: float) -> Spike | None:
        self._calm_steps = 0
        last, self._last_above = self._last_above, step
        again = last is not None and step - 3 < last < step
        if self._is_told or not (again or spreads > self.rule.one_over):
            return None
        self._is_told = True
        usual = exp(self._trend()) if self._recent else value
        return Spike(step, last if again and last is not None else step, value, usual, spreads)

    def _learn(self, level: float) -> None:
        if self._recent:
            self._around.append(level - self._trend())
        self._recent.append(level)
        self._learnt += 1
        if self._learnt >= self.rule.first_steps and self._learnt % _MEASURED_EVERY == 0:
            self._measure()
        self._calm_steps += 1
        if self._calm_steps >= self.rule.calm_steps:
            self._forget()

    def _bar(self) -> float:
        grows_after = self.rule.grows_after
        if grows_after is None or self._learnt <= grows_after:
            return self.rule.two_over
        return self.rule.two_over + farther_out(self._learnt, grows_after)

    def _forget(self) -> None:
        """The spike is over."""
        self._above.clear()
        self._is_told = False

    def _trend(self) -> float:
        return median(self._recent)

    def _measure(self) -> None:
        """The spread, of the bulk or of the tail."""
        middle = median(self._around)
        away = sorted(abs(distance - middle) for distance in self._around)
        bulk = TO_DEVIATION * away[len(away) // 2]
        tail = away[int(_TAIL * len(away))] / _TAIL_DEVIATIONS
        self._spread = max(bulk, tail, self.rule.least_spread)


def spikes(values: Iterable[float], first_step: int = 0, rule: SpikeRule = RULE) -> list[Spike]:
    """All spikes of a series."""
    curve = LossSeries(rule)
    found = (curve.add(step, value) for step, value in enumerate(values, first_step))
    return [spike for spike in found if spike is not None]
