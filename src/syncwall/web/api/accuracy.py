"""Routes of the Accuracy page."""

from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from syncwall.web.answers.accuracy import accuracy
from syncwall.web.api.base import PROBLEMS, AtDesk

router = APIRouter(prefix="/api", tags=["accuracy"], responses=PROBLEMS)

_LIMIT_S: Final = 180.0


@router.get("/accuracy", summary="Published runs beside predictions", response_class=Response)
async def published(desk: AtDesk) -> Response:
    """Every published run with its prediction, interval and source.

    Lines of JSON (application/x-ndjson): `{"progress": 0.4}` while all runs are predicted, which is
    done once for all visitors, and at last `{"answer": ...}`.
    """
    return desk.streams.shared("accuracy", accuracy, limit_s=_LIMIT_S)
