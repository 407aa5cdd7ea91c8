"""The JSON Schema of each verb's answer, generated from the types that answers are made of.

Holds `VERBS`, `schema` and `DescribedAs`. Keys, types and texts are the annotations and docstrings
of what `syncwall.public.published` names.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, cached_property, reduce
from importlib import import_module
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from pydantic import ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, WithJsonSchema, with_config
from pydantic_core import CoreSchema
from typing_extensions import TypedDict, is_typeddict

from syncwall.cause import Cause
from syncwall.describe import Run
from syncwall.describe.base import MAY_BE_OPEN, Description
from syncwall.describe.choice import Choice, documented
from syncwall.public import Endless, Keys, Late, Part, keys_of
from syncwall.records import SCHEMA_VERSION, written_fields
from syncwall.timeline.ledger import Ledger

VERBS: Final = {
    "predict": "answer.prediction:Prediction",
    "predict work": "answer.prediction:Prediction._recorded",
    "predict rl": "answer.rl_step:RlPrediction",
    "predict islands": "answer.islands:IslandsPrediction",
    "compare": "job.job_comparison:Comparison",
    "compare gate": "answer.gate:Gate",
    "capture": "work.program:CapturedStep",
    "plan layouts": "plan.answers:Plan",
    "plan wall": "plan.wall.sync_wall:WallPlan",
    "plan wall work": "plan.wall.sync_wall:WallPlan._recorded",
    "plan network": "plan.network.needed:NetworkPlan",
    "plan network work": "plan.network.needed:NetworkPlan._recorded",
    "plan fabric": "plan.fabric.fabric_answer:FabricAnswer",
    "plan placement": "plan.placement.best_placement:PlacementAnswer",
    "explain": "explain.answer:Explanation",
    "watch": "show.records.watch:WatchedRun",
    "watch live": "show.records.watch:LiveRun",
    "show": "show.records.listing:ShowRecord",
    "validate": "validate.accuracy_report:Report",
    "measure collectives": "show.records.measurement:CollectivesRecord",
    "measure links": "show.records.measurement:LinksRecord",
    "measure matmul": "show.records.measurement:MatmulRecord",
    "measure step": "show.records.measurement:StepRecord",
    "measure calibration": "show.records.measurement:CalibrationRecord",
    "lab run": "show.records.measurement:LabRunRecord",
    "lab list": "show.records.measurement:LabsRecord",
}
"""The type of each verb's answer, or a `Part` of it, as module and name."""


def schema(verb: str) -> dict[str, Any]:
    """The JSON Schema of a verb's answer."""
    module, _, path = VERBS[verb].partition(":")
    name, _, part = path.partition(".")
    answer = getattr(import_module(f"syncwall.{module}"), name)
    answer = _attribute(answer, part)[0] if part else answer
    found = TypeAdapter(_written(answer)).json_schema(mode="serialization")
    common = {
        "schema_version": {"const": SCHEMA_VERSION, "description": "Of all answers of syncwall."},
        "verb": {"const": verb, "description": "Whose answer it is."},
    }
    return found | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"syncwall {verb}",
        "properties": common | found["properties"],
        "required": [*common, *found.get("required", ())],
    }


def _written(annotation: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """The type of what `plain` makes of a value of this type, for pydantic."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in _WRITTEN_AS:
        return _WRITTEN_AS[annotation]
    if origin is Annotated:
        described = any(isinstance(one, DescribedAs) for one in inner)
        return annotation if described else _written(inner[inner[0] is Any])
    if origin in (Union, UnionType):
        one_number = (one for one in inner if get_origin(one) is not np.ndarray)
        return reduce(or_, map(_written, one_number))
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple[tuple(map(_written, inner))]  # type: ignore[misc]
    if origin in (tuple, list, Sequence, Iterator):
        return list[_written(inner[0])]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[_written(inner[0]), _written(inner[1])]  # type: ignore[misc]
    return _written_class(annotation) if isinstance(annotation, type) else annotation


def _written_class(kind: Any) -> Any:
    if issubclass(kind, Description):
        return Annotated[dict[str, Any], DescribedAs(kind)]
    if hasattr(kind, "__published__"):
        return _record(kind, kind.__published__)
    if is_dataclass(kind):
        names = (one.name for one in fields(kind))
        return _record(kind, keys_of(*names))  # type: ignore[arg-type]
    if is_typeddict(kind) and not hasattr(kind, "__pydantic_config__"):  # those of `_record` have
        return _record(kind, keys_of(*kind.__annotations__))
    return kind


@cache
def _record(owner: type, keys: Keys, name: str = "") -> Any:
    """A `TypedDict` of the published keys, beside which none is allowed."""
    texts = getattr(owner, "__texts__", {})
    types = {key: _key(owner, path, texts.get(key)) for key, path in keys}
    made: Any = TypedDict(name or owner.__name__, types)  # type: ignore[misc]
    made.__doc__, made.__module__ = _first_paragraph(owner.__doc__ or ""), owner.__module__
    return with_config(ConfigDict(extra="forbid"))(made)


def _key(owner: type, path: tuple[str, ...], text: str | None) -> Any:
    """Type and text of the attribute at the end of a path."""
    found, own = _followed(owner, path)
    return _with_text(_RUN if found is Run else _written(found), text or own)


def _followed(found: Any, path: tuple[str, ...]) -> tuple[Any, str | None]:
    text = None
    for number, name in enumerate(path):
        origin, inner = get_origin(found), get_args(found)
        if NoneType in inner:
            known, text = _followed(inner[inner[0] is NoneType], path[number:])
            return known | None, text
        if origin in (list, tuple):
            known, text = _followed(inner[0], path[number:])
            return list[known], text  # type: ignore[valid-type]
        found, text = _attribute(inner[0] if inner else found, name)
    return found, text


def _with_text(kind: Any, text: str | None) -> Any:
    return Annotated[kind, Field(description=_first_paragraph(text))] if text else kind


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _attribute(owner: Any, name: str) -> tuple[Any, str | None]:
    static = inspect.getattr_static(owner, name, None)
    if isinstance(static, Part):
        named = static.name or owner.__name__ + name.strip("_").title()
        made = _record(owner, static.keys, named)
        made.__doc__ = static.text or owner.__doc__
        return made, static.text or None
    inside = {property: "fget", cached_property: "func", Late: "function"}.get(type(static))
    function = getattr(static, inside) if inside else static
    if inspect.isfunction(function):
        return get_type_hints(function, include_extras=True)["return"], function.__doc__
    found = get_type_hints(owner, include_extras=True)[name]
    found = get_args(found)[1] if get_origin(found) is Callable else found
    if MAY_BE_OPEN in getattr(found, "__metadata__", ()):  # in answers nothing is
        found = reduce(or_, (one for one in get_args(get_args(found)[0]) if one is not NoneType))
    return found, documented(owner).get(name)


class DescribedAs:
    """Annotation of a dictionary that holds the fields of a description, as `plain` gives them."""

    def __init__(self, described: type[Description], **more: dict[str, Any] | type[Description]) -> None:
        """`more`: schemas of further keys, or what they describe."""
        self.described, self.more = described, more

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = _of_description(self.described)
        more = {
            name: one if isinstance(one, dict) else _of_description(one) for name, one in self.more.items()
        }
        properties = found["properties"] | more
        return found | {"properties": properties, "required": list(properties)}


_NUMBER: Final = {"type": "integer"}
_ORIGINS: Final = {
    "type": "object",
    "description": "Origin of each sourced number, by its dotted path.",
}
_RUN: Final = Annotated[
    dict[str, Any], DescribedAs(Run, gpus=_NUMBER, tokens_per_step=_NUMBER, provenance=_ORIGINS)
]
_WRITTEN_AS: Final[dict[Any, Any]] = {
    Ledger: dict[Cause, float],
    Endless: float | None,
    datetime: str,
}


def _of_description(described: type[Description]) -> dict[str, Any]:
    docs = documented(described)
    properties = {
        name: _of_type(annotation) | ({"description": docs[name]} if name in docs else {})
        for name, annotation in written_fields(described).items()
    }
    for name, field in described.model_fields.items():
        for one in field.metadata:
            if isinstance(one, WithJsonSchema) and name in properties:
                properties[name] = properties[name] | (one.json_schema or {})
                properties[name].pop("anyOf", None)
    return {
        "type": "object",
        "description": _first_paragraph(described.__doc__ or ""),
        "properties": properties,
        "required": list(properties),
    }


_PLAIN: Final[dict[Any, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    NoneType: "null",
}


def _of_type(annotation: Any) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind
    """The schema of what `plain` makes of a value of this type; of anything, if not known."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if origin is Annotated:
        return _of_type(inner[0])
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(one) for one in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (tuple, list):
        return {"type": "array", "items": _of_type(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of_type(inner[1])}
    if isinstance(annotation, type) and issubclass(annotation, Description):
        return _of_description(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        return {"enum": [one.text for one in annotation]}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"enum": [one.value for one in annotation]}
    return {}
