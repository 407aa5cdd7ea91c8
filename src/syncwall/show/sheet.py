"""One entry as a page of text: every number with its unit, trust and source.

Holds `sheet`, and what it is made of: `Row`, `rows_of` and `sources_used`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.catalogue import sources
from syncwall.describe import Effective
from syncwall.describe.base import Description, Entry
from syncwall.describe.choice import Choice
from syncwall.describe.job import FailureCause
from syncwall.describe.provenance import Count, Figure, Provenance
from syncwall.show.headed import plain_table
from syncwall.show.record import derived
from syncwall.units import Dimension

CONVENTIONS = (
    "peaks are dense, a multiply-add is 2 FLOP; rates are one way; 1 GB = 1e9 bytes; "
    "trust: measured > fitted > datasheet > assumed"
)
_HEAD = ("name", "title", "note", "aliases", "provenance")  # shown apart from the table

_PARTS = {"inactive": "  idle for one token", "mtp": "  in multi-token prediction, extra"}


class Row(NamedTuple):
    """One line of a sheet."""

    label: str
    text: str
    provenance: Provenance | None = None
    about: str = ""
    entry: Entry | None = None
    """The entry of the catalogue that stands here, if it is one."""


def sheet(entry: Description) -> RenderableType:
    """`entry` as a page for the terminal."""
    follows, rows = rows_of(entry)
    between = [Row("", "")] if follows else []
    parts: list[RenderableType] = [_heading(entry), Text(), _table([*follows, *between, *rows])]
    note = getattr(entry, "note", None)
    if note:
        parts += [Text(), Text.assemble(("Note  ", "bold"), note)]
    used = sources_used(entry, rows)
    if used:
        parts += [Text(), Text("Sources", style="bold"), _source_table(used)]
    parts += [Text(), Text(f"Conventions  {CONVENTIONS}", style="dim")]
    return Group(*parts)


def rows_of(entry: Description) -> tuple[list[Row], list[Row]]:
    """What follows from `entry`, and what stands in it."""
    return list(_derived_rows(entry)), list(_rows(entry, ""))


def _heading(entry: Description) -> Text:
    if not isinstance(entry, Entry):
        return Text(type(entry).__name__, style="bold")
    also = f"  also: {', '.join(entry.aliases)}" if entry.aliases else ""
    return Text.assemble((entry.title or entry.name, "bold"), f"  ({entry.name}){also}")


def _rows(value: Any, label: str) -> Iterator[Row]:
    """A line for every value inside, labelled by the keys that lead to it."""
    if isinstance(value, Entry) and label:
        title = f" ({value.title})" if value.title else ""
        yield Row(label, f"{value.name}{title}", entry=value)
    elif isinstance(value, Effective):
        rate, peak = value.rate_bytes_per_s, value.of_bytes_per_s
        text = f"{_text(rate)} of {_text(peak)}, {value.fraction:.0%}"
        yield Row(label, text, getattr(rate, "provenance", None), value.what)
    elif isinstance(value, FailureCause):
        text = f"{value.per_1000_days:g} a day of 1,000"
        yield Row(f"{label} {value.name}", text, None, f"per {value.per}, takes {value.takes}")
    elif isinstance(value, Description):
        for name, field in type(value).model_fields.items():
            inner = getattr(value, name)
            left_out = name not in value.model_fields_set and inner in (False, 0, "none")
            if not left_out and not (isinstance(value, Entry) and name in _HEAD):
                yield from _rows(inner, _joined(label, field.alias or name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _rows(inner, _joined(label, str(key)))
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Description):
        for number, inner in enumerate(value, 1):
            yield from _rows(inner, f"{label} {number}")
    elif value not in (None, (), []):
        sourced = isinstance(value, (Figure, Count))
        yield Row(label, _text(value), value.provenance if sourced else None)


def _joined(label: str, key: str) -> str:
    return f"{label} {key}".strip().replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, Figure):
        return value.text
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Choice):
        return value.text
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return str(value)


def _derived_rows(entry: Description) -> Iterator[Row]:
    for key, value in derived(entry).items():
        if key == "parameters_by_part":
            yield from (
                Row(_PARTS.get(part, f"  in {part.replace('_', ' ')}"), f"{count:,}")
                for part, count in value.items()
                if count
            )
        elif key == "achieved_fraction":
            yield from (
                Row(f"achieved {dtype}", f"{part:.1%} of peak") for dtype, part in value.items()
            )
        elif key == "nic_bytes_per_s_per_gpu":
            rate = units.format(value, Dimension.BYTES_PER_S)
            yield Row("NIC rate of a GPU", f"{rate} when all send at once")
        elif isinstance(value, int) and value:
            yield Row(key.replace("_", " "), f"{value:,}")


def _table(rows: list[Row]) -> Table:
    table = plain_table()
    for column in ("label", "value", "trust", "source", "note"):
        table.add_column(column, overflow="fold", no_wrap=column in ("value", "trust"))
    for row in rows:
        table.add_row(Text(row.label, style="cyan"), row.text, *_origin_cells(row))
    return table


def _origin_cells(row: Row) -> tuple[str, str, str]:
    provenance = row.provenance
    if provenance is None:
        return "", "", row.about
    notes = [
        row.about,
        f"stated {provenance.stated}" if provenance.stated else "",
        provenance.note or "",
        *(f"but: {other}" for other in provenance.others),
    ]
    source = " ".join(filter(None, (provenance.source, provenance.dated)))
    return str(provenance.trust), source, "; ".join(filter(None, notes))


def sources_used(entry: Description, rows: list[Row]) -> list[str]:
    """Keys of the sources that `rows`, or the whole entry, rest on."""
    stated = [row.provenance.source for row in rows if row.provenance]
    whole = (getattr(entry, "provenance", None) or {}).get("source")
    known = sources()
    return [key for key in dict.fromkeys([whole, *stated]) if key in known]


def _source_table(keys: list[str]) -> Table:
    table = plain_table()
    for key in keys:
        source = sources()[key]
        table.add_row(
            Text(f"  {key}", style="cyan"),
            f"{source['title']}. {source['author']}, {source['date']}. {source['where']}",
        )
    return table
