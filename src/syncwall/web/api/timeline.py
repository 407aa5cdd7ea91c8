"""The route of the timeline on the Predict page."""

from fastapi import APIRouter
from fastapi.responses import Response

from syncwall.web.answers import timeline
from syncwall.web.api.base import PROBLEMS, AtDesk
from syncwall.web.asked import AskedRun

router = APIRouter(prefix="/api", tags=["predict"], responses=PROBLEMS)


@router.post("/timeline", summary="One micro batch in time")
async def drawn(asked: AskedRun, desk: AtDesk) -> Response:
    """Every operation and wait of the last micro batch and the optimizer step, in columns."""
    return await desk.answer(timeline.timeline, asked, later=True)
