"""Routes of the page "How a step works"."""

from fastapi import APIRouter
from fastapi.responses import Response

from syncwall.web.answers.step import AskedStep, team_step
from syncwall.web.answers.step_collective import AskedCollective, collective
from syncwall.web.answers.step_pipeline import AskedPipeline, pipeline
from syncwall.web.api.base import PROBLEMS, AtDesk

router = APIRouter(prefix="/api", tags=["step"], responses=PROBLEMS)


@router.post("/step", summary="A data-parallel step, worker by worker")
async def step(asked: AskedStep, desk: AtDesk) -> Response:
    """When each worker computes, exchanges and waits in the last micro batch of a step."""
    return await desk.answer(team_step, asked)


@router.post("/step/collective", summary="Ring and tree all-reduce, step by step")
async def exchanged(asked: AskedCollective, desk: AtDesk) -> Response:
    """Who sends what to whom, and how long the prediction says that it takes."""
    return await desk.answer(collective, asked)


@router.post("/step/pipeline", summary="A 1F1B pipeline in time")
async def piped(asked: AskedPipeline, desk: AtDesk) -> Response:
    """Which stage works on which micro batch, and where it waits."""
    return await desk.answer(pipeline, asked)
