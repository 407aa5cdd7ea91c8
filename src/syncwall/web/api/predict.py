"""Routes of the Predict page, and of the form that every page has."""

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from syncwall.web.answers import export, options, paste, prediction
from syncwall.web.api.base import PROBLEMS, AtDesk
from syncwall.web.asked import Asked, AskedRun

router = APIRouter(prefix="/api", tags=["predict"], responses=PROBLEMS)


class AskedText(Asked):
    """Something pasted."""

    text: Annotated[str, Field(max_length=60_000)] = Field(
        description="A run file (YAML), a model, or a Hugging Face config.json."
    )


@router.get("/options", summary="What can be chosen")
async def offered(desk: AtDesk) -> Response:
    """Models, clusters and frameworks of the catalogue."""
    return await desk.answer(options.options)


@router.post("/paste", summary="Read a pasted model or run")
async def read(asked: AskedText, desk: AtDesk) -> Response:
    """The keys of a run that the text states."""
    return await desk.answer(paste.pasted, asked.text)


@router.post("/predict", summary="Predict a training step")
async def predict(asked: AskedRun, desk: AtDesk) -> Response:
    """Step time with its interval, MFU, memory by cause, the ledger, and what it rests on."""
    return await desk.answer(prediction.predicted, asked)


@router.post("/next", summary="What to change")
async def next_steps(asked: AskedRun, desk: AtDesk) -> Response:
    """The single changes of the layout that save most, each predicted, not guessed."""
    return await desk.answer(prediction.next_steps, asked, later=True)


@router.post("/export/{kind}", summary="A prediction as a file")
async def exported(kind: export.ExportKind, asked: AskedRun, desk: AtDesk) -> Response:
    """A run file, JSON as `predict --json` prints it, a Perfetto trace, or a report, as text."""
    return await desk.answer(export.exported, kind, asked, later=True)
