"""The flags with which `predict` takes a job: every key of a job file, as text.

Holds `JobFlags` and `stated_job`.
"""

from dataclasses import fields, is_dataclass, make_dataclass
from typing import Annotated, Any, get_args

import tyro

from syncwall.describe import Job
from syncwall.describe.base import Description

_TEXT = Annotated[str | None, tyro.conf.arg(metavar="VALUE")]
_ELSEWHERE = ("run", "tokens", "steps")
"""Keys that other flags give."""


def _as_flags(name: str, described: type[Description]) -> Any:
    """A dataclass with every key of a description as text, and one inside for each of its parts."""
    members: list[Any] = []
    for key, field in described.model_fields.items():
        if key in _ELSEWHERE:
            continue
        part = _part(field.annotation)
        if part is None:
            members.append((field.alias or key, _TEXT, None))
        else:
            inner = _as_flags(f"{name}{part.__name__}", part)
            members.append((key, inner, inner()))
    return make_dataclass(name, members, frozen=True)


def _part(annotation: Any) -> type[Description] | None:
    """The description in an annotation such as `Spikes` or `Spikes | None`."""
    for inner in (annotation, *get_args(annotation)):
        if isinstance(inner, type) and issubclass(inner, Description):
            return inner
    return None


JobFlags: Any = _as_flags("JobFlags", Job)


def stated_job(job: Any, tokens: str | None, steps: str | None) -> dict[str, str]:
    """The flags that were given, by their names ("tokens", "failures.repair"), for `job_with`."""
    flags = {"tokens": tokens, "steps": steps, **_stated(job, "")}
    return {name: text for name, text in flags.items() if text is not None}


def _stated(flags: Any, before: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for field in fields(flags):
        value = getattr(flags, field.name)
        name = f"{before}{field.name}"
        found |= _stated(value, f"{name}.") if is_dataclass(value) else {name: value}
    return found
