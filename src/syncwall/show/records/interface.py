"""JSON as an interface: what every answer has, and the schemas that are published.

Holds `SCHEMA_VERSION`, `record` (the decorator of record types), `json_data`, `json_text`, `VERBS`,
`schema`, `DescribedAs` and `plain`. A record is a `TypedDict` of the types that answers are made
of; its schema is generated from them. Within a schema version keys are only added, never taken away
or changed.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import ConfigDict, GetJsonSchemaHandler, TypeAdapter, with_config
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from syncwall.describe.base import Description
from syncwall.describe.choice import Choice
from syncwall.describe.docs import documented
from syncwall.problems import CONTROLS

SCHEMA_VERSION: Final = 1
"""Raised when a key is taken away or changes its meaning; answers state it."""
record = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))
"""Marks the type of a record: no keys beside the documented ones."""
VERBS: Final = {
    "predict": "prediction.PredictRecord",
    "predict work": "program.ProgramRecord",
    "predict rl": "rl.RlRecord",
    "predict islands": "islands.IslandsRecord",
    "compare": "compare.CompareRecord",
    "capture": "capture.CaptureRecord",
    "plan layouts": "layouts.LayoutsRecord",
    "plan wall": "wall.WallRecord",
    "plan wall work": "program_plan.ProgramWallRecord",
    "plan network": "network.NetworkRecord",
    "plan network work": "program_plan.ProgramNetworkRecord",
    "plan fabric": "fabric.FabricsRecord",
    "plan placement": "placement.PlacementRecord",
    "explain": "explanation.ExplainRecord",
    "watch": "watch.WatchRecord",
    "watch live": "live.LiveRecord",
    "show": "listing.ShowRecord",
    "validate": "validation.ValidateRecord",
    "measure collectives": "measurement.CollectivesRecord",
    "measure links": "measurement.LinksRecord",
    "measure matmul": "measurement.MatmulRecord",
    "measure step": "measurement.StepRecord",
    "measure calibration": "measurement.CalibrationRecord",
    "lab run": "measurement.LabRunRecord",
    "lab list": "measurement.LabsRecord",
}
"""The type of each verb's answer, as module and name in `syncwall.show.records`."""


def json_data(verb: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a verb as plain data, quantities in SI units; what is endless is None."""
    return {"schema_version": SCHEMA_VERSION, "verb": verb, **plain(answer)}


def json_text(verb: str, answer: Mapping[str, Any], *, in_ascii: bool = False) -> str:
    """The same as strict JSON."""
    data = json_data(verb, answer)
    text = json.dumps(data, indent=2, ensure_ascii=in_ascii, allow_nan=False) + "\n"
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def schema(verb: str) -> dict[str, Any]:
    """The JSON Schema of a verb's answer."""
    module, _, name = VERBS[verb].rpartition(".")
    answer = getattr(import_module(f"syncwall.show.records.{module}"), name)
    found = TypeAdapter(answer).json_schema(mode="serialization")
    for base in getattr(answer, "__orig_bases__", ()):  # whose texts pydantic leaves behind
        if base is not TypedDict:
            inherited = TypeAdapter(base).json_schema(mode="serialization")["properties"]
            found["properties"] |= inherited
    for inside in found.get("$defs", {}).values():  # a default of a dataclass is written, too
        if "properties" in inside:
            inside["required"] = list(inside["properties"])
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


_AS_IS: Final = frozenset({str, int, bool})


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """`value` as dictionaries, lists, texts and numbers; a number that is not finite is None."""
    if value is None or type(value) in _AS_IS:  # most are
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Description):
        return {name: plain(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(inner) for inner in value]
    if isinstance(value, Choice):
        return value.text
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if hasattr(value, "item") and hasattr(value, "dtype"):  # of NumPy
        return plain(value.item())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


class DescribedAs:
    """Annotation of a dictionary that holds the fields of a description, as `plain` gives them."""

    def __init__(
        self, described: type[Description], **more: dict[str, Any] | type[Description]
    ) -> None:
        """`more`: schemas of further keys, or what they describe."""
        self.described, self.more = described, more

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = _of_description(self.described)
        more = {
            name: one if isinstance(one, dict) else _of_description(one)
            for name, one in self.more.items()
        }
        properties = found["properties"] | more
        return found | {"properties": properties, "required": list(properties)}


def _fields(described: type[Description]) -> dict[str, Any]:
    """The fields that are written, with their types."""
    described.model_rebuild()  # a field may be of a class that is defined below it
    return {
        name: field.annotation
        for name, field in described.model_fields.items()
        if name != "provenance" and not field.exclude
    }


def _of_description(described: type[Description]) -> dict[str, Any]:
    docs = documented(described)
    properties = {
        name: _of_type(annotation) | ({"description": docs[name]} if name in docs else {})
        for name, annotation in _fields(described).items()
    }
    text = " ".join((described.__doc__ or "").partition("\n\n")[0].split())
    return {"type": "object", "description": text, "properties": properties,
            "required": list(properties)}  # fmt: skip


_PLAIN: Final[dict[Any, str]] = {
    bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null",
}  # fmt: skip


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
