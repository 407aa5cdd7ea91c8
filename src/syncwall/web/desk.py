"""What every route needs.

Holds `Desk` (where work is handed in), `desk_of` and `PROBLEMS`, how refusals are documented.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel

from syncwall.web.guard import MAX_BODY_BYTES
from syncwall.web.streams import Streams
from syncwall.web.uploads import Uploads
from syncwall.web.workers import Answer, Workers

PREDICTION_S: Final = 10.0
"""Seconds that an answer may take."""


class Problem(BaseModel):
    """One thing that is wrong with what was asked."""

    where: str
    """The key, such as layout.tp."""
    what: str


class Problems(BaseModel):
    """All that is wrong."""

    problems: list[Problem]


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    422: {
        "model": Problems,
        "description": "This is not possible; every problem is listed.",
    },
    503: {"model": Problems, "description": "Too busy, or the answer takes too long."},
    400: {"description": "The body is not JSON in UTF-8."},
    401: {"description": "The token is missing; only if the server was started with one."},
    403: {"description": "A page of another site asks."},
    408: {"description": "The body came too slowly."},
    413: {"description": f"The body has more than {MAX_BODY_BYTES // 1024} KiB, files excepted."},
    421: {"description": "The Host header names another machine."},
}


@dataclass
class Desk:
    """Where routes hand in their work."""

    workers: Workers
    streams: Streams = field(default_factory=Streams)
    findings: tuple[Path, ...] = ()
    """Folders with results of `lab run` and `measure`."""
    files: Path | None = None
    """Folder with files that may be explained."""
    uploads: Uploads = field(default_factory=Uploads)

    async def answer(
        self,
        function: Answer,
        *arguments: Any,
        limit_s: float = PREDICTION_S,
        later: bool = False,
    ) -> Response:
        """What `function`, or that of `answers` which it names, returns in another process."""
        body = await self.workers.call(function, *arguments, limit_s=limit_s, later=later)
        return Response(body, media_type="application/json")


def desk_of(request: Request) -> Desk:
    """The desk of the application."""
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(desk_of)]
