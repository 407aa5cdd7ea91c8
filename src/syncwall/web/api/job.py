"""Routes of the Job page."""

from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from syncwall.web.answers import job, job_keys
from syncwall.web.api.base import PROBLEMS, AtDesk
from syncwall.web.asked import AskedJob

router = APIRouter(prefix="/api", tags=["job"], responses=PROBLEMS)

_NEXT_S: Final = 30.0


@router.get("/job/options", summary="What can be chosen for a job")
async def offered(desk: AtDesk) -> Response:
    """Studies of failures and prices of the catalogue."""
    return await desk.answer(job_keys.job_options)


@router.post("/job", summary="When a job will be done")
async def played(asked: AskedJob, desk: AtDesk) -> Response:
    """Finish with its spread, bill, goodput and checkpoints of a job played through many times."""
    return await desk.answer(job.played, asked)


@router.post("/job/next", summary="What to change in a job")
async def changed(asked: AskedJob, desk: AtDesk) -> Response:
    """Single changes that make it end sooner or cost less, each played through."""
    return await desk.answer(job.next_changes, asked, limit_s=_NEXT_S, later=True)
