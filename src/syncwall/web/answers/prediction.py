"""The Predict page: its form, its numbers, what to change, and the same as files.

Holds `options`, `predicted` (with `layout_fields`, a layout as an
address writes it), `prediction_of`, which remembers what was just predicted, `next_steps`,
and `exported`. A proposal changes one thing; what the user left open stays open beside
it.
"""

import json
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

import yaml

from syncwall import catalogue
from syncwall.answer import Prediction, predict
from syncwall.answer.improvements import Improvement, improvements, with_more_nodes
from syncwall.answer.timeline import interval_count
from syncwall.catalogue import CatalogueKind
from syncwall.describe import Run, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.settings.formats import formats
from syncwall.problems import InputError
from syncwall.records import json_text, plain
from syncwall.show.layout import run_words
from syncwall.show.prediction import assumed, evidence, why
from syncwall.web.asked import AskedRun
from syncwall.web.questions import ExportKind

MOST_EVENTS: Final = 30_000
"""Intervals of a trace, about 16 MB; more are refused before any is made."""


def predicted(asked: AskedRun) -> dict[str, Any]:
    """Step time with its interval, MFU, memory by cause, the ledger, and what it rests on."""
    prediction = prediction_of(asked)
    run = prediction.run
    return {
        **plain(prediction.step),
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

    Each with the fields to set (null: leave open) and what is then chosen otherwise (`also`).
    `more`: what more nodes bring, where no change of the layout helps or the run does not fit.
    """
    prediction = prediction_of(asked)
    best = [_proposal(asked, prediction, one) for one in improvements(prediction, _NEXT)]
    grows = any(one["nodes"] for one in best)
    more = _more_nodes(asked, prediction) if not best or not (prediction.fits or grows) else None
    return {"step_s": prediction.step_s, "fits": prediction.fits, "next": best, "more": more}


def _more_nodes(asked: AskedRun, prediction: Prediction) -> dict[str, Any] | None:
    """Twice the nodes, or more, if it then fits or the step gets shorter."""
    one = next((one for one in with_more_nodes(prediction) if one.fits), None)
    useful = one is not None and (one.gained_s > 0 or not prediction.fits)
    return _proposal(asked, prediction, one) if one is not None and useful else None


def _proposal(asked: AskedRun, now: Prediction, one: Improvement) -> dict[str, Any]:
    fields = one.fields or {"dp": None, "shard_degree": None}
    if asked.layout.get("global_batch") is None:  # else it would follow the replicas
        fields = {**fields, "global_batch": int(one.run.layout.global_batch)}
    return {
        "change": one.change,
        "gained_s": one.gained_s,
        "memory_bytes": one.memory_bytes,
        "also": {name: plain(value) for name, value in one.also.items()},
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


_SIZE: Final = re.compile(
    r"[\s-]*\(?\d[\d.x]*\s?[BMT]\b.*|[\s-](small|medium|large|xl|mini)$", re.IGNORECASE
)


def _family(title: str) -> str:
    """What models of several sizes have in common: "Llama 3.1" of "Llama 3.1 70B"."""
    return "Small, for experiments" if title.startswith("A ") else _SIZE.sub("", title) or title


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
                "title": one.title or one.name,
                "family": _family(one.title or one.name),
                "aliases": one.aliases,
                "parameters": one.parameters,
                "active": one.parameter_count.active,
                "train_seq": one.train_seq,
            }
            for one in sorted(
                models, key=lambda one: (_family(one.title or one.name).lower(), one.parameters)
            )
        ],
        "clusters": [
            {
                "name": one.name,
                "title": one.title or one.name,
                "aliases": one.aliases,
                "device": one.device.name,
                "device_title": one.device.title or one.device.name,
                "gpus_per_node": one.gpus_per_node,
                "built_nodes": one.built_nodes,
            }
            for one in sorted(
                clusters, key=lambda one: (one.device.title or one.device.name, one.name)
            )
        ],
        "frameworks": [{"name": one.name, "title": one.title} for one in frameworks],
        "precisions": [str(dtype) for dtype in Dtype],
        "settings": {name: one.title for name, one in formats().items()},
    }


def run_file(asked: AskedRun) -> str:
    """What was asked, as a run file."""
    asked.run()
    text: str = yaml.safe_dump(asked.fields(), sort_keys=False, allow_unicode=True)
    return text


def as_json(asked: AskedRun) -> str:
    """What `syncwall predict --json` prints."""
    return json_text(prediction_of(asked).to_dict())


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
    from syncwall.report import ReportRequest, answered
    from syncwall.show.article import article
    from syncwall.show.write.files import page

    return page(article([answered(ReportRequest("run.yaml", run_file(asked), asked.run()))]))


_MADE: Final[dict[ExportKind, Callable[[AskedRun], str]]] = {
    ExportKind.YAML: run_file,
    ExportKind.JSON: as_json,
    ExportKind.PERFETTO: as_trace,
    ExportKind.HTML: as_page,
}


def exported(kind: ExportKind, asked: AskedRun) -> str:
    """The text of a file of this kind."""
    return _MADE[kind](asked)
