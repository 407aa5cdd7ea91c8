"""Answers and descriptions as plain data: what `--json` writes.

Holds `SCHEMA_VERSION`, `plain`, `answer_data`, `json_data`, `json_text`; `described`, a description
with the source of every number, and `derived`, the values that follow from one but do not stand in
it. Within a schema version keys are only added, never taken away or changed.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Final

from syncwall.describe import Cluster, Device, Link, Model, Run
from syncwall.describe.base import Count, Description, SourcedNumber
from syncwall.describe.choice import Choice
from syncwall.describe.layer_kinds import of_a_sample
from syncwall.problems import CONTROLS
from syncwall.public import Answer, Extract, Keys

SCHEMA_VERSION: Final = 1
"""Raised when a key is taken away or changes its meaning; answers state it."""
_AS_IS: Final = frozenset({str, int, bool})


def answer_data(answer: Answer | Extract) -> dict[str, Any]:
    """What `Answer.to_dict` gives; without version and verb if it is part of another answer."""
    data: dict[str, Any] = plain(answer)
    return json_data(answer.verb, data) if answer.verb else data


def json_data(verb: str, answer: Any) -> dict[str, Any]:
    """The answer of a verb as plain data, quantities in SI units; what is endless is None."""
    return {"schema_version": SCHEMA_VERSION, "verb": verb, **plain(answer)}


def json_text(data: Mapping[str, Any], *, in_ascii: bool = False) -> str:
    """Plain data as strict JSON."""
    text = json.dumps(data, indent=2, ensure_ascii=in_ascii, allow_nan=False) + "\n"
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """`value` as dictionaries, lists, texts and numbers; a number that is not finite is None."""
    if value is None or type(value) in _AS_IS:  # most are
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Description):
        return {name: plain(getattr(value, name)) for name in written_fields(type(value))}
    if (keys := getattr(value, "__published__", None)) is not None:
        return _published(value, keys)
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
    if hasattr(value, "tolist"):  # of NumPy
        return plain(value.tolist())
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _published(value: Any, keys: Keys) -> dict[str, Any]:
    found = ((key, _followed(value, path)) for key, path in keys)
    return {key: described(one) if isinstance(one, Run) else plain(one) for key, one in found}


def _followed(value: Any, path: tuple[str, ...]) -> Any:
    for number, name in enumerate(path):
        if value is None:
            return None
        if isinstance(value, (list, tuple)):
            return [_followed(one, path[number:]) for one in value]
        value = getattr(value, name)
        value = value() if callable(value) else value
    return value


@cache
def written_fields(kind: type[Description]) -> dict[str, Any]:
    """The fields of a description that are written, with their types."""
    kind.model_rebuild()  # a field may be of a class that is defined below it
    return {
        name: field.annotation
        for name, field in kind.model_fields.items()
        if name != "provenance" and not field.exclude
    }


def described(description: Description) -> dict[str, Any]:
    """`description` and what follows from it, ready for `json.dumps`.

    Numbers are plain and in SI units; `provenance` has the origin of each by its dotted path.
    """
    found: dict[str, Any] = plain(description)
    origins = dict(_origins(description, ()))
    return found | derived(description) | {"provenance": origins}


def _origins(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Dotted path and provenance of every sourced number inside."""
    if isinstance(value, (SourcedNumber, Count)):
        yield ".".join(path), value.provenance.as_dict()
    elif isinstance(value, Description):
        for name in type(value).model_fields:
            yield from _origins(getattr(value, name), (*path, name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _origins(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _origins(inner, (*path, str(number)))


def derived(description: Description) -> dict[str, Any]:
    """Values that follow from `description`, by name with unit."""
    if isinstance(description, Model):
        return _of_model(description)
    if isinstance(description, Cluster):
        return _of_cluster(description)
    if isinstance(description, Device):
        return _of_device(description)
    if isinstance(description, Link):
        return {"effective_fraction": [round(e.fraction, 4) for e in description.effective]}
    if isinstance(description, Run):
        return {"gpus": description.gpus, "tokens_per_step": description.tokens_per_step}
    return {}


def _of_model(model: Model) -> dict[str, Any]:
    count = model.parameter_count
    counted = {
        "parameters": count.total,
        "active_parameters": count.active,
        "parameters_by_part": asdict(count),
    }
    if model.stack is not None:
        return counted | of_a_sample(model.stack)
    return {
        **counted,
        "dense_layers": model.dense_layers,
        "moe_layers": model.moe_layers,
        "full_attention_layers": model.full_attention_layers,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
    }


def _of_cluster(cluster: Cluster) -> dict[str, Any]:
    nics, scale_up = cluster.node.nics, cluster.scale_up
    return {
        "gpus": cluster.gpus,
        "scale_up_gpus": cluster.domain_gpus,
        "scale_up_bytes_per_s_per_gpu": float(scale_up.rate_bytes_per_s) if scale_up else None,
        "nics_per_node": int(nics.count) if nics else 0,
        "nic_bytes_per_s": float(nics.rate_bytes_per_s) if nics else None,
        "nic_bytes_per_s_per_gpu": float(cluster.nic_bytes_per_s_per_gpu),
        "gpus_of_each_nic": [list(group) for group in cluster.nic_groups],
    }


def _of_device(device: Device) -> dict[str, Any]:
    achieved = device.achieved_flop_per_s
    return {
        "achieved_fraction": {
            str(dtype): round(rate / device.peak_flop_per_s[dtype], 4)
            for dtype, rate in achieved.items()
            if dtype in device.peak_flop_per_s
        }
    }
