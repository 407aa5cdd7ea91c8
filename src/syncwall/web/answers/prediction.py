"""The Predict page: its form, its numbers, what to change, and the same as files.

Holds `options`, `pasted` and its `AskedText`, `predicted` (with `layout_fields`, a layout as an
address writes it), `prediction_of`, which remembers what was just predicted, `next_steps`,
`ExportKind` and `exported`. A proposal changes one thing; what the user left open stays open beside
it.
"""

import json
from collections.abc import Callable
from enum import StrEnum
from functools import cache, lru_cache
from typing import Annotated, Any, Final, TypeVar

import yaml
from pydantic import Field

from syncwall import catalogue
from syncwall.answer import Prediction, predict
from syncwall.answer.improvements import Improvement, improvements, with_more_nodes
from syncwall.answer.timeline import interval_count
from syncwall.catalogue import CatalogueKind
from syncwall.describe import Model, Run, lookup
from syncwall.describe.base import Description
from syncwall.describe.choice import Dtype
from syncwall.describe.job_file import run_part
from syncwall.describe.names import only_catalogue
from syncwall.describe.reading import validated
from syncwall.documents import Document, parse_document
from syncwall.problems import InputError
from syncwall.show.records.interface import json_text, plain
from syncwall.show.records.prediction import prediction_record, step_record
from syncwall.show.words.layout import run_words
from syncwall.show.words.prediction import assumed, evidence, why
from syncwall.web.asked import Asked, AskedRun

MOST_EVENTS: Final = 30_000
"""Intervals of a trace, about 16 MB; more are refused before any is made."""


def predicted(asked: AskedRun) -> dict[str, Any]:
    """Step time with its interval, MFU, memory by cause, the ledger, and what it rests on."""
    prediction = prediction_of(asked)
    run = prediction.run
    return {
        **plain(step_record(prediction)),
        "what": run_words(run),
        "why": why(prediction),
        "evidence": evidence(prediction),
        "assumed": assumed(prediction),
        "gpus": run.gpus,
        "nodes": run.nodes,
        "gpus_per_node": run.gpus_per_node,
        "seq": run.seq,
        "memory_size_bytes": float(run.cluster.device.memory.size_bytes),
        "model": run.model.title or run.model.name,
        "parameters": run.model.parameters,
        "cluster": run.cluster.title or run.cluster.name,
        "device": run.cluster.device.title or run.cluster.device.name,
        "layout": layout_fields(run),
    }


def layout_fields(run: Run) -> dict[str, Any]:
    """Every field of the layout, under the name that carries its unit."""
    return {name: plain(getattr(run.layout, name)) for name in type(run.layout).model_fields}


def prediction_of(asked: AskedRun) -> Prediction:
    """What is predicted for the run that was asked for."""
    return _predicted(asked.model_dump_json())


@lru_cache(maxsize=64)
def _predicted(text: str) -> Prediction:
    return predict(AskedRun.model_validate_json(text).run())


_NEXT: Final = 5


def next_steps(asked: AskedRun) -> dict[str, Any]:
    """The single changes of the layout that save most, each predicted, not guessed.

    Each with the fields to set (null: leave open). `more`: what more nodes bring, where no change
    of the layout helps.
    """
    prediction = prediction_of(asked)
    best = [_proposal(asked, prediction, one) for one in improvements(prediction, _NEXT)]
    more = None if best else _more_nodes(asked, prediction)
    return {"step_s": prediction.step_s, "fits": prediction.fits, "next": best, "more": more}


def _more_nodes(asked: AskedRun, prediction: Prediction) -> dict[str, Any] | None:
    """Twice the nodes, or more, if the step then gets shorter."""
    one = next((one for one in with_more_nodes(prediction) if one.fits), None)
    return _proposal(asked, prediction, one) if one and one.gained_s > 0 else None


def _proposal(asked: AskedRun, now: Prediction, one: Improvement) -> dict[str, Any]:
    fields = one.fields or {"dp": None, "shard_degree": None}
    if asked.layout.get("global_batch") is None:  # else it would follow the replicas
        fields = {**fields, "global_batch": int(one.run.layout.global_batch)}
    return {
        "change": one.change,
        "gained_s": one.gained_s,
        "memory_bytes": one.memory_bytes,
        **_size(now.run, one.run),
        "layout": {name: plain(value) for name, value in fields.items()},
    }


def _size(before: Run, after: Run) -> dict[str, int | None]:
    """Nodes, and how much of each is used, if they change; else null."""
    grows = after.nodes != before.nodes
    parts = grows and after.gpus_per_node < after.cluster.node.gpus
    return {
        "nodes": int(after.nodes) if grows else None,
        "gpus_per_node": int(after.gpus_per_node) if parts else None,
    }


@cache
def options() -> dict[str, Any]:
    """Models, clusters and frameworks of the catalogue, and what a field may be."""
    models = [lookup.model(name) for name in catalogue.names(CatalogueKind.MODEL)]
    clusters = [lookup.cluster(name) for name in catalogue.names(CatalogueKind.CLUSTER)]
    frameworks = [lookup.framework(name) for name in catalogue.names(CatalogueKind.FRAMEWORK)]
    return {
        "models": [
            {
                "name": one.name,
                "title": one.title,
                "parameters": one.parameters,
                "active": one.parameter_count.active,
                "train_seq": one.train_seq,
            }
            for one in models
        ],
        "clusters": [
            {
                "name": one.name,
                "title": one.title,
                "device": one.device.name,
                "gpus_per_node": one.gpus_per_node,
                "built_nodes": one.built_nodes,
            }
            for one in clusters
        ],
        "frameworks": [{"name": one.name, "title": one.title} for one in frameworks],
        "precisions": [str(dtype) for dtype in Dtype],
    }


SEQ: Final = 8192
"""Tokens in a sequence where a pasted model says nothing: what most models are trained with."""
Described = TypeVar("Described", bound=Description)


class AskedText(Asked):
    """Something pasted."""

    longest = 60_000
    text: Annotated[str, Field(max_length=longest)] = Field(
        description="A run file (YAML), a model, or a Hugging Face config.json."
    )


def pasted(asked: AskedText) -> dict[str, Any]:
    """The keys of a run that the text states; what is wrong has a line and a column."""
    document = run_part(parse_document(asked.text, "pasted"))
    if not isinstance(document.value, dict):
        raise InputError([document.problem((), "write `key: value` lines, or JSON")])
    if {"model", "cluster"} <= set(document.value):
        _refuse_wrong(document, Run)
        return {"run": document.value}
    if set(document.value) <= set(Run.model_fields):
        return {"run": document.value}
    return {"run": _of_model(document)}


def _of_model(document: Document) -> dict[str, Any]:
    """A model in place, with a length of sequences if it says none; the form shows it."""
    found = Model.prepared(document)
    model = _refuse_wrong(found, Model)
    run: dict[str, Any] = {"model": {"name": "pasted", **found.value}}
    if model.train_seq is None:
        run["seq"] = min(model.max_seq or SEQ, SEQ)
    return run


def _refuse_wrong(document: Document, described: type[Described]) -> Described:
    with only_catalogue():
        return validated(document, described)


def run_file(asked: AskedRun) -> str:
    """What was asked, as a run file."""
    asked.run()
    text: str = yaml.safe_dump(asked.fields(), sort_keys=False, allow_unicode=True)
    return text


def as_json(asked: AskedRun) -> str:
    """What `syncwall predict --json` prints."""
    prediction = prediction_of(asked)
    return json_text("predict", prediction_record(prediction, improvements(prediction)))


def as_trace(asked: AskedRun) -> str:
    """One micro batch for Perfetto; so many intervals that nobody could load them are refused."""
    prediction = prediction_of(asked)
    count = interval_count(prediction)
    if count > MOST_EVENTS:
        said = f"{count:,} intervals in one micro batch are too many for a file (at most "
        raise InputError.of(
            f"{said}{MOST_EVENTS:,}): `syncwall predict --timeline FILE` writes them"
        )
    return json.dumps(prediction.timeline().trace())


def as_page(asked: AskedRun) -> str:
    """What `syncwall report run.yaml --html` writes."""
    from syncwall.report.answered import answered
    from syncwall.report.stated import ReportRequest
    from syncwall.show.views.article import article
    from syncwall.show.write.html import page

    return page(article([answered(ReportRequest("run.yaml", run_file(asked), asked.run()))]))


class ExportKind(StrEnum):
    """Kinds of files."""

    YAML = "yaml"
    JSON = "json"
    PERFETTO = "perfetto"
    HTML = "html"


_MADE: Final[dict[ExportKind, Callable[[AskedRun], str]]] = {
    ExportKind.YAML: run_file,
    ExportKind.JSON: as_json,
    ExportKind.PERFETTO: as_trace,
    ExportKind.HTML: as_page,
}


def exported(kind: ExportKind, asked: AskedRun) -> str:
    """The text of a file of this kind."""
    return _MADE[kind](asked)
