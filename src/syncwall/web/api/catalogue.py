"""Routes of the Catalogue page."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response

from syncwall.web.answers import catalogue
from syncwall.web.api.base import PROBLEMS, AtDesk

router = APIRouter(prefix="/api", tags=["catalogue"], responses=PROBLEMS)

EntryKind = Literal["device", "link", "cluster", "model", "switch", "framework", "failure", "price"]
Name = Annotated[str, Path(max_length=100, description="As in the list.", examples=["h100-sxm"])]


@router.get("/catalogue", summary="All entries of the catalogue")
async def listed(desk: AtDesk) -> Response:
    """Devices, links, clusters, models, switches, frameworks, failure rates and prices."""
    return await desk.answer(catalogue.listed)


@router.get("/catalogue/{kind}/{name}", summary="One entry of the catalogue")
async def shown(kind: EntryKind, name: Name, desk: AtDesk) -> Response:
    """Every number of an entry with its trust, source and date."""
    return await desk.answer(catalogue.shown, kind, name)
