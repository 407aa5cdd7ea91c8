"""Layouts that no other beats in everything at once (Pareto).

Holds `FrontPoint` and `Front`. Compared are the time of a step, memory and GPUs; the
cost is GPUs times time, so it never adds a point. `Difference` and `differences`: why one layout
loses against another: where its time goes more, and where less.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.plan.choices import Objective
from syncwall.public import published

"""The shortest step, the fewest GPU-seconds, or the fewest GPUs."""
CLOSE = 1e-3
"""Points whose times, or memory, differ by less than this share are one."""


@published()
@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A layout that no other beats in time, memory and GPUs at once."""

    gpus: int
    step_s: float
    memory_bytes: float
    """Of the fullest GPU."""
    layout: Callable[[], Layout]
    """Made when somebody asks."""

    def rank(self, objective: Objective) -> tuple[float, ...]:
        """Orders points, the best first."""
        if objective == "cheapest":
            return (self.step_s * self.gpus, self.memory_bytes)
        first = (float(self.gpus),) if objective == "smallest" else ()
        return (*first, self.step_s, self.memory_bytes)

    def beats(self, other: "FrontPoint") -> bool:
        """True if `other` is nowhere better by more than a hair."""
        return (
            self.gpus <= other.gpus
            and self.step_s <= other.step_s * (1 + CLOSE)
            and self.memory_bytes <= other.memory_bytes * (1 + CLOSE)
        )


@dataclass
class Front:
    """Points none of which beats another."""

    _points: list[FrontPoint] = field(default_factory=list)

    def add(self, point: FrontPoint) -> None:
        """Take `point` in unless another beats it; drop those that it beats."""
        if any(one.beats(point) for one in self._points):
            return
        self._points = [one for one in self._points if not point.beats(one)]
        self._points.append(point)

    def candidates(self, gpus: int, step_s: Any, memory_bytes: Any) -> Iterator[tuple[int, ...]]:
        """Places in arrays of layouts on `gpus` GPUs that belong on the front, quickest first."""
        flat_s, flat_bytes = step_s.reshape(-1), memory_bytes.reshape(-1)
        real = np.flatnonzero(np.isfinite(flat_s))
        order = real[np.lexsort((flat_bytes[real], flat_s[real]))]
        least = np.minimum.accumulate(flat_bytes[order])
        lower = np.concatenate(([True], flat_bytes[order][1:] < least[:-1] * (1 - CLOSE)))
        for index in order[lower]:
            yield tuple(int(i) for i in np.unravel_index(index, step_s.shape))

    def __iter__(self) -> Iterator[FrontPoint]:
        return iter(sorted(self._points, key=lambda one: one.rank("fastest")))

    def __len__(self) -> int:
        return len(self._points)


SMALL = 0.002
"""Differences of a cause below this share of the first step are not worth a word."""
OF_GAP = 0.1
"""Nor are those below this share of the difference of the steps."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One cause in two ledgers."""

    cause: Cause
    seconds: float
    """What the second layout spends more; less if negative."""


def differences(first: Prediction, second: Prediction) -> list[Difference]:
    """Where `second` spends more or less than `first`, the largest difference first."""
    causes = dict.fromkeys([*first.ledger, *second.ledger])
    found = [Difference(c, float(second.ledger[c]) - float(first.ledger[c])) for c in causes]
    least = max(OF_GAP * abs(second.step_s - first.step_s), SMALL * first.step_s)
    kept = [one for one in found if abs(one.seconds) >= least]
    return sorted(kept, key=lambda one: -abs(one.seconds))
