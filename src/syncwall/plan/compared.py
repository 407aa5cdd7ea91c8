"""Why one layout loses against another: where its time goes more, and where less.

Holds `Difference` and `differences`.
"""

from dataclasses import dataclass

from syncwall.answer.prediction import Prediction

SMALL = 0.002
"""Differences of a cause below this share of the first step are not worth a word."""
OF_GAP = 0.1
"""Nor are those below this share of the difference of the steps."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One cause in two ledgers."""

    cause: str
    seconds: float
    """What the second layout spends more; less if negative."""


def differences(first: Prediction, second: Prediction) -> list[Difference]:
    """Where `second` spends more or less than `first`, the largest difference first."""
    causes = dict.fromkeys([*first.ledger, *second.ledger])
    found = [Difference(c, float(second.ledger[c]) - float(first.ledger[c])) for c in causes]
    least = max(OF_GAP * abs(second.step_s - first.step_s), SMALL * first.step_s)
    kept = [one for one in found if abs(one.seconds) >= least]
    return sorted(kept, key=lambda one: -abs(one.seconds))
