"""What the Catalogue page shows: entries, and every number with its trust and source.

Holds `KINDS`, `listed` and `shown`.
"""

from functools import cache
from typing import Any, Final

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe import Cluster, Device, Link, Model, lookup
from syncwall.describe.base import CatalogueEntry
from syncwall.describe.device import Switch
from syncwall.describe.software import Framework
from syncwall.problems import InputError, did_you_mean
from syncwall.records import described
from syncwall.show.entries import CONVENTIONS, Row, cell, headings, is_number, rows_of, sources_used
from syncwall.show.records.listing import listing

KINDS: Final = tuple(str(kind) for kind in lookup.READERS)
"""Kinds of entries that are shown."""
_KIND_OF: Final[dict[type[CatalogueEntry], CatalogueKind]] = {
    Device: CatalogueKind.DEVICE, Link: CatalogueKind.LINK, Cluster: CatalogueKind.CLUSTER,
    Model: CatalogueKind.MODEL,
    Switch: CatalogueKind.SWITCH, Framework: CatalogueKind.FRAMEWORK,
}  # fmt: skip
_NAMED: Final = {
    "link": CatalogueKind.LINK,
    "pcie": CatalogueKind.LINK,
    "device": CatalogueKind.DEVICE,
    "switch": CatalogueKind.SWITCH,
}
"""Kinds of entries that fields of these names refer to."""


@cache
def listed() -> dict[str, Any]:
    """Devices, links, clusters, models, switches, frameworks, failure rates and prices.

    One table for every kind; cells as text, with their units.
    """
    return {"kinds": [_table(CatalogueKind(kind)) for kind in KINDS], "conventions": CONVENTIONS}


def _table(kind: CatalogueKind) -> dict[str, Any]:
    lines = listing(kind)
    columns = list(lines[0]) if lines else []
    return {
        "kind": str(kind),
        "folder": kind.folder,
        "columns": [
            {"name": name, "is_number": is_number(lines, one)}
            for one, name in zip(columns, headings(columns), strict=True)
        ],
        "rows": [
            {
                "name": line.get("name") or line["seller"],
                "cells": [cell(one, line[one]) for one in columns],
                "values": [line[one] for one in columns],
            }
            for line in lines
        ],
    }


@cache
def shown(kind: str, name: str) -> dict[str, Any]:
    """One entry: its lines, its sources, and the whole of it as `show --json` prints it."""
    of = CatalogueKind(kind)
    known = catalogue.names(of)  # a name, never a path: nothing else is opened
    if name not in known:
        raise InputError.of(f'unknown {kind} "{name}"{did_you_mean(name, known, count=3)}')
    entry = lookup.READERS[of](name)
    follows, rows = rows_of(entry)
    used = sources_used(entry, rows)
    return {
        "kind": kind,
        "name": name,
        "title": getattr(entry, "title", None) or name,
        "aliases": list(getattr(entry, "aliases", ())),
        "note": getattr(entry, "note", None),
        "follows": [_line(row) for row in follows],
        "rows": [_line(row) for row in rows],
        "sources": [{"key": key, **source_text(key)} for key in used],
        "record": described(entry),
        "command": f"syncwall show {kind} {name}",
    }


def _line(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"label": row.label, "text": row.text}
    if row.is_part:
        found["is_part"] = True
    if row.about:
        found["about"] = row.about
    if row.provenance is not None:
        found["provenance"] = row.provenance.as_dict()
    if (entry := _reference(row)) is not None:
        found["entry"] = entry
    return found


def _reference(row: Row) -> dict[str, str] | None:
    """The entry that a line names, if the catalogue has it."""
    if row.entry is not None:
        kind, name = _KIND_OF.get(type(row.entry)), row.entry.name
    else:
        kind, name = _NAMED.get(row.label.rpartition(" ")[2]), row.text
    if kind is None or name not in catalogue.names(kind):
        return None
    return {"kind": str(kind), "name": name}


def source_text(key: str) -> dict[str, str]:
    """Title, author, date and place of a source, as text."""
    source = catalogue.sources().get(key, {})
    return {name: str(source.get(name, "")) for name in ("title", "author", "date", "where")}
