"""The whole application.

Holds `application`, `LOOPBACK` and `Options`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from syncwall import __version__
from syncwall.problems import InputError
from syncwall.web.api import (
    accuracy,
    catalogue,
    fabric,
    findings,
    job,
    plan,
    predict,
    step,
    timeline,
    wall,
)
from syncwall.web.api.base import Desk
from syncwall.web.guard import Guard
from syncwall.web.site import PAGES, address, page
from syncwall.web.streams import Streams, problem_list
from syncwall.web.workers import Busy, TooLong, Workers

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_ROUTERS: Final = (
    predict.router, timeline.router, wall.router, job.router, plan.router, fabric.router,
    accuracy.router, catalogue.router, findings.router, step.router,
)  # fmt: skip
_ABOUT: Final = (
    "The functions of syncwall as JSON. Keys are those of run and job files; quantities in answers "
    "are SI (seconds, bytes, FLOP). Nothing is stored and nothing is fetched from elsewhere."
)


@dataclass(frozen=True)
class Options:
    """How the application is served."""

    names: frozenset[str] | None = LOOPBACK
    """Hosts under which it answers; None for any."""
    token: str | None = None
    """What a visitor must show."""
    findings: tuple[Path, ...] = ()
    """Folders with results to show on the Findings page."""
    processes: int | None = None


def application(options: Options = Options(), streams: Streams | None = None) -> Guard:  # noqa: B008 - frozen
    """The application behind its guard; `streams` is where its long work runs."""
    streams = streams or Streams()

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        workers = Workers(options.processes)
        app.state.desk = Desk(workers, streams, findings=options.findings)
        await workers.warm()
        yield
        streams.close()
        workers.close()

    app = FastAPI(
        title="syncwall", version=__version__, description=_ABOUT, lifespan=living,
        docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
    )  # fmt: skip
    for router in _ROUTERS:
        app.include_router(router)
    _add_pages(app)
    _add_refusals(app)
    return Guard(app, options.names, options.token)


def _add_pages(app: FastAPI) -> None:
    static = str(files("syncwall.web").joinpath("static"))
    app.add_route("/static/plotly.js", _plotly, name="plotly")
    app.add_route("/static/chart.css", _chart_rules, name="chart")
    app.mount("/static", StaticFiles(directory=static), name="static")
    for name in PAGES:
        app.add_route(address(name), _shown(name), name=name)


def _shown(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def shown(_: Request) -> Response:
        return HTMLResponse(page(name), headers={"cache-control": "no-cache"})

    return shown


async def _chart_rules(_: Request) -> Response:
    """The rules of the drawings of reports without their colours, for what is in `.finding`."""
    rules = files("syncwall.show.report").joinpath("chart.css").read_text(encoding="utf-8")
    inside = rules[rules.index("svg text") :]
    return Response(f".finding {{\n{inside}}}\n", media_type="text/css")


async def _plotly(_: Request) -> Response:
    """Plotly's script, as the Python package brings it."""
    found = find_spec("plotly")
    assert found is not None  # a dependency of the extra
    assert found.origin is not None
    script = Path(found.origin).parent / "package_data" / "plotly.min.js"
    return FileResponse(script, media_type="text/javascript")


def _add_refusals(app: FastAPI) -> None:
    def refused(status: int, problems: list[dict[str, str]]) -> JSONResponse:
        return JSONResponse({"problems": problems}, status)

    @app.exception_handler(InputError)
    async def wrong(_: Request, error: InputError) -> Response:
        return refused(422, problem_list(error))

    @app.exception_handler(RequestValidationError)
    async def unreadable(_: Request, error: RequestValidationError) -> Response:
        found = [
            {"where": ".".join(map(str, one["loc"][1:])), "what": str(one["msg"])}
            for one in error.errors()
        ]
        return refused(422, found)

    @app.exception_handler(Busy)
    @app.exception_handler(TooLong)
    async def busy(_: Request, error: Exception) -> Response:
        return refused(503, [{"where": "", "what": str(error)}])
