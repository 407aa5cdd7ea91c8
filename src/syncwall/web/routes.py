"""The routes of the pages.

Holds `ROUTERS`, one for each page, and `EntryKind`. Most routes take one thing that is asked and
answer with one function; its docstring is what the API says about the route.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from syncwall.web.answers import (
    accuracy,
    catalogue,
    explanation,
    fabric,
    findings,
    job,
    live,
    plan,
    prediction,
    program,
    step,
    step_collective,
    step_pipeline,
    timeline,
    wall,
)
from syncwall.web.asked import Asked, AskedJob, AskedRun
from syncwall.web.desk import PROBLEMS, AtDesk

SEARCH_S: Final = 120.0
"""Seconds that a search may take."""
_ACCURACY_S: Final = 180.0
_LONG_S: Final = 30.0
_FILES_S: Final = 120.0
"""Seconds that reading files may take."""

EntryKind = Literal["device", "link", "cluster", "model", "switch", "framework", "failure", "price"]
_Entry = Annotated[str, Path(max_length=100, description="As in the list.", examples=["h100-sxm"])]
_Finding = Annotated[
    str, Path(max_length=200, description="An id of the list.", examples=["four-workers"])
]


def _router(page: str) -> APIRouter:
    return APIRouter(prefix="/api", tags=[page], responses=PROBLEMS)


_predict, _wall, _job, _plan = map(_router, ("predict", "wall", "job", "plan"))
_fabric, _accuracy, _catalogue = map(_router, ("fabric", "accuracy", "catalogue"))
_findings, _step, _program, _live = map(_router, ("findings", "step", "program", "live"))
_explain = _router("explain")
ROUTERS: Final = (
    _predict, _wall, _job, _plan, _fabric, _accuracy, _catalogue, _findings, _step, _program,
    _explain, _live,
)  # fmt: skip


def _get(router: APIRouter, path: str, summary: str, function: Callable[[], Any]) -> None:
    """`function()` is the answer."""

    async def answer(desk: AtDesk) -> Response:
        return await desk.answer(function)

    router.get(path, summary=summary, description=function.__doc__)(answer)


def _post(
    router: APIRouter, path: str, summary: str, asked: type[Asked], function: Callable[..., Any],
    **how: Any,
) -> None:  # fmt: skip
    """`function` of what is asked is the answer; `how` is for the desk."""

    async def answer(asked: Asked, desk: AtDesk) -> Response:
        return await desk.answer(function, asked, **how)

    answer.__annotations__["asked"] = asked
    router.post(path, summary=summary, description=function.__doc__)(answer)


_get(_predict, "/options", "What can be chosen", prediction.options)
_post(
    _predict, "/paste", "Read a pasted model or run", prediction.AskedText, prediction.pasted
)  # fmt: skip
_post(_predict, "/predict", "Predict a training step", AskedRun, prediction.predicted)
_post(_predict, "/next", "What to change", AskedRun, prediction.next_steps, later=True)
_post(_predict, "/timeline", "One micro batch in time", AskedRun, timeline.timeline, later=True)
_post(_wall, "/wall", "Scaling curves and their walls", wall.AskedWall, wall.compared)
_post(
    _wall, "/wall/moves", "What moves the wall", wall.AskedMoves, wall.moves,
    limit_s=_LONG_S, later=True,
)  # fmt: skip
_post(
    _program, "/program", "Predict a recorded program", program.AskedProgram, program.predicted,
    limit_s=_LONG_S,
)  # fmt: skip
_get(_job, "/job/options", "What can be chosen for a job", job.job_options)
_post(_job, "/job", "When a job will be done", AskedJob, job.played)
_post(
    _job, "/job/next", "What to change in a job", AskedJob, job.next_changes,
    limit_s=_LONG_S, later=True,
)  # fmt: skip
_post(
    _plan, "/compare", "Lay runs side by side", plan.AskedComparison, plan.compared, later=True
)  # fmt: skip
_get(_fabric, "/fabric/switches", "Switches of the catalogue", fabric.switches)
_post(
    _fabric, "/fabric", "A run on a fabric, narrower or broken", fabric.AskedFabric, fabric.fabric
)  # fmt: skip
_get(_catalogue, "/catalogue", "All entries of the catalogue", catalogue.listed)
_get(_live, "/live", "Runs that are watched now", live.shown)
_post(_step, "/step", "A data-parallel step, worker by worker", step.AskedStep, step.team_step)
_post(
    _step, "/step/collective", "Ring and tree all-reduce, step by step",
    step_collective.AskedCollective, step_collective.collective,
)  # fmt: skip
_post(
    _step, "/step/pipeline", "A 1F1B pipeline in time",
    step_pipeline.AskedPipeline, step_pipeline.pipeline,
)  # fmt: skip


@_predict.post("/export/{kind}", summary="A prediction as a file")
async def exported(kind: prediction.ExportKind, asked: AskedRun, desk: AtDesk) -> Response:
    """A run file, JSON as `predict --json` prints it, a Perfetto trace, or a report, as text."""
    return await desk.answer(prediction.exported, kind, asked, later=True)


@_plan.post("/plan", summary="Search all layouts", response_class=Response)
async def search(asked: plan.Search, desk: AtDesk) -> Response:
    """The best layouts of a model on a cluster: all that are possible are evaluated.

    Lines of JSON (application/x-ndjson): `{"progress": 0.4}` again and again, at last
    `{"answer": ...}` or `{"problems": [...]}`. Closing the connection ends the search.
    """
    return desk.streams.streamed(plan.searched, asked, limit_s=SEARCH_S)


@_accuracy.get("/accuracy", summary="Published runs beside predictions", response_class=Response)
async def published(desk: AtDesk) -> Response:
    """Every published run with its prediction, interval and source.

    Lines of JSON (application/x-ndjson): `{"progress": 0.4}` while all runs are predicted, which is
    done once for all visitors, and at last `{"answer": ...}`.
    """
    return desk.streams.shared("accuracy", accuracy.accuracy, limit_s=_ACCURACY_S)


@_catalogue.get("/catalogue/{kind}/{name}", summary="One entry of the catalogue")
async def shown(kind: EntryKind, name: _Entry, desk: AtDesk) -> Response:
    """Every number of an entry with its trust, source and date."""
    return await desk.answer(catalogue.shown, kind, name)


@_findings.get("/findings", summary="Recorded experiments")
async def findings_listed(desk: AtDesk) -> Response:
    """Results of `lab run` and `measure`: those of syncwall, and those of `serve --findings`."""
    return await desk.answer(findings.listed, desk.findings, limit_s=_LONG_S)


@_findings.get("/findings/{name}", summary="One recorded experiment")
async def finding_shown(name: _Finding, desk: AtDesk) -> Response:
    """The whole article as HTML, the conclusion first; drawings are SVG."""
    return await desk.answer(findings.shown, desk.findings, name, limit_s=_LONG_S)


_FILES: Final = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": {
            "type": "object",
            "required": ["files"],
            "properties": {
                "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
                "against": {"type": "array", "items": {"type": "string", "format": "binary"}},
                "cluster": {"type": "string", "description": "What the hosts should be."},
                "run": {"type": "string", "description": "A run file, to be laid beside them."},
            },
        }}},
    }
}  # fmt: skip


@_explain.post(
    "/explain", summary="What files say", response_class=Response, openapi_extra=_FILES
)  # fmt: skip
async def files_explained(request: Request, desk: AtDesk) -> Response:
    """Verdict, ledger, why and next of traces, logs, topologies and benchmarks; nothing is kept.

    A form (multipart/form-data) of at most 320 MiB. Lines of JSON (application/x-ndjson):
    `{"progress": 0.4}` again and again, at last `{"answer": ...}` or `{"problems": [...]}`.
    """
    async with desk.uploads.received(request) as sent:
        answer = desk.streams.streamed(
            explanation.explained_files, sent.folder, sent.texts,
            limit_s=_FILES_S, after=sent.remove,
        )  # fmt: skip
        sent.is_kept = True
    return answer


@_explain.get("/explain/folder", summary="Files of the server's folder")
async def folder_listed(desk: AtDesk) -> Response:
    """What the folder of `serve --files` holds."""
    return await desk.answer(explanation.listed, desk.files)


@_explain.post("/explain/folder", summary="What these files say", response_class=Response)
async def folder_explained(asked: explanation.AskedFolder, desk: AtDesk) -> Response:
    """The same as `explain`, of a file or folder of the list; lines of JSON as there."""
    return desk.streams.streamed(
        explanation.explained_folder, desk.files, asked, limit_s=_FILES_S
    )  # fmt: skip
