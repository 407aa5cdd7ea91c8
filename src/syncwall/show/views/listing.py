"""All entries of a kind as one table, and all terms.

Holds `listing_view`, `plugins_view` and `terms_view`; `headings` and `cell`: names and values of
columns as text.
"""

from collections.abc import Sequence
from typing import Any, Final

from syncwall import units
from syncwall.catalogue import CatalogueKind
from syncwall.show.blocks import Lines, View, table
from syncwall.show.records.listing import Line, listing
from syncwall.show.words.terms import terms
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
        heads, ([cell(one, line[one]) for one in columns] for line in lines),
        words=numbers[0], ends_in_words=len(columns) - 1 - numbers[-1],
        spare=tuple(reversed(heads[_KEPT:])),
    )  # fmt: skip
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
    rows = [
        (one["name"], one["group"], one["package"], one["problem"] or "in use") for one in lines
    ]
    if not rows:
        return View("Plug-ins", (Lines("", ("no installed package adds anything",)),))
    return View("Plug-ins", tuple(table(("name", "adds to", "package", ""), rows, words=4)))


def terms_view() -> View:
    """Every term with its meaning."""
    rows = ((one.name, one.meaning) for one in terms())
    return View("Terms", tuple(table(("term", "means"), rows, words=2)))
