"""Routes of the Sync wall page."""

from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from syncwall.web.answers import wall
from syncwall.web.api.base import PROBLEMS, AtDesk
from syncwall.web.asked import Asked, AskedRun

router = APIRouter(prefix="/api", tags=["wall"], responses=PROBLEMS)

MOST: Final = 2**20
_MOVES_S: Final = 30.0


class Way(StrEnum):
    """What stays when GPUs are added."""

    STRONG = "strong"
    WEAK = "weak"


class AskedMoves(Asked):
    """A run that may grow."""

    run: AskedRun
    most: Annotated[int, Field(ge=1, le=MOST)] = Field(
        MOST, description="GPUs to which curves go.", examples=[65536]
    )


class AskedWall(AskedMoves):
    """A run that may grow, and others to compare it with."""

    scaling: Way = Field(
        Way.STRONG, description="strong: the global batch stays; weak: that of a replica does."
    )
    others: Annotated[list[AskedRun | dict[str, Any]], Field(max_length=5)] = Field(
        default_factory=list,
        description="The same on another cluster or in another layout; what is wrong with one of "
        "them stands in its place in the answer.",
    )


@router.post("/wall", summary="Scaling curves and their walls")
async def curves(asked: AskedWall, desk: AtDesk) -> Response:
    """Speed, efficiency and ledger over GPU counts; where efficiency falls, and why."""
    return await desk.answer(wall.compared, asked.run, asked.others, asked.most, str(asked.scaling))


@router.post("/wall/moves", summary="What moves the wall")
async def moved(asked: AskedMoves, desk: AtDesk) -> Response:
    """The walls with a faster network, a larger batch, another layout, ...: the model run again."""
    return await desk.answer(wall.moves, asked.run, asked.most, limit_s=_MOVES_S, later=True)
