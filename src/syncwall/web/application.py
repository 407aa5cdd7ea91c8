"""The whole application: pages with navigation around the body of each, and routes.

Holds `application`, `Options`, and `PAGES`, `page` and `address` of the pages.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import Response

from syncwall import __version__
from syncwall.hosts import LOOPBACK
from syncwall.show.write.files import filled
from syncwall.web.assets import Asset, assets, digest, sent
from syncwall.web.desk import Desk, desk_of
from syncwall.web.glossary import glossary, page_list
from syncwall.web.guard import Guard
from syncwall.web.refusals import add_refusals
from syncwall.web.routes import ROUTERS, schema
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
_HELP: Final = "help"
"""A page that others link to, and that is not among those at the top."""
_SCHEMA_S: Final = 30.0
"""Seconds that loading all answers may take."""
_SET: Final = re.compile(r"[0-9a-f]{12}")
"""A digest of assets: those of a page that was opened before an upgrade are answered, too."""


@cache
def page(name: str) -> str:
    """The whole page `name`."""
    parts = {
        "title": escape(PAGES.get(name, "Words and documentation")),
        "nav": "".join(_entry(other, other == name) for other in PAGES),
        "body": filled(_text(name), _parts(name)),
        "name": name,
        "assets": f"./static/{digest()}",
        "version": escape(__version__),
    }
    return filled(_text("shell"), parts)


def _parts(name: str) -> dict[str, str]:
    """What is filled into the body of a page."""
    if name == _HELP:
        return {"terms": glossary(), "pages": page_list(PAGES)}
    shared = {part: _text(part) for part in ("verdict", "taken")}
    return shared | {"assets": f"./static/{digest()}"}


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


def application(options: Options = Options(), streams: Streams | None = None) -> Guard:
    """The application behind its guard; `streams` is where its long work runs."""
    app = _routed(options, streams or Streams())
    return Guard(app, options.names, options.token, origins=options.origins, root=options.root)


def _routed(options: Options, streams: Streams) -> FastAPI:
    """All pages and routes."""

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
        docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False,
        servers=[{"url": options.root}] if options.root else None,
    )  # fmt: skip
    for router in ROUTERS:
        app.include_router(router)
    _add_pages(app)
    add_refusals(app)
    app.add_route("/api/openapi.json", _shown_schema)
    return app


async def _shown_schema(request: Request) -> Response:
    root = (request.app.servers or [{}])[0].get("url", "")
    return await desk_of(request).answer(_schema, root, limit_s=_SCHEMA_S, later=True)


@cache
def _schema(root: str) -> dict[str, Any]:
    """All routes as OpenAPI; in a process that answers, which may load everything."""
    return schema(_routed(Options(root=root), Streams()))


def _add_pages(app: FastAPI) -> None:
    app.add_route("/static/{name:path}", _static, name="static")
    for name in (*PAGES, _HELP):
        app.add_route(address(name), _shown(name), name=name)


def _shown(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def shown(request: Request) -> Response:
        return sent(_whole(name), request)

    return shown


@cache
def _whole(name: str) -> Asset:
    return Asset(page(name).encode(), "text/html; charset=utf-8")


async def _static(request: Request) -> Response:
    """An asset, by its name alone or in the set that a page belongs to."""
    asked = request.path_params["name"]
    first, _, rest = asked.partition("/")
    found = assets().get(rest if _SET.fullmatch(first) else asked)
    if found is None:
        raise HTTPException(404)
    return sent(found, request, is_kept=first == digest())
