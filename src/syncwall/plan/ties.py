"""Layouts that a prediction cannot tell apart.

Holds `ties`.
"""

from collections.abc import Sequence

from syncwall.answer.difference import Ratio, step_deviation
from syncwall.answer.prediction import Prediction


def ties(found: Sequence[Prediction]) -> list[int]:
    """The number of the group of each, for predictions in the order of their rank.

    The first of a group cannot be told apart from any other of it: the ratio of the two steps is
    nearer to one than its doubt.
    """
    groups: list[int] = []
    first: Prediction | None = None
    for one in found:
        if first is None or _is_apart(first, one):
            first = one
            groups.append(groups[-1] + 1 if groups else 1)
        else:
            groups.append(groups[-1])
    return groups


def _is_apart(first: Prediction, other: Prediction) -> bool:
    return Ratio(first.step_s, other.step_s, step_deviation(first, other)).is_told_apart
