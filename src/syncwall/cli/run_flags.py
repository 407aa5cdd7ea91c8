"""The flags with which verbs take a run: every key of a layout and of its software, as text.

Holds `LayoutFlags`, `SoftwareFlags` and `stated`.
"""

from dataclasses import fields, make_dataclass
from typing import Annotated, Any

import tyro

from syncwall.describe import Layout, Software
from syncwall.describe.base import Description


def _as_flags(name: str, described: type[Description]) -> Any:
    """A dataclass with every key of a description as text, read as it would be from a file."""
    keys = [field.alias or key for key, field in described.model_fields.items()]
    text = Annotated[str | None, tyro.conf.arg(metavar="VALUE")]
    return make_dataclass(name, [(key, text, None) for key in keys])


LayoutFlags: Any = _as_flags("LayoutFlags", Layout)
SoftwareFlags: Any = _as_flags("SoftwareFlags", Software)


def stated(layout: Any, software: Any, **others: str | None) -> dict[str, str]:
    """The flags that were given, by their names ("model", "layout.tp"), for `run_with`."""
    flags = dict(others)
    flags |= {f"layout.{field.name}": getattr(layout, field.name) for field in fields(layout)}
    flags |= {f"software.{field.name}": getattr(software, field.name) for field in fields(software)}
    return {name: text for name, text in flags.items() if text is not None}
