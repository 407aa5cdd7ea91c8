"""Entries of the catalogue: all of a kind as one table, or one with the source of every
number; terms.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from syncwall import units
from syncwall.answer.published_runs import PublishedRun
from syncwall.catalogue import CatalogueKind, sources
from syncwall.describe import Effective
from syncwall.describe.base import CatalogueEntry, Count, Description, Provenance, SourcedNumber
from syncwall.describe.choice import Choice
from syncwall.describe.device import Offer, PriceList
from syncwall.describe.job import FailureCause
from syncwall.describe.layer_kinds import STANDING_IN, StackLayer
from syncwall.describe.model import Encoder, Model
from syncwall.records import derived
from syncwall.show.blocks import Block, Bullets, Heading, Lines, Paragraph, View, table
from syncwall.show.numbers import percent
from syncwall.show.records.listing import Line, listing
from syncwall.show.terms import Term, terms
from syncwall.units import Dimension

# Columns that are quantities; the others are shown as they are.
_DIMENSIONS: Final = {
    "bf16_flop_per_s": Dimension.FLOP_PER_S,
    "memory_bytes": Dimension.BYTES,
    "memory_bytes_per_s": Dimension.BYTES_PER_S,
    "scale_up_bytes_per_s": Dimension.BYTES_PER_S,
    "nic_bytes_per_s": Dimension.BYTES_PER_S,
    "rate_bytes_per_s": Dimension.BYTES_PER_S,
    "tdp_w": Dimension.WATTS,
    "host_per_operation_s": Dimension.SECONDS,
    "price_usd_per_gpu_hour": Dimension.USD_PER_GPU_HOUR,
}
_UNITS_IN_NAMES: Final = ("_flop_per_s", "_bytes_per_s", "_bytes", "_usd_per_gpu_hour", "_w", "_s")
_KEPT: Final = 2
"""Columns that the narrowest screen has."""


def listing_view(kind: CatalogueKind) -> View:
    """A line for every entry; narrow screens have fewer columns, titles go first."""
    lines = listing(kind)
    columns = list(lines[0]) if lines else []
    heads = headings(columns)
    numbers = [n for n, one in enumerate(columns) if is_number(lines, one)] or [len(columns)]
    blocks = table(
        heads,
        ([cell(one, line[one]) for one in columns] for line in lines),
        words=numbers[0],
        ends_in_words=len(columns) - 1 - numbers[-1],
        spare=tuple(reversed(heads[_KEPT:])),
    )
    return View(kind.folder, tuple(blocks))


def is_number(lines: Sequence[Line], column: str) -> bool:
    """True for a column with a number in it."""
    values = (line[column] for line in lines)
    return any(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def headings(columns: Sequence[str]) -> list[str]:
    """Names of columns for people; of two with the same name the second is the rate."""
    names: list[str] = []
    for column in columns:
        name = column
        for unit in _UNITS_IN_NAMES:
            name = name.removesuffix(unit)
        name = name.replace("_", " ")
        names.append(f"{name} rate" if name in names else name)
    return names


def cell(column: str, value: Any) -> str:
    """A value of a column with its unit."""
    if value is None:
        return "–"
    if column in _DIMENSIONS:
        return units.format(value, _DIMENSIONS[column], digits=4)
    return f"{value:,}" if isinstance(value, int) else str(value)


def plugins_view(lines: Sequence[Line]) -> View:
    """What other packages add."""
    rows = [(one["name"], one["group"], one["package"], one["problem"] or "in use") for one in lines]
    if not rows:
        return View("Plug-ins", (Lines("", ("no installed package adds anything",)),))
    return View("Plug-ins", tuple(table(("name", "adds to", "package", ""), rows, words=4)))


def terms_view() -> View:
    """Every term with its meaning."""
    rows = ((one.name, one.meaning) for one in terms())
    return View("Terms", tuple(table(("term", "means"), rows, words=2)))


CONVENTIONS = (
    "peaks are dense, a multiply-add is 2 FLOP; rates are one way; 1 GB = 1e9 bytes; "
    "trust: measured > fitted > datasheet > assumed"
)
_HEAD = ("name", "title", "note", "aliases", "provenance")  # shown apart from the table

_PARTS = {"inactive": "idle for one token", "mtp": "in multi-token prediction, extra"}


class Row(NamedTuple):
    """One line of a sheet."""

    label: str
    text: str
    provenance: Provenance | None = None
    about: str = ""
    entry: CatalogueEntry | None = None
    """The entry of the catalogue that stands here, if it is one."""
    is_part: bool = False
    """A part of the line above."""


def entry_view(entry: Description) -> View:
    """All of it."""
    follows, rows = rows_of(entry)
    note, used = getattr(entry, "note", None), sources_used(entry, rows)
    blocks: list[Block] = [
        Paragraph(_title(entry)),
        *table(("what follows", "value"), (_label_and_text(row) for row in follows), words=2),
        *table(
            ("what is stated", "value", "trust", "source and notes"),
            ((*_label_and_text(row), *_origin(row)) for row in rows),
            words=4,
        ),
        *([Lines("Note", (note,))] if note else []),
        *_sources(used),
        Lines("Units", (CONVENTIONS,), is_quiet=True),
    ]
    return View(getattr(entry, "name", type(entry).__name__), tuple(blocks))


def published_run_view(run: PublishedRun) -> View:
    """A run that somebody published: where, how fast it was, and how well it is predicted."""
    unread = () if run.cells else ("its table may not be passed on: only traits of the run are known",)
    ratio = f"{float(run.error['ratio']):.2f} of its measured time" if run.error else "never"
    lines = {
        "Run": (run.what,),
        "Measured": (run.measured or "see the source",),
        "Predicted": (ratio,),
        "Source": (run.link, *unread),
    }
    rows = ((key.replace("_", " "), text) for key, text in (run.cells or run.error).items())
    blocks = (Lines(label, said) for label, said in lines.items())
    return View(run.name, (*blocks, *table(("column", "as published"), rows, words=2)))


def term_view(term: Term) -> View:
    """What a word means."""
    lines = {
        "Term": [", ".join((term.name, *term.also))],
        "Means": [term.meaning],
        "Formula": [term.formula],
        "Unit": [term.unit],
        "Elsewhere": [f"{who}: {words}" for who, words in term.elsewhere.items()],
        "Read on": [f"docs/{term.page}"],
    }
    return View(term.name, tuple(Lines(label, tuple(said)) for label, said in lines.items() if any(said)))


def rows_of(entry: Description) -> tuple[list[Row], list[Row]]:
    """What follows from `entry`, and what stands in it."""
    stated = map(_offer, entry.offers) if isinstance(entry, PriceList) else _rows(entry, "")
    return list(_derived_rows(entry)), list(stated)


def _offer(offer: Offer) -> Row:
    """An offer in one line."""
    price = offer.price_usd_per_gpu_hour
    words = (offer.date, offer.instance, offer.region, offer.cluster)
    about = ", ".join(str(word) for word in words if word)
    origin = price.provenance if isinstance(price, SourcedNumber) else None
    return Row(f"{offer.device}, {offer.terms}", _text(price), origin, about)


def _title(entry: Description) -> str:
    if not isinstance(entry, CatalogueEntry):
        return type(entry).__name__
    also = f", also: {', '.join(entry.aliases)}" if entry.aliases else ""
    return f"{entry.title or entry.name} ({entry.name}){also}"


def _rows(value: Any, label: str) -> Iterator[Row]:
    """A line for every value inside, labelled by the keys that lead to it."""
    if isinstance(value, CatalogueEntry) and label and not isinstance(value, Encoder):
        title = f" ({value.title})" if value.title else ""
        yield Row(label, f"{value.name}{title}", entry=value)
    elif isinstance(value, Effective):
        rate, peak = value.rate_bytes_per_s, value.of_bytes_per_s
        text = f"{_text(rate)} of {_text(peak)}, {percent(value.fraction)}"
        yield Row(label, text, getattr(rate, "provenance", None), value.what)
    elif isinstance(value, FailureCause):
        text = f"{value.per_1000_days:g} a day of 1,000"
        yield Row(f"{label} {value.name}", text, None, f"per {value.per}, takes {value.takes}")
    elif isinstance(value, StackLayer):
        kept, flops = _text(value.activation_bytes), _text(value.forward_flops)
        text = f"{value.parameters:,} parameters, {flops} and {kept} a sample"
        yield Row(f"{label} {value.name}", text, None, _repeated(value))
    elif isinstance(value, Description):
        unused = STANDING_IN if isinstance(value, Model) and value.stack is not None else ()
        for name, field in type(value).model_fields.items():
            inner = getattr(value, name)
            open_ = name not in value.model_fields_set
            left_out = open_ and (inner in (False, 0, "none") or name in unused)
            if not left_out and not (isinstance(value, CatalogueEntry) and name in _HEAD):
                yield from _rows(inner, _joined(label, field.alias or name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _rows(inner, _joined(label, str(key)))
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Description):
        for number, inner in enumerate(value, 1):
            yield from _rows(inner, f"{label} {number}")
    elif value not in (None, (), []):
        sourced = isinstance(value, (SourcedNumber, Count))
        yield Row(label, _text(value), value.provenance if sourced else None)


def _repeated(layer: StackLayer) -> str:
    return f"{layer.repeat} of them" if layer.repeat > 1 else ""


def _joined(label: str, key: str) -> str:
    return f"{label} {key}".strip().replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, SourcedNumber):
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
                Row(_PARTS.get(part, f"in {part.replace('_', ' ')}"), f"{count:,}", is_part=True)
                for part, count in value.items()
                if count
            )
        elif key == "achieved_fraction":
            yield from (
                Row(f"achieved {dtype}", f"{percent(part, 1)} of peak") for dtype, part in value.items()
            )
        elif key == "nic_bytes_per_s_per_gpu":
            rate = units.format(value, Dimension.BYTES_PER_S)
            yield Row("NIC rate of a GPU", f"{rate} when all send at once")
        elif isinstance(value, int) and value:
            yield Row(key.replace("_", " "), f"{value:,}")


def _label_and_text(row: Row) -> tuple[str, str]:
    return f"· {row.label}" if row.is_part else row.label, row.text


def _origin(row: Row) -> tuple[str, str]:
    """Trust of a number, and its source with what else is to be known."""
    provenance = row.provenance
    if provenance is None:
        return "", row.about
    notes = [
        " ".join(filter(None, (provenance.source, provenance.dated))),
        row.about,
        f"stated {provenance.stated}" if provenance.stated else "",
        provenance.note or "",
        *(f"but: {other}" for other in provenance.others),
    ]
    return str(provenance.trust), "; ".join(filter(None, notes))


def sources_used(entry: Description, rows: list[Row]) -> list[str]:
    """Keys of the sources that `rows`, or the whole entry, rest on."""
    stated = [row.provenance.source for row in rows if row.provenance]
    whole = (getattr(entry, "provenance", None) or {}).get("source")
    known = sources()
    return [key for key in dict.fromkeys([whole, *stated]) if key in known]


def _sources(keys: list[str]) -> list[Block]:
    found = ((key, sources()[key]) for key in keys)
    said = (f"{key}: {s['title']}. {s['author']}, {s['date']}. {s['where']}" for key, s in found)
    return [Heading(2, "Sources"), Bullets(tuple(said))] if keys else []
