"""From a file to a description, or to a list of everything that is wrong with the file.

Holds `read` (a file that describes something) and `validated` (a document already parsed). Every
problem is reported at once, each with file, line, column and what to write instead.
"""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from syncwall.describe.base import Description
from syncwall.describe.faults import MOST_FAULTS, faults_of
from syncwall.documents import Document, read_document
from syncwall.problems import InputError, Problem

Described = TypeVar("Described", bound=Description)
_OF_AN_ANSWER = {"schema_version", "verb"}
"""Keys that JSON written by syncwall has besides those of what it describes."""


def read(path: Path, described: type[Described]) -> Described:
    """The description in the YAML or JSON file at `path`."""
    return validated(read_document(path), described)


def validated(document: Document, described: type[Described], **named: str) -> Described:
    """The description in `document`; `named` fields are added where the file leaves them out."""
    if not isinstance(document.value, dict):
        name = described.__name__.lower()
        raise InputError([document.problem((), f"a {name} is written as `key: value` lines")])
    fields: dict[str, Any] = {**named, **document.value}
    if fields.keys() >= _OF_AN_ANSWER:
        fields = {name: value for name, value in fields.items() if name not in _OF_AN_ANSWER}
    origin = fields.get("provenance")
    context = {
        "in_file": True,
        "directory": Path(document.file).parent,
        "provenance": origin if isinstance(origin, dict) else None,
    }
    try:
        return described.model_validate(fields, context=context)
    except ValidationError as error:
        raise InputError(problems(error, document, described)) from None


def problems(error: ValidationError, document: Document, described: type[BaseModel]) -> list[Problem]:
    """What pydantic found, with its place in the text and in the words of the file."""
    found = [document.problem(path, message) for path, message in faults_of(error, described)]
    if (count := error.error_count()) > MOST_FAULTS:
        found.append(document.problem((), f"has {count:,} problems; these are {MOST_FAULTS} of them"))
    return found
