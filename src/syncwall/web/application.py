"""The whole application: pages with navigation around the body of each, words, routes, a socket.

The words are those of `show/terms.yaml`.
"""

import asyncio
import gc
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import Response

from syncwall import __version__
from syncwall.hosts import LOOPBACK
from syncwall.show.terms import Term, terms
from syncwall.show.write.template import filled
from syncwall.web.assets import Asset, assets, digest, sent
from syncwall.web.event_streams import Streams, add_refusals
from syncwall.web.guard import IDLE_S, App, Connection, Guard, Room, most_connections
from syncwall.web.routes import ROUTERS, Desk, desk_of, schema
from syncwall.web.workers import Workers

_ANSWERS: Final = {
    "predict": "How fast will this run be, where does its time go, and what should change?",
    "program": "How fast will my own script be, without a layout that I must describe?",
    "explain": "What do my traces, logs and benchmarks say?",
    "wall": "On how many GPUs does it stop being worth more of them?",
    "step": "What happens in a step, worker by worker?",
    "fabric": "What does the network carry, and what if a part of it breaks?",
    "job": "When is the whole training done, and what does it cost?",
    "plan": "Which of all layouts is the fastest?",
    "accuracy": "How wrong were such predictions on published runs?",
    "catalogue": "Which numbers is all of it made of, and from where?",
    "findings": "What did recorded experiments show?",
    "live": "How is the run that trains now?",
    "api": "How does a program ask?",
}


def page_list(pages: Mapping[str, str]) -> str:
    """Every page with the question that it answers."""
    first = next(iter(pages))
    lines = (
        f'<li><a href="./{"" if name == first else name}" data-page="{name}">{escape(title)}</a>: '
        f"{escape(_ANSWERS[name])}</li>"
        for name, title in pages.items()
    )
    return f"<ul>{''.join(lines)}</ul>"


def glossary() -> str:
    """Every term with its meaning."""
    return f'<dl class="glossary">{"".join(map(_glossary_entry, terms()))}</dl>'


def _glossary_entry(one: Term) -> str:
    also = f' <span class="quiet">{escape(", ".join(one.also))}</span>' if one.also else ""
    formula = f"<br><code>{escape(one.formula)}</code>" if one.formula else ""
    elsewhere = "; ".join(f"{name}: {words}" for name, words in one.elsewhere.items())
    others = f'<br><span class="quiet">{escape(elsewhere)}</span>' if elsewhere else ""
    page = f'<br><span class="quiet">docs/{escape(one.page)}</span>' if one.page else ""
    return f"<dt><b>{escape(one.name)}</b>{also}</dt><dd>{escape(one.meaning)}{formula}{others}{page}</dd>"


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
    shared = {part: _text(part) for part in ("verdict", "taken", "run")}
    return shared | {"assets": f"./static/{digest()}"}


def _text(name: str) -> str:
    """A page, the shell around it, or a part that several have."""
    return files("syncwall.web").joinpath("pages", f"{name}.html").read_text(encoding="utf-8").strip()


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
        title="syncwall",
        version=__version__,
        description=_ABOUT,
        lifespan=living,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        servers=[{"url": options.root}] if options.root else None,
    )
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


BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""
_ACCEPTED: Final = 64
"""Connections that are accepted before the first of them is looked at."""
_END_S: Final = 3
"""What visitors may still read when the server ends."""


def served(options: Options, listening: socket.socket) -> None:
    """Answer on `listening` until Ctrl-C or SIGTERM."""
    streams = Streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that both end alike
    server = Server(application(options, streams), streams)
    gc.freeze()  # so that what a visitor sends never makes all that is loaded be looked through
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


class Server(uvicorn.Server):
    """A server of which no visitor takes all, and that does not wait for searches to end."""

    def __init__(self, app: App, streams: Streams, most: int | None = None) -> None:
        self._streams = streams
        self._room = Room(most or most_connections())
        protocol: Any = partial(Connection, room=self._room)
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_ACCEPTED,
                timeout_keep_alive=int(IDLE_S),
                timeout_graceful_shutdown=_END_S,
                h11_max_incomplete_event_size=64 * 1024,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: close what has waited too long."""
        self._room.look(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> Any:
        """End the searches, then everything."""
        self._streams.close()
        super().handle_exit(sig, frame)
