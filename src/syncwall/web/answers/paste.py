"""Text that somebody pasted: a run, a model, or a Hugging Face configuration.

Holds `pasted`.
"""

from typing import Any, Final, TypeVar

from syncwall.describe import Model, Run
from syncwall.describe.base import Description
from syncwall.describe.job_file import run_part
from syncwall.describe.names import only_catalogue
from syncwall.describe.reading import validated
from syncwall.documents import Document, parse_document
from syncwall.problems import InputError

SEQ: Final = 8192
"""Tokens in a sequence where a pasted model says nothing: what most models are trained with."""
Described = TypeVar("Described", bound=Description)


def pasted(text: str) -> dict[str, Any]:
    """The keys of a run that `text` states; InputError with line and column of what is wrong."""
    document = run_part(parse_document(text, "pasted"))
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
