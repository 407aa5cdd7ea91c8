"""The least of a lever with which a target holds, by search on the predictor.

Holds `Question`, `Answer` and `solved`. Every target holds from some value on, so the range is cut
into parts again and again; all questions of a layout are one array of wires in each round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.describe import Layout
from syncwall.plan.network.targets import (
    Ideal,
    Lever,
    Limits,
    Target,
    ideals,
    met,
    range_of,
    wires_of,
)
from syncwall.plan.wires import Case

_ROUNDS: Final = 6
_PARTS: Final = np.arange(1, 17) / 17.0
"""Values tried in a round, as shares of the range left: 6 rounds of 17 parts leave 1e-6 of it."""


@dataclass(frozen=True, slots=True)
class Question:
    """Of what, and for what."""

    lever: Lever
    target: Target


@dataclass(frozen=True, slots=True)
class Answer:
    """The least factor on the lever's goodness (rate, or one over latency) that is enough."""

    factor: float | None
    """None if no factor is enough; 0 if any is."""
    ideal: Ideal
    holds_now: bool
    """True if the target holds as the machine is."""


def solved(
    case: Case, layout: Layout, questions: Sequence[Question], limits: Limits
) -> dict[Question, Answer]:
    """Every question of one resolved `layout`."""
    levers = [question.lever for question in questions]
    if not levers:
        return {}
    best = ideals(levers, lambda wires: case.timed(layout, wires), case.cluster)
    trial = _Trial(case, layout, list(questions), best, limits)
    ranges = np.log([range_of(lever, case.cluster) for lever in levers])
    low, high = ranges[:, 0], ranges[:, 1]
    always, ever, now = trial.holds(np.stack([low, high, 0.0 * low]))
    for _ in range(_ROUNDS):
        tried = low + (high - low) * _PARTS[:, None]
        first = np.argmax(np.vstack([trial.holds(tried), np.ones_like(always)]), axis=0)
        bounds = np.vstack([low, tried, high])
        column = np.arange(len(levers))
        low, high = bounds[first, column], bounds[first + 1, column]
    found = [
        0.0 if always[i] else float(np.exp(high[i])) if ever[i] else None
        for i in range(len(levers))
    ]
    return {
        question: Answer(found[i], best[i], bool(now[i])) for i, question in enumerate(questions)
    }


@dataclass(frozen=True, slots=True)
class _Trial:
    """Trying several values for every question in one call of the model."""

    case: Case
    layout: Layout
    questions: list[Question]
    ideals: list[Ideal]
    limits: Limits

    def holds(self, logs: Any) -> Any:
        """True where a question's target holds; `logs` has a row for each value, a column each."""
        rows, count = logs.shape
        levers = [question.lever for question in self.questions] * rows
        timed = self.case.timed(self.layout, wires_of(levers, np.exp(logs).ravel()))
        each = [
            np.broadcast_to(met(question.target, timed, ideal, self.limits), rows * count)
            for question, ideal in zip(self.questions, self.ideals, strict=True)
        ]
        table = np.stack([column.reshape(rows, count)[:, i] for i, column in enumerate(each)])
        return table.T
