"""Everything that the article of a run or a job says, computed.

Holds `Answered` and `answered`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from syncwall.answer import Prediction, predict
from syncwall.answer.improvements import Improvement, improvements
from syncwall.job.completion import Completion, JobChange, changes, finish
from syncwall.plan.reference import Reference
from syncwall.plan.wall.answer import SyncWall
from syncwall.plan.wall.found import wall_of
from syncwall.problems import InputError
from syncwall.report.stated import ReportRequest

_PROPOSALS: Final = 5
_MOST_GPUS: Final = 2**20
_WALL, _FINISH, _CHANGES = 0.3, 0.2, 0.5
"""Shares of the work."""


@dataclass(frozen=True)
class Answered:
    """A run or a job, and all that there is to say of it."""

    stated: ReportRequest
    prediction: Prediction
    proposals: list[Improvement]
    start: Reference
    """The run whose GPUs grow."""
    wall: SyncWall | None
    no_wall: str = ""
    """Why there is no wall."""
    completion: Completion | None = None
    changes: list[JobChange] = field(default_factory=list)


def answered(
    stated: ReportRequest, progress: Callable[[float], None] = lambda share: None
) -> Answered:
    """The answers to `stated`; no layout is searched for, so that it takes about a second."""
    prediction = predict(stated.run)
    proposals = improvements(prediction, _PROPOSALS)
    start = Reference(prediction)
    wall, no_wall = _wall(start)
    if stated.job is None:
        return Answered(stated, prediction, proposals, start, wall, no_wall)
    progress(_WALL)
    completion = finish(
        stated.job, prediction, progress=lambda share: progress(_WALL + _FINISH * share)
    )
    found = changes(completion, lambda share: progress(_WALL + _FINISH + _CHANGES * share))
    return Answered(stated, prediction, proposals, start, wall, no_wall, completion, found)


def _wall(start: Reference) -> tuple[SyncWall | None, str]:
    """The sync wall, or why there is none."""
    try:
        wall = wall_of(start, _MOST_GPUS, searching=False)
    except InputError as error:
        return None, str(error)
    if all(len(side.curve.gpus) < 2 for side in wall.sides.values()):
        return None, "this machine cannot have more GPUs than that"
    return wall, ""
