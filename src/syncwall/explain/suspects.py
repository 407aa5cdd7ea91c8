"""What would explain the gap between a trace and the prediction of its run, cause by cause.

Holds `suspects_of`: of all that would explain the size of the gap (`answer.gap`) those that spend
their time where the trace does.
"""

from syncwall.answer.gap import Suspect, gap
from syncwall.answer.prediction import Prediction
from syncwall.describe.measured_speed import MeasuredSpeed
from syncwall.explain.side_by_side import SideBySide, side_by_side


def suspects_of(predicted: Prediction, measured: SideBySide) -> tuple[Suspect, ...]:
    """The likeliest first; none if the two steps are as far apart as is usual."""
    if measured.second_s <= 0:
        return ()
    found = gap(predicted, MeasuredSpeed(step_s=measured.second_s))
    if found.is_usual:
        return ()
    where = _largest(measured)
    return tuple(
        one
        for one in found.suspects
        if one.ledger is not None and _largest(side_by_side(predicted.ledger, one.ledger)) == where
    )


def _largest(beside: SideBySide) -> str | None:
    """The cause that changes most the way the step does."""
    same_way = [one for one in beside.gaps if one.gap_s * beside.gap_s > 0]
    return max(same_way, key=lambda one: abs(one.gap_s)).cause if same_way else None
