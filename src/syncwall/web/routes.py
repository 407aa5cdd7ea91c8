"""The routes of the pages, and what every route needs.

Names are those of the visitor without folders; what is sent is never kept longer than somebody
waits for the answer.

Most routes take one thing that is asked and answer with one function, by its name in `answers`; its
docstring is what the API says about the route.
"""

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import python_multipart  # noqa: F401 - what FastAPI reads forms with; said to be missing at once
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi import Path as FastapiPath
from fastapi.responses import Response
from pydantic import BaseModel

from syncwall.ask.verbs import ON_PAGES, question_type
from syncwall.problems import InputError
from syncwall.web.answers import answer_named
from syncwall.web.assets import sent, shipped_accuracy
from syncwall.web.event_streams import Streams
from syncwall.web.guard import MAX_BODY_BYTES
from syncwall.web.questions import (
    Asked,
    AskedBeside,
    AskedCollective,
    AskedComparison,
    AskedFabric,
    AskedFlows,
    AskedFolder,
    AskedJob,
    AskedMoves,
    AskedOutcome,
    AskedPipeline,
    AskedProgram,
    AskedPublished,
    AskedQuestion,
    AskedRun,
    AskedSettings,
    AskedStep,
    AskedText,
    AskedWall,
    AskedWiring,
    ExportKind,
    Search,
)
from syncwall.web.workers import Answer, Busy, Workers

AT_ONCE: Final = 2
"""Visitors that may send files at the same time."""
MOST_FILES: Final = 1100
"""Of one visitor: a trace for each of a thousand ranks, and some logs."""


@dataclass
class Sent:
    """What one visitor sent: files in folders by the name of their field, and texts."""

    folder: Path
    texts: dict[str, str] = field(default_factory=dict)
    is_kept: bool = False
    """True once somebody else will `remove` it."""

    def remove(self) -> None:
        """Delete all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Uploads:
    """All that is being sent."""

    def __init__(self) -> None:
        self._open = 0

    @asynccontextmanager
    async def received(self, request: Request) -> AsyncIterator[Sent]:
        """The parts of a form, on disk; removed at the end unless they are to be kept."""
        if self._open >= AT_ONCE:
            raise Busy(f"{AT_ONCE} others send files already: try again in a minute")
        self._open += 1
        sent = Sent(Path(tempfile.mkdtemp(prefix="syncwall-sent-")))
        try:
            async with request.form(max_files=MOST_FILES, max_fields=20) as form:
                for name, value in form.multi_items():
                    if isinstance(value, str):
                        sent.texts[name] = value
                    else:
                        await asyncio.to_thread(_write, sent.folder, name, value)
            yield sent
        finally:
            self._open -= 1
            if not sent.is_kept:
                sent.remove()


def _write(folder: Path, field_name: str, upload: Any) -> None:
    if field_name not in ("files", "against"):
        raise InputError.of(f"files are sent as `files` or `against`, not as {field_name[:40]!r}")
    home = folder / field_name
    home.mkdir(exist_ok=True)
    given = re.sub(r"[^\w.+-]", "_", Path(upload.filename or "file").name)[-120:].lstrip(".")
    name, number = given or "file", 1
    while (home / name).exists():
        number += 1
        name = f"{number}-{given}"
    with (home / name).open("wb") as file:
        shutil.copyfileobj(upload.file, file, 1 << 20)


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


SEARCH_S: Final = 120.0
"""Seconds that a search may take."""
_LONG_S: Final = 30.0
_FILES_S: Final = 120.0
"""Seconds that reading files may take."""

EntryKind = Literal["device", "link", "cluster", "model", "switch", "framework", "failure", "price"]
_Entry = Annotated[str, FastapiPath(max_length=100, description="As in the list.", examples=["h100-sxm"])]
_Finding = Annotated[
    str, FastapiPath(max_length=200, description="An id of the list.", examples=["four-workers"])
]
_Published = Annotated[
    str, Query(max_length=300, description="An id of the list.", examples=["mlperf-v3.0-NVIDIA"])
]


def _router(page: str) -> APIRouter:
    return APIRouter(prefix="/api", tags=[page], responses=PROBLEMS)


_predict, _wall, _job, _plan = map(_router, ("predict", "wall", "job", "plan"))
_fabric, _accuracy, _catalogue = map(_router, ("fabric", "accuracy", "catalogue"))
_findings, _step, _program, _live = map(_router, ("findings", "step", "program", "live"))
_explain, _asking = map(_router, ("explain", "ask"))
ROUTERS: Final = (
    _predict,
    _wall,
    _job,
    _plan,
    _fabric,
    _accuracy,
    _catalogue,
    _findings,
    _step,
    _program,
    _explain,
    _live,
    _asking,
)


_ANSWERS: Final[dict[str, str]] = {}
"""By path, what answers there."""


def _get(router: APIRouter, path: str, summary: str, name: str) -> None:
    """The function called `name` has the answer."""

    async def answer(desk: AtDesk) -> Response:
        return await desk.answer(name)

    _ANSWERS[router.prefix + path] = name
    router.get(path, summary=summary)(answer)


def _post(router: APIRouter, path: str, summary: str, asked: type[Asked], name: str, **how: Any) -> None:
    """The function called `name` answers what is asked; `how` is for the desk."""

    async def answer(asked: Asked, desk: AtDesk) -> Response:
        return await desk.answer(name, asked, **how)

    answer.__annotations__["asked"] = asked
    _ANSWERS[router.prefix + path] = name
    router.post(path, summary=summary)(answer)


def schema(app: FastAPI) -> dict[str, Any]:
    """All routes of `app` as OpenAPI, with what the answers say of themselves: loads them all."""
    document = app.openapi()
    for path, name in _ANSWERS.items():
        for operation in document["paths"][path].values():
            operation["description"] = getdoc(answer_named(name))
    for verb in ON_PAGES:
        operation = document["paths"][f"{_asking.prefix}/ask/{verb.replace(' ', '/')}"]["post"]
        body = {"schema": question_type(verb).model_json_schema()}
        operation["requestBody"]["content"]["application/json"] = body
    return document


def _ask(verb: str) -> None:
    """The question of a verb, as Python and the terminal ask it."""

    async def answer(asked: AskedQuestion, desk: AtDesk) -> Response:
        limit_s = SEARCH_S if verb == "plan layouts" else _LONG_S
        return await desk.answer("asking.answered", verb, asked, limit_s=limit_s, later=True)

    path = f"/ask/{verb.replace(' ', '/')}"
    _ANSWERS[_asking.prefix + path] = "asking.answered"
    _asking.post(path, summary=f"What `syncwall {verb}` answers")(answer)


for _verb in ON_PAGES:
    _ask(_verb)
_get(_predict, "/options", "What can be chosen", "prediction.options")
_post(_predict, "/paste", "Read a pasted model, run or settings", AskedText, "pasted.pasted")
_post(_predict, "/predict", "Predict a training step", AskedRun, "prediction.predicted")
_post(_predict, "/beside", "A run beside a pinned one", AskedBeside, "prediction.beside")
_post(_predict, "/next", "What to change", AskedRun, "prediction.next_steps", later=True)
_post(_predict, "/fixes", "What would make a run possible", AskedRun, "prediction.fixes", later=True)
_post(_predict, "/timeline", "One micro batch in time", AskedRun, "prediction.timeline", later=True)
_post(_wall, "/wall", "Scaling curves and their walls", AskedWall, "wall.compared")
_post(
    _wall,
    "/wall/moves",
    "What moves the wall",
    AskedMoves,
    "wall.moves",
    limit_s=_LONG_S,
    later=True,
)
_post(
    _program,
    "/program",
    "Predict a recorded program",
    AskedProgram,
    "explanation.predicted",
    limit_s=_LONG_S,
)
_get(_job, "/job/options", "What can be chosen for a job", "job.job_options")
_post(_job, "/job", "When a job will be done", AskedOutcome, "job.played")
_post(
    _job,
    "/job/next",
    "What to change in a job",
    AskedJob,
    "job.next_changes",
    limit_s=_LONG_S,
    later=True,
)
_post(_plan, "/compare", "Lay runs side by side", AskedComparison, "plan.compared", later=True)
_post(_plan, "/plan/yours", "The run as it stands, beside a search", Search, "plan.yours")
_post(
    _plan,
    "/settings",
    "A run as settings of a framework",
    AskedSettings,
    "plan.settings",
    later=True,
)
_get(_fabric, "/fabric/switches", "Switches of the catalogue", "fabric.switches")
_post(_fabric, "/fabric", "A run on a fabric, narrower or broken", AskedFabric, "fabric.fabric")
_post(
    _fabric,
    "/fabric/variants",
    "Other ratios, and one part of each kind broken",
    AskedWiring,
    "fabric.variants",
    limit_s=_LONG_S,
    later=True,
)
_post(
    _fabric,
    "/fabric/flows",
    "Flows of a run on links that they share",
    AskedFlows,
    "fabric_flows.flows",
    later=True,
)
_get(_catalogue, "/catalogue", "All entries of the catalogue", "catalogue.listed")
_get(_live, "/live", "Runs that are watched now", "explanation.shown")
_post(_step, "/step", "A data-parallel step, worker by worker", AskedStep, "step.team_step")
_post(
    _step,
    "/step/collective",
    "Ring and tree all-reduce, step by step",
    AskedCollective,
    "step_collective.collective",
)
_post(
    _step,
    "/step/pipeline",
    "A 1F1B pipeline in time",
    AskedPipeline,
    "step_collective.pipeline",
)


@_predict.post("/export/{kind}", summary="A prediction as a file")
async def exported(kind: ExportKind, asked: AskedRun, desk: AtDesk) -> Response:
    """A run file, JSON as `predict --json` prints it, a Perfetto trace, or a report, as text."""
    return await desk.answer("prediction.exported", kind, asked, later=True)


@_plan.post("/plan", summary="Search all layouts", response_class=Response)
async def search(asked: Search, desk: AtDesk) -> Response:
    """The best layouts of a model on a cluster: all that are possible are evaluated.

    Lines of JSON (application/x-ndjson): `{"progress": 0.4, "best": {...}}` again and again, with
    the best so far, at last `{"answer": ...}` or `{"problems": [...]}`. Closing the connection ends
    the search; an answer is kept, so that who asks again has it at once.
    """
    return desk.streams.streamed("plan.searched", asked, limit_s=SEARCH_S, question=asked.text())


@_plan.post("/plan/kept", summary="A search that was done before", response_class=Response)
async def search_kept(asked: Search, desk: AtDesk) -> Response:
    """The answer of `plan` if just this was searched not long ago, else `{"answer": null}`."""
    line = desk.streams.kept(asked.text()) or b'{"answer":null}'
    return Response(line, media_type="application/json")


@_accuracy.get("/accuracy", summary="Published runs beside predictions")
async def published(request: Request) -> Response:
    """Every published run with its prediction, interval and source, as of this release.

    Runs are short lists in the order of `columns`; `published` are the figures of the
    documentation, of more sources than may be passed on.
    """
    return sent(shipped_accuracy(), request)


@_accuracy.get("/accuracy/run", summary="A published run as a run to predict")
async def published_run(name: _Published, desk: AtDesk) -> Response:
    """Model, machine, layout and software of a published run, with the keys of a run file."""
    return await desk.answer("accuracy.as_run", name)


_post(_accuracy, "/accuracy/shown", "Errors of some published runs", AskedPublished, "accuracy.shown")
_post(_accuracy, "/accuracy/alike", "Published runs like one", AskedRun, "accuracy.alike")


@_catalogue.get("/catalogue/{kind}/{name}", summary="One entry of the catalogue")
async def shown(kind: EntryKind, name: _Entry, desk: AtDesk) -> Response:
    """Every number of an entry with its trust, source and date."""
    return await desk.answer("catalogue.shown", kind, name)


@_findings.get("/findings", summary="Recorded experiments")
async def findings_listed(desk: AtDesk) -> Response:
    """Results of `lab run` and `measure`: those of syncwall, and those of `serve --findings`."""
    return await desk.answer("catalogue.listed_findings", desk.findings, limit_s=_LONG_S)


@_findings.get("/findings/{name}", summary="One recorded experiment")
async def finding_shown(name: _Finding, desk: AtDesk) -> Response:
    """The whole article as HTML, the conclusion first; drawings are SVG."""
    return await desk.answer("catalogue.shown_finding", desk.findings, name, limit_s=_LONG_S)


_FILES: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
                        "against": {"type": "array", "items": {"type": "string", "format": "binary"}},
                        "cluster": {"type": "string", "description": "What the hosts should be."},
                        "run": {"type": "string", "description": "A run file, to be laid beside them."},
                    },
                }
            }
        },
    }
}


@_explain.post("/explain", summary="What files say", response_class=Response, openapi_extra=_FILES)
async def files_explained(request: Request, desk: AtDesk) -> Response:
    """Verdict, ledger, why and next of traces, logs, topologies and benchmarks; nothing is kept.

    A form (multipart/form-data) of at most 320 MiB. Lines of JSON (application/x-ndjson):
    `{"progress": 0.4}` again and again, at last `{"answer": ...}` or `{"problems": [...]}`.
    """
    async with desk.uploads.received(request) as sent:
        answer = desk.streams.streamed(
            "explanation.explained_files",
            sent.folder,
            sent.texts,
            limit_s=_FILES_S,
            after=sent.remove,
        )
        sent.is_kept = True
    return answer


@_explain.get("/explain/folder", summary="Files of the server's folder")
async def folder_listed(desk: AtDesk) -> Response:
    """What the folder of `serve --files` holds."""
    return await desk.answer("explanation.listed", desk.files)


@_explain.post("/explain/folder", summary="What these files say", response_class=Response)
async def folder_explained(asked: AskedFolder, desk: AtDesk) -> Response:
    """The same as `explain`, of a file or folder of the list; lines of JSON as there."""
    return desk.streams.streamed("explanation.explained_folder", desk.files, asked, limit_s=_FILES_S)
