"""Routes of the Plan page."""

from typing import Annotated, Final

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from syncwall.web.answers import plan
from syncwall.web.api.base import PROBLEMS, AtDesk
from syncwall.web.asked import Asked, AskedRun

router = APIRouter(prefix="/api", tags=["plan"], responses=PROBLEMS)

SEARCH_S: Final = 120.0
"""Seconds that a search may take."""


class AskedComparison(Asked):
    """Runs to lay side by side."""

    runs: Annotated[list[AskedRun], Field(min_length=2, max_length=5)] = Field(
        description="The others are compared with the first."
    )


@router.post("/plan", summary="Search all layouts", response_class=Response)
async def search(asked: plan.Search, desk: AtDesk) -> Response:
    """The best layouts of a model on a cluster: all that are possible are evaluated.

    Lines of JSON (application/x-ndjson): `{"progress": 0.4}` again and again, at last
    `{"answer": ...}` or `{"problems": [...]}`. Closing the connection ends the search.
    """
    return desk.streams.streamed(plan.searched, asked, limit_s=SEARCH_S)


@router.post("/compare", summary="Lay runs side by side")
async def compare(asked: AskedComparison, desk: AtDesk) -> Response:
    """The ledger of each run, and where it spends more or less time than the first."""
    return await desk.answer(plan.compared, asked.runs, later=True)
