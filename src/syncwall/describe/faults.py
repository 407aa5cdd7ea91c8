"""What pydantic finds wrong with a description, in words that say what to write instead.

Holds `faults_of`.
"""

import re
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

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
    "path_type": "a path",
    "finite_number": "a number",
    "invalid_key": "a text, as keys are",
    "none_required": "possible here: leave it out",
}
"""What a value is not, by the kind of the fault."""
_A_NAME: Final = "name: write letters, digits, . _ and -"
_BOUNDS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "too_short": ("min_length", "a list or mapping of at least"),
    "too_long": ("max_length", "a list of at most"),
    "string_too_short": ("min_length", "letters, at least"),
    "string_too_long": ("max_length", "letters, at most"),
}
"""The key of a bound in the context of a fault, and its words."""


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
    return _mistaken(fault, path, described) or f'"{key}": {words[:1].lower()}{words[1:]}'


def _mistaken(fault: dict[str, Any], path: KeyPath, described: type[BaseModel]) -> str:
    """What is wrong with a value, and what to write; nothing if no words are known for it."""
    kind, context = fault["type"], fault.get("ctx", {})
    said = ""
    if kind in ("model_type", "tuple_type", "list_type"):
        said = f"is not {_wanted(kind, path, described)}"
    elif kind in _NOT_WHAT:
        said = f"is not {_NOT_WHAT[kind]}"
    elif kind in _BOUNDS:
        bound, least = _BOUNDS[kind]
        said = f"is out of range: write {least} {context[bound]:,.10g}"
    elif kind == "string_pattern_mismatch":
        is_month = context["pattern"].startswith("^20")
        said = f"is not a {'month: write for example 2025-04' if is_month else _A_NAME}"
    elif kind.startswith(("datetime", "date")):
        said = 'is not a date: write for example "2026-09-01"'
    elif kind in ("literal_error", "enum"):
        *first, last = re.findall(r"'([^']*)'", str(context["expected"]))
        said = f"is not known: write {', '.join(first)}{' or ' * bool(first)}{last}"
    return said and f'"{str(fault["input"])[:60]}" {said}'


def _wanted(kind: str, path: KeyPath, described: type[BaseModel]) -> str:
    """What stands there instead, with an example: a mapping, an entry of the catalogue, a list."""
    inside = _at(described, path)
    if kind != "model_type":
        several = inside is not _at(described, path[:-1])
        return f"a list: write for example [{example(inside) if several else 'a, b'}]"
    if "aliases" in inside.model_fields:
        return "a name or a mapping of keys"
    return f"a mapping of keys: write for example {example(inside)}"


def example(described: type[BaseModel]) -> str:
    """A mapping of this type as a file has it: what must be stated, or else what comes first."""
    fields = described.model_fields.items()
    needed = [one for one in fields if one[1].is_required()] or list(fields)[:1]
    return f"{{{', '.join(f'{field.alias or name}: {_sample(field)}' for name, field in needed)}}}"


def _sample(field: FieldInfo) -> str:
    """A value that a field takes; quantities with their unit."""
    within = [field.annotation, *get_args(field.annotation), *field.metadata]
    units = (one.dimension.value for one in within if hasattr(one, "dimension"))
    word = next((one for one in map(_word, within) if one), "")
    inside = _model_in(field.annotation)
    return next(units, "") or word or (example(inside) if inside else "16" if int in within else "NAME")


def _word(annotation: Any) -> str:
    first = get_args(annotation)[:1] if get_origin(annotation) is Literal else ()
    return str(first[0]) if first else ""


def _instead(key: str, described: type[BaseModel]) -> str:
    """What to write in the place of a `key` that is called otherwise, or stands elsewhere."""
    for word in filter(None, (key, ours(key))):
        if word in _keys(described):
            part = _at(described, (word,))
            return f": write `{word}{'' if part is described else f': {example(part)}'}`"
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
