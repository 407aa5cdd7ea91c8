"""Recorded programs that a report is about, read and predicted.

Holds `AnsweredProgram`, `is_program` and `answered_program`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncwall.answer.program import ProgramPrediction, predict_program
from syncwall.describe import Cluster
from syncwall.documents import opened
from syncwall.plan.programs import ProgramCase
from syncwall.plan.wall.program import ProgramWall, program_wall
from syncwall.problems import InputError
from syncwall.read.program import read_program

_GZIP: Final = b"\x1f\x8b"
_MOST_GPUS: Final = 2**16


@dataclass(frozen=True)
class AnsweredProgram:
    """A recorded program, and all that there is to say of it."""

    file: str
    prediction: ProgramPrediction
    wall: ProgramWall | None
    no_wall: str = ""
    """Why there is no wall."""


def is_program(path: Path) -> bool:
    """True for what `syncwall capture` writes; nothing else that reports take is compressed."""
    with opened(path) as stream:
        return stream.read(len(_GZIP)) == _GZIP


def answered_program(path: Path, cluster: Cluster) -> AnsweredProgram:
    """The program in the file at `path`, on `cluster`."""
    prediction = predict_program(read_program(path), cluster)
    try:
        wall = program_wall(ProgramCase(prediction.program, cluster), _MOST_GPUS)
    except InputError as error:
        return AnsweredProgram(str(path), prediction, None, str(error))
    return AnsweredProgram(str(path), prediction, wall)
