"""The whole application: pages with navigation around the body of each, and routes.

Holds `application`, `Options`, and `PAGES`, `page` and `address` of the pages.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

from syncwall import __version__
from syncwall.cause import LEAST_SHARE, Cause
from syncwall.hosts import LOOPBACK
from syncwall.show.words.terms import named
from syncwall.show.write.html import filled
from syncwall.web.desk import Desk
from syncwall.web.guard import Guard
from syncwall.web.refusals import add_refusals
from syncwall.web.routes import ROUTERS
from syncwall.web.streams import Streams
from syncwall.web.workers import Workers

PAGES: Final = {
    "predict": "Predict",
    "program": "Your program",
    "explain": "Explain",
    "wall": "Sync wall",
    "step": "How a step works",
    "fabric": "Fabric",
    "job": "Job",
    "plan": "Plan",
    "accuracy": "Accuracy",
    "catalogue": "Catalogue",
    "findings": "Findings",
    "live": "Live",
    "api": "API",
}
"""Every page by the name of its files, and what it is called; the first stands at `/`."""


@cache
def page(name: str) -> str:
    """The whole page `name`."""
    parts = {
        "title": escape(PAGES[name]),
        "nav": "".join(_entry(other, other == name) for other in PAGES),
        "body": filled(_text(name), {part: _text(part) for part in ("verdict", "taken")}),
        "name": name,
        "version": escape(__version__),
    }
    return filled(_text("shell"), parts)


def _text(name: str) -> str:
    """A page, the shell around it, or a part that several have."""
    return (
        files("syncwall.web").joinpath("pages", f"{name}.html").read_text(encoding="utf-8").strip()
    )


def address(name: str) -> str:
    """Path of a page."""
    return "/" if name == next(iter(PAGES)) else f"/{name}"


def _entry(name: str, here: bool) -> str:
    current = ' aria-current="page"' if here else ""
    return f'<a href=".{address(name)}" data-page="{name}"{current}>{escape(PAGES[name])}</a>'


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
    origins: frozenset[str] = frozenset()
    """Names of a proxy as browsers see them, with the port if there is one."""
    root: str = ""
    """Path under which a proxy serves the pages."""
    findings: tuple[Path, ...] = ()
    """Folders with results to show on the Findings page."""
    files: Path | None = None
    """Folder whose files may be explained on the Explain page."""
    processes: int | None = None


def application(options: Options = Options(), streams: Streams | None = None) -> Guard:  # noqa: B008 - frozen
    """The application behind its guard; `streams` is where its long work runs."""
    streams = streams or Streams()

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        workers = Workers(options.processes)
        app.state.desk = Desk(workers, streams, options.findings, options.files)
        await workers.warm()
        yield
        streams.close()
        workers.close()

    app = FastAPI(
        title="syncwall", version=__version__, description=_ABOUT, lifespan=living,
        docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", redirect_slashes=False,
        servers=[{"url": options.root}] if options.root else None,
    )  # fmt: skip
    for router in ROUTERS:
        app.include_router(router)
    _add_pages(app)
    add_refusals(app)
    return Guard(app, options.names, options.token, origins=options.origins, root=options.root)


def _add_pages(app: FastAPI) -> None:
    static = str(files("syncwall.web").joinpath("static"))
    app.add_route("/static/plotly.js", _plotly, name="plotly")
    app.add_route("/static/chart.css", _chart_rules, name="chart")
    app.add_route("/static/cause_list.js", _cause_list, name="causes")
    app.add_route("/static/term_list.js", _term_list, name="terms")
    app.mount("/static", StaticFiles(directory=static), name="static")
    for name in PAGES:
        app.add_route(address(name), _shown(name), name=name)


def _shown(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def shown(_: Request) -> Response:
        return HTMLResponse(page(name), headers={"cache-control": "no-cache"})

    return shown


async def _chart_rules(_: Request) -> Response:
    """The rules of the drawings of reports without their colours, for what is in `.finding`."""
    rules = files("syncwall.show.draw").joinpath("chart.css").read_text(encoding="utf-8")
    inside = rules[rules.index("svg text") :]
    return Response(f".finding {{\n{inside}}}\n", media_type="text/css")


async def _cause_list(_: Request) -> Response:
    """Every cause, in order, so that pages need no list of their own."""
    names = ("kind", "title", "colour", "moved")
    causes = [{"key": one} | {name: getattr(one, name) for name in names} for one in Cause]
    return _script(CAUSES=causes, LEAST_SHARE=LEAST_SHARE)


async def _term_list(_: Request) -> Response:
    """What words mean, by each of their names."""
    return _script(TERMS={name: one.meaning for name, one in named().items()})


def _script(**known: Any) -> Response:
    """A script module with these constants."""
    lines = (f"export const {name} = {json.dumps(value)};\n" for name, value in known.items())
    headers = {"cache-control": "no-cache"}
    return Response("".join(lines), media_type="text/javascript", headers=headers)


async def _plotly(_: Request) -> Response:
    """Plotly's script, as the Python package brings it."""
    found = find_spec("plotly")
    assert found is not None  # a dependency of the extra
    assert found.origin is not None
    script = Path(found.origin).parent / "package_data" / "plotly.min.js"
    return FileResponse(script, media_type="text/javascript")
