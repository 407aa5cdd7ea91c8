"""Routes of the Findings page."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response

from syncwall.web.answers import findings
from syncwall.web.api.base import PROBLEMS, AtDesk

router = APIRouter(prefix="/api", tags=["findings"], responses=PROBLEMS)

Name = Annotated[
    str, Path(max_length=200, description="An id of the list.", examples=["four-workers"])
]


@router.get("/findings", summary="Recorded experiments")
async def listed(desk: AtDesk) -> Response:
    """Results of `lab run` and `measure`: those of syncwall, and those of `serve --findings`."""
    return await desk.answer(findings.listed, desk.findings, limit_s=30.0)


@router.get("/findings/{name}", summary="One recorded experiment")
async def shown(name: Name, desk: AtDesk) -> Response:
    """The whole article: headings, paragraphs, tables and drawings (SVG) in order."""
    return await desk.answer(findings.shown, desk.findings, name, limit_s=30.0)
