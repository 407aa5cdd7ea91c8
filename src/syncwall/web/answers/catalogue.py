"""What the Catalogue page shows: entries, and every number with its trust and source.

Holds `KINDS`, `listed` and `shown`.
"""

from functools import cache
from typing import Any, Final

from syncwall import catalogue
from syncwall.catalogue import Kind
from syncwall.describe import Cluster, Device, Link, Model, lookup
from syncwall.describe.base import Entry
from syncwall.describe.framework import Framework
from syncwall.describe.link import Switch
from syncwall.describe.price import Offer, PriceList
from syncwall.describe.provenance import Figure
from syncwall.problems import InputError, did_you_mean
from syncwall.show.listing import cell, heading, listing
from syncwall.show.record import record
from syncwall.show.sheet import CONVENTIONS, Row, rows_of, sources_used

KINDS: Final = tuple(str(kind) for kind in lookup.READERS)
"""Kinds of entries that are shown."""
_KIND_OF: Final[dict[type[Entry], Kind]] = {
    Device: Kind.DEVICE, Link: Kind.LINK, Cluster: Kind.CLUSTER, Model: Kind.MODEL,
    Switch: Kind.SWITCH, Framework: Kind.FRAMEWORK,
}  # fmt: skip
_NAMED: Final = {"link": Kind.LINK, "pcie": Kind.LINK, "device": Kind.DEVICE, "switch": Kind.SWITCH}
"""Kinds of entries that fields of these names refer to."""


@cache
def listed() -> dict[str, Any]:
    """One table for every kind; cells as text, with their units."""
    return {"kinds": [_table(Kind(kind)) for kind in KINDS], "conventions": CONVENTIONS}


def _table(kind: Kind) -> dict[str, Any]:
    lines = listing(kind)
    columns = list(lines[0]) if lines else []
    return {
        "kind": str(kind),
        "folder": kind.folder,
        "columns": [
            {"name": name, "is_number": any(_is_number(line[one]) for line in lines)}
            for one, name in zip(columns, _headings(columns), strict=True)
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


def _headings(columns: list[str]) -> list[str]:
    """Names of columns; of two with the same name the second is the rate."""
    names = [heading(one) for one in columns]
    return [f"{name} rate" if name in names[:n] else name for n, name in enumerate(names)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def shown(kind: str, name: str) -> dict[str, Any]:
    """One entry: its lines, its sources, and the whole of it as `show --json` prints it."""
    of = Kind(kind)
    known = catalogue.names(of)  # a name, never a path: nothing else is opened
    if name not in known:
        raise InputError.of(f'unknown {kind} "{name}"{did_you_mean(name, known, count=3)}')
    entry = lookup.READERS[of](name)
    follows, rows = rows_of(entry)
    if isinstance(entry, PriceList):
        rows = [_offer(one) for one in entry.offers]
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
        "record": record(entry),
        "command": f"syncwall show {kind} {name}",
    }


def _offer(offer: Offer) -> Row:
    """An offer in one line."""
    price = offer.price_usd_per_gpu_hour
    words = (offer.date, offer.instance, offer.region, offer.cluster)
    about = ", ".join(str(word) for word in words if word)
    origin = price.provenance if isinstance(price, Figure) else None
    text = price.text if isinstance(price, Figure) else f"${price:g}/GPU-hour"
    return Row(f"{offer.device}, {offer.terms}", text, origin, about)


def _line(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"label": row.label.strip(), "text": row.text}
    if row.label.startswith(" "):
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
