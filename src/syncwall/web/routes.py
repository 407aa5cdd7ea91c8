"""The routes of the pages.

Holds `ROUTERS`, one for each page, and `EntryKind`.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field

from syncwall.web.answers import (
    accuracy,
    catalogue,
    fabric,
    findings,
    job,
    plan,
    prediction,
    step,
    step_collective,
    step_pipeline,
    timeline,
    wall,
)
from syncwall.web.asked import Asked, AskedJob, AskedRun
from syncwall.web.desk import PROBLEMS, AtDesk

MOST: Final = 2**20
"""GPUs to which the curves of a run may go."""
SEARCH_S: Final = 120.0
"""Seconds that a search may take."""
_ACCURACY_S: Final = 180.0
_FINDINGS_S: Final = 30.0
_MOVES_S: Final = 30.0
_NEXT_S: Final = 30.0

EntryKind = Literal["device", "link", "cluster", "model", "switch", "framework", "failure", "price"]
_Entry = Annotated[str, Path(max_length=100, description="As in the list.", examples=["h100-sxm"])]
_Finding = Annotated[
    str, Path(max_length=200, description="An id of the list.", examples=["four-workers"])
]


def _router(page: str) -> APIRouter:
    return APIRouter(prefix="/api", tags=[page], responses=PROBLEMS)


_predict, _wall, _job, _plan = map(_router, ("predict", "wall", "job", "plan"))
_fabric, _accuracy, _catalogue = map(_router, ("fabric", "accuracy", "catalogue"))
_findings, _step = map(_router, ("findings", "step"))
ROUTERS: Final = (
    _predict, _wall, _job, _plan, _fabric, _accuracy, _catalogue, _findings, _step,
)  # fmt: skip


class AskedText(Asked):
    """Something pasted."""

    text: Annotated[str, Field(max_length=60_000)] = Field(
        description="A run file (YAML), a model, or a Hugging Face config.json."
    )


@_predict.get("/options", summary="What can be chosen")
async def offered(desk: AtDesk) -> Response:
    """Models, clusters and frameworks of the catalogue."""
    return await desk.answer(prediction.options)


@_predict.post("/paste", summary="Read a pasted model or run")
async def read(asked: AskedText, desk: AtDesk) -> Response:
    """The keys of a run that the text states."""
    return await desk.answer(prediction.pasted, asked.text)


@_predict.post("/predict", summary="Predict a training step")
async def predict(asked: AskedRun, desk: AtDesk) -> Response:
    """Step time with its interval, MFU, memory by cause, the ledger, and what it rests on."""
    return await desk.answer(prediction.predicted, asked)


@_predict.post("/next", summary="What to change")
async def next_steps(asked: AskedRun, desk: AtDesk) -> Response:
    """The single changes of the layout that save most, each predicted, not guessed."""
    return await desk.answer(prediction.next_steps, asked, later=True)


@_predict.post("/export/{kind}", summary="A prediction as a file")
async def exported(kind: prediction.ExportKind, asked: AskedRun, desk: AtDesk) -> Response:
    """A run file, JSON as `predict --json` prints it, a Perfetto trace, or a report, as text."""
    return await desk.answer(prediction.exported, kind, asked, later=True)


@_predict.post("/timeline", summary="One micro batch in time", name="drawn")
async def timeline_drawn(asked: AskedRun, desk: AtDesk) -> Response:
    """Every operation and wait of the last micro batch and the optimizer step, in columns."""
    return await desk.answer(timeline.timeline, asked, later=True)


class Way(StrEnum):
    """What stays when GPUs are added."""

    STRONG = "strong"
    WEAK = "weak"


class AskedMoves(Asked):
    """A run that may grow."""

    run: AskedRun
    most: Annotated[int, Field(ge=1, le=MOST)] = Field(
        MOST, description="GPUs to which curves go.", examples=[65536]
    )


class AskedWall(AskedMoves):
    """A run that may grow, and others to compare it with."""

    scaling: Way = Field(
        Way.STRONG, description="strong: the global batch stays; weak: that of a replica does."
    )
    others: Annotated[list[AskedRun | dict[str, Any]], Field(max_length=5)] = Field(
        default_factory=list,
        description="The same on another cluster or in another layout; what is wrong with one of "
        "them stands in its place in the answer.",
    )


@_wall.post("/wall", summary="Scaling curves and their walls")
async def curves(asked: AskedWall, desk: AtDesk) -> Response:
    """Speed, efficiency and ledger over GPU counts; where efficiency falls, and why."""
    return await desk.answer(wall.compared, asked.run, asked.others, asked.most, str(asked.scaling))


@_wall.post("/wall/moves", summary="What moves the wall")
async def moved(asked: AskedMoves, desk: AtDesk) -> Response:
    """The walls with a faster network, a larger batch, another layout, ...: the model run again."""
    return await desk.answer(wall.moves, asked.run, asked.most, limit_s=_MOVES_S, later=True)


@_job.get("/job/options", summary="What can be chosen for a job", name="offered")
async def job_offered(desk: AtDesk) -> Response:
    """Studies of failures and prices of the catalogue."""
    return await desk.answer(job.job_options)


@_job.post("/job", summary="When a job will be done")
async def played(asked: AskedJob, desk: AtDesk) -> Response:
    """Finish with its spread, bill, goodput and checkpoints of a job played through many times."""
    return await desk.answer(job.played, asked)


@_job.post("/job/next", summary="What to change in a job")
async def changed(asked: AskedJob, desk: AtDesk) -> Response:
    """Single changes that make it end sooner or cost less, each played through."""
    return await desk.answer(job.next_changes, asked, limit_s=_NEXT_S, later=True)


class AskedComparison(Asked):
    """Runs to lay side by side."""

    runs: Annotated[list[AskedRun], Field(min_length=2, max_length=5)] = Field(
        description="The others are compared with the first."
    )


@_plan.post("/plan", summary="Search all layouts", response_class=Response)
async def search(asked: plan.Search, desk: AtDesk) -> Response:
    """The best layouts of a model on a cluster: all that are possible are evaluated.

    Lines of JSON (application/x-ndjson): `{"progress": 0.4}` again and again, at last
    `{"answer": ...}` or `{"problems": [...]}`. Closing the connection ends the search.
    """
    return desk.streams.streamed(plan.searched, asked, limit_s=SEARCH_S)


@_plan.post("/compare", summary="Lay runs side by side")
async def compare(asked: AskedComparison, desk: AtDesk) -> Response:
    """The ledger of each run, and where it spends more or less time than the first."""
    return await desk.answer(plan.compared, asked.runs, later=True)


@_fabric.get("/fabric/switches", summary="Switches of the catalogue", name="offered")
async def fabric_offered(desk: AtDesk) -> Response:
    """Names, ports and rates."""
    return await desk.answer(fabric.switches)


@_fabric.post("/fabric", summary="A run on a fabric, narrower or broken", name="drawn")
async def fabric_drawn(asked: fabric.AskedFabric, desk: AtDesk) -> Response:
    """Switches and cables, the traffic of each axis, and the step beside the healthy one."""
    return await desk.answer(fabric.fabric, asked)


@_accuracy.get("/accuracy", summary="Published runs beside predictions", response_class=Response)
async def published(desk: AtDesk) -> Response:
    """Every published run with its prediction, interval and source.

    Lines of JSON (application/x-ndjson): `{"progress": 0.4}` while all runs are predicted, which is
    done once for all visitors, and at last `{"answer": ...}`.
    """
    return desk.streams.shared("accuracy", accuracy.accuracy, limit_s=_ACCURACY_S)


@_catalogue.get("/catalogue", summary="All entries of the catalogue")
async def listed(desk: AtDesk) -> Response:
    """Devices, links, clusters, models, switches, frameworks, failure rates and prices."""
    return await desk.answer(catalogue.listed)


@_catalogue.get("/catalogue/{kind}/{name}", summary="One entry of the catalogue")
async def shown(kind: EntryKind, name: _Entry, desk: AtDesk) -> Response:
    """Every number of an entry with its trust, source and date."""
    return await desk.answer(catalogue.shown, kind, name)


@_findings.get("/findings", summary="Recorded experiments", name="listed")
async def findings_listed(desk: AtDesk) -> Response:
    """Results of `lab run` and `measure`: those of syncwall, and those of `serve --findings`."""
    return await desk.answer(findings.listed, desk.findings, limit_s=_FINDINGS_S)


@_findings.get("/findings/{name}", summary="One recorded experiment", name="shown")
async def finding_shown(name: _Finding, desk: AtDesk) -> Response:
    """The whole article: headings, paragraphs, tables and drawings (SVG) in order."""
    return await desk.answer(findings.shown, desk.findings, name, limit_s=_FINDINGS_S)


@_step.post("/step", summary="A data-parallel step, worker by worker", name="step")
async def step_drawn(asked: step.AskedStep, desk: AtDesk) -> Response:
    """When each worker computes, exchanges and waits in the last micro batch of a step."""
    return await desk.answer(step.team_step, asked)


@_step.post("/step/collective", summary="Ring and tree all-reduce, step by step")
async def exchanged(asked: step_collective.AskedCollective, desk: AtDesk) -> Response:
    """Who sends what to whom, and how long the prediction says that it takes."""
    return await desk.answer(step_collective.collective, asked)


@_step.post("/step/pipeline", summary="A 1F1B pipeline in time")
async def piped(asked: step_pipeline.AskedPipeline, desk: AtDesk) -> Response:
    """Which stage works on which micro batch, and where it waits."""
    return await desk.answer(step_pipeline.pipeline, asked)
