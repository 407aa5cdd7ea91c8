"""Routes of the Fabric page."""

from fastapi import APIRouter
from fastapi.responses import Response

from syncwall.web.answers import fabric
from syncwall.web.answers.fabric import AskedFabric
from syncwall.web.api.base import PROBLEMS, AtDesk

router = APIRouter(prefix="/api", tags=["fabric"], responses=PROBLEMS)


@router.get("/fabric/switches", summary="Switches of the catalogue")
async def offered(desk: AtDesk) -> Response:
    """Names, ports and rates."""
    return await desk.answer(fabric.switches)


@router.post("/fabric", summary="A run on a fabric, narrower or broken")
async def drawn(asked: AskedFabric, desk: AtDesk) -> Response:
    """Switches and cables, the traffic of each axis, and the step beside the healthy one."""
    return await desk.answer(fabric.fabric, asked)
