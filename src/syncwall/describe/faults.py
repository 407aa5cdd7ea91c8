"""What pydantic finds wrong with a description, in words that say what to write instead.

Holds `faults_of`.
"""

import re
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from syncwall.describe.choice import ours
from syncwall.documents import KeyPath
from syncwall.problems import did_you_mean

MOST_FAULTS: Final = 100
"""Faults that are put into words; more help nobody."""


_NOT_WHAT: Final = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text",
    "model_type": "a name or a mapping of keys",
    "dict_type": "a mapping of keys",
    "list_type": "a list",
    "tuple_type": "a list",
}
"""What a value is not, by the kind of the fault."""


def faults_of(error: ValidationError, described: type[BaseModel]) -> list[tuple[KeyPath, str]]:
    """The keys that lead to each fault, and what is wrong there."""
    found: list[tuple[KeyPath, str]] = []
    for fault in error.errors(include_url=False)[:MOST_FAULTS]:
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
    kind, words = fault["type"], str(fault["msg"])
    if kind == "extra_forbidden":
        return f'unknown key "{key}"{_instead(str(key), _at(described, path[:-1]))}'
    if kind == "missing":
        return f'"{key}" is missing'
    if kind in ("syncwall", "value_error"):
        return words.removeprefix("Value error, ")
    stated = f'"{str(fault["input"])[:60]}"'
    if kind in _NOT_WHAT:
        return f"{stated} is not {_NOT_WHAT[kind]}"
    if kind in ("literal_error", "enum"):
        *first, last = re.findall(r"'([^']*)'", str(fault["ctx"]["expected"]))
        return f"{stated} is not known: write {', '.join(first)}{' or ' * bool(first)}{last}"
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
