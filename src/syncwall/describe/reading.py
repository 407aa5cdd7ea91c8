"""From a file to a description, or to a list of everything that is wrong with the file.

Holds `read` (a file that describes something) and `validated` (a document already parsed). Every
problem is reported at once, each with file, line, column and what to write instead.
"""

from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from syncwall.describe.base import Description
from syncwall.describe.other_words import ours
from syncwall.documents import Document, KeyPath, read_document
from syncwall.problems import InputError, Problem, did_you_mean

Described = TypeVar("Described", bound=Description)
_MOST_FAULTS = 100
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


def problems(
    error: ValidationError, document: Document, described: type[BaseModel]
) -> list[Problem]:
    """What pydantic found, with its place in the text and in the words of the file."""
    found = [document.problem(path, message) for path, message in faults_of(error, described)]
    if (count := error.error_count()) > _MOST_FAULTS:
        found.append(
            document.problem((), f"has {count:,} problems; these are {_MOST_FAULTS} of them")
        )
    return found


def faults_of(error: ValidationError, described: type[BaseModel]) -> list[tuple[KeyPath, str]]:
    """The keys that lead to each fault, and what is wrong there."""
    found: list[tuple[KeyPath, str]] = []
    for fault in error.errors(include_url=False, include_input=False)[:_MOST_FAULTS]:
        path = tuple(fault["loc"])
        several = dict(fault.get("ctx") or {}).get("faults")
        if several:
            found += [((*path, *inner), reason) for inner, reason in several]
        else:
            found.append((path, _message(dict(fault), path, described)))
    return found


def _message(fault: dict[str, Any], path: KeyPath, described: type[BaseModel]) -> str:
    key = path[-1] if path else ""
    if isinstance(key, int) and len(path) > 1:
        key = f"{path[-2]}[{key}]"
    if fault["type"] == "extra_forbidden":
        return f'unknown key "{key}"{_instead(str(key), _at(described, path[:-1]))}'
    if fault["type"] == "missing":
        return f'"{key}" is missing'
    if fault["type"] == "syncwall":
        return str(fault["msg"])
    if fault["type"] == "value_error":
        return str(fault["msg"]).removeprefix("Value error, ")
    words = str(fault["msg"])
    return f'"{key}": {words[:1].lower()}{words[1:]}'


def _instead(key: str, described: type[BaseModel]) -> str:
    """What to write in the place of a `key` that is called otherwise, or stands elsewhere."""
    for word in filter(None, (key, ours(key))):
        if word in _keys(described):
            return f": write `{word}`"
        for name, field in described.model_fields.items():
            inside = _model_in(field.annotation)
            if inside is not None and word in _keys(inside):
                return f": write `{word}` under `{field.alias or name}`"
    return did_you_mean(key, _keys(described))


def _at(described: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    """The type of the mapping at `path`."""
    for part in path:
        for name, field in described.model_fields.items():
            if part in (name, field.alias):
                described = _model_in(field.annotation) or described
                break
    return described


def _keys(described: type[BaseModel]) -> list[str]:
    """Keys that a mapping of this type may have."""
    return [field.alias or name for name, field in described.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The description type inside an annotation such as `Nics | None` or `tuple[Tier, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
