"""What is said to who asks for something that cannot be, in at most 64 KiB.

Holds `problem_list` and `add_refusals`.
"""

import json
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from syncwall.problems import InputError
from syncwall.web.workers import Busy, TooLong

_LIST_BYTES: Final = 60_000
_WHERE, _WHAT = 100, 1000
"""Letters of a key and of a sentence."""


def problem_list(error: InputError) -> list[dict[str, str]]:
    """Each problem with the key that it is about."""
    return _listed(
        [(one.key or one.file, str(one) if one.line else one.sentence()) for one in error.problems]
    )


def _listed(problems: list[tuple[str, str]]) -> list[dict[str, str]]:
    """The first of them, and how many more there are."""
    shown: list[dict[str, str]] = []
    left_bytes = _LIST_BYTES
    for where, what in problems:
        one = {"where": where[:_WHERE], "what": what[:_WHAT]}
        left_bytes -= len(json.dumps(one))
        if left_bytes < 0:
            more = f"and {len(problems) - len(shown):,} more"
            return [*shown, {"where": "", "what": more}]
        shown.append(one)
    return shown


def add_refusals(app: FastAPI) -> None:
    """Say in the same form whatever is wrong."""

    def refused(status: int, problems: list[dict[str, str]]) -> JSONResponse:
        return JSONResponse({"problems": problems}, status)

    @app.exception_handler(InputError)
    async def wrong(_: Request, error: InputError) -> Response:
        return refused(422, problem_list(error))

    @app.exception_handler(RequestValidationError)
    async def unreadable(_: Request, error: RequestValidationError) -> Response:
        found = [(".".join(map(str, one["loc"][1:])), str(one["msg"])) for one in error.errors()]
        return refused(422, _listed(found))

    @app.exception_handler(Busy)
    @app.exception_handler(TooLong)
    async def busy(_: Request, error: Exception) -> Response:
        return refused(503, [{"where": "", "what": str(error)}])
