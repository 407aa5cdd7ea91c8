"""What somebody pastes into a page, or drops on it: whatever `--from` takes, a run file, a model.

Holds `pasted`, which says what it recognised, what it took and what stayed open.
Files that the text names are those of another machine, and are not looked for.
"""

from pathlib import Path, PurePath
from typing import Any, Final

from syncwall.describe import Cluster, Model, Run
from syncwall.describe.files import RunFile
from syncwall.describe.names import only_catalogue
from syncwall.describe.reading import validated
from syncwall.describe.settings.formats import parsed_text, settings_in, title_of
from syncwall.describe.settings.settings import Settings
from syncwall.describe.stated import StatedRun
from syncwall.documents import Document
from syncwall.problems import InputError, Problem, did_you_mean
from syncwall.records import plain
from syncwall.web.questions import AskedRun, AskedText

SEQ: Final = 8192
"""Tokens in a sequence where a pasted model says nothing: what most models are trained with."""
_SIZE: Final = ("nodes", "gpus", "gpus_per_node")
_KEPT: Final = ("model", "cluster", *_SIZE, "seq")
"""What settings of a framework may leave to the run on the page."""
_OPEN: Final = ("global_batch", "shard", "micro_batch", "recompute", "precision")
"""Fields of a layout that are chosen where nobody states them."""
_OF_MACHINE: Final = ("node", "base", "device")


def pasted(asked: AskedText) -> dict[str, Any]:
    """The keys of a run that the text states; what is wrong has a line and a column.

    `recognised` says what the text is, `taken` the keys that it states, `kept` those of the page
    that it leaves as they are, `open` what nobody states now, and `notes` what was read roughly.
    """
    name = "pasted" + PurePath(asked.name.replace("\\", "/")).suffix[:8]
    with only_catalogue():
        document = _read(asked.text, name)
        if not isinstance(document.value, dict):
            raise InputError([document.problem((), "write `key: value` lines, or JSON")])
        return _answer(document, asked.run)


def _read(text: str, name: str) -> Document:
    return RunFile(text=parsed_text(text, Path(name))).run()


def _answer(document: Document, page: AskedRun | None) -> dict[str, Any]:
    stated = set(document.value)
    if {"model", "cluster"} <= stated:
        validated(document, Run)
        return _said("a run file", document.value, page)
    if stated <= set(Run.model_fields) and not _is_settings(document):
        return _said("part of a run file", document.value, page, over_page=True)
    if stated & set(_OF_MACHINE) and stated <= {*Cluster.model_fields, "base"}:
        return _said("a cluster", {"cluster": _machine(document)}, page, over_page=True)
    if _is_model(document):
        kind = "a Hugging Face config.json" if "model_type" in stated else "a model"
        return _said(kind, _of_model(document), page, over_page=True)
    if stated & {"cluster", "layout", "nodes"} and not _is_settings(document):
        raise InputError([_unknown(document, key) for key in stated - set(Run.model_fields)])
    return _of_settings(settings_in(document), page)


def _unknown(document: Document, key: str) -> Problem:
    """A key that no run file has."""
    near = did_you_mean(key, Run.model_fields)
    return document.problem((key,), f'unknown key "{key}"{near}')


def _is_settings(document: Document) -> bool:
    """True if a framework's settings have these keys: `model` alone may hold NeMo's."""
    try:
        settings_in(document)
    except InputError:
        return False
    return True


def _is_model(document: Document) -> bool:
    stated = set(document.value)
    named = {"model_type", "architectures", "stack"}
    return bool(stated & named) or {"layers", "hidden"} <= stated


def _of_model(document: Document) -> dict[str, Any]:
    """A model in place, with a length of sequences if it says none; the form shows it."""
    found = Model.prepared(document)
    model = validated(found, Model)
    run: dict[str, Any] = {"model": {"name": "pasted", **found.value}}
    if model.stack is not None:
        run["seq"] = 1  # whatever the page has
    elif model.train_seq is None:
        run["seq"] = min(model.max_seq or SEQ, SEQ)
    return run


def _machine(document: Document) -> dict[str, Any]:
    """A cluster in place; one that varies another is checked when it is used."""
    if "base" not in document.value:
        validated(document, Cluster)
    return {"name": "pasted", **document.value}


def _of_settings(settings: Settings, page: AskedRun | None) -> dict[str, Any]:
    """What the settings state, on the machine of the page where they name none."""
    shown = page.fields() if page else {}
    base: dict[str, Any] = {key: shown[key] for key in _KEPT if key in shown}
    if "model" in settings.run:
        base.pop("seq", None)
    if set(settings.run) & set(_SIZE):
        base = {key: value for key, value in base.items() if key not in _SIZE}
    run = plain(StatedRun(settings=settings, file=RunFile(text=Document("", base))).fields())
    notes = [f"line {one.line}: {one.message}" for one in settings.notes]
    kind = f"settings of {title_of(settings.format)}"
    return _said(kind, run, page, kept=[key for key in base if key not in settings.run], notes=notes)


def _said(
    recognised: str,
    run: dict[str, Any],
    page: AskedRun | None,
    *,
    over_page: bool = False,
    kept: list[str] | None = None,
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """The answer; with `over_page` what the text leaves out stays as the page has it."""
    shown = page.fields() if page else {}
    kept = [key for key in shown if key not in run] if over_page else kept or []
    layout = {**(shown.get("layout", {}) if over_page else {}), **(run.get("layout") or {})}
    missing = [key for key in ("model", "cluster") if key not in {*run, *kept}]
    return {
        "recognised": recognised,
        "run": run,
        "whole": not over_page,
        "taken": [key for key in _flat(run) if key not in kept],
        "kept": kept,
        "open": [*missing, *(f"layout.{key}" for key in _OPEN if key not in layout)],
        "notes": notes or [],
    }


def _flat(run: dict[str, Any]) -> list[str]:
    """Keys of a run as an address writes them."""
    parts = ("layout", "software")
    own = [key for key in run if key not in parts]
    return own + [f"{part}.{key}" for part in parts for key in run.get(part) or {}]
