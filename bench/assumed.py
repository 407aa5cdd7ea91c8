"""Writes docs/reference/assumed-numbers.md from the catalogue: `python -m bench.assumed`.

Holds `PAGE` and `assumed`, its text: every number of an entry whose trust is `assumed`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syncwall import catalogue, units
from syncwall.catalogue import CatalogueKind
from syncwall.describe import lookup
from syncwall.describe.base import CatalogueEntry, Description
from syncwall.describe.provenance import Count, SourcedNumber, Trust

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "assumed-numbers.md"
READERS: dict[CatalogueKind, Any] = {
    CatalogueKind.DEVICE: lookup.device,
    CatalogueKind.LINK: lookup.link,
    CatalogueKind.CLUSTER: lookup.cluster,
    CatalogueKind.SWITCH: lookup.switch,
    CatalogueKind.PRICE: lookup.price_list,
    CatalogueKind.FAILURE: lookup.failure_rates,
}
HEAD = """# Assumed numbers

Every number of a device, link, machine, switch, price list or study of failures that nobody
publishes: derived or guessed, with how. All others have a source that states or measured them
(`syncwall show device NAME`). What a prediction takes for granted beside them stands in its line
`Assumed`; what a job does, in [its table of defaults](job.md); constants of the formulas are on
[their pages](../explanation/communication.md).

This page is made of the catalogue by `python -m bench.assumed`.
"""


def assumed() -> str:
    """The page."""
    return HEAD + "".join(map(_section, READERS))


def _section(kind: CatalogueKind) -> str:
    rows = [
        f"| `{name}` | {path} | {_text(number)} | {number.provenance.note or entry.note} |\n"
        for name in catalogue.names(kind)
        for entry in [READERS[kind](name)]
        for path, number in _numbers(entry)
        if number.provenance.trust is Trust.ASSUMED
    ]
    if not rows:
        return ""
    title = kind.folder.capitalize()
    head = f"\n## {title}: {len(rows)}\n\n| {kind} | what | value | how |\n|---|---|---|---|\n"
    return head + "".join(rows)


def _text(number: SourcedNumber | Count) -> str:
    if isinstance(number, Count):
        return f"{number:,}"
    return units.format(float(f"{number:.4g}"), number.dimension)


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number with an origin that an entry states, with the keys that lead to it."""
    if isinstance(value, Description):
        for name in type(value).model_fields:
            inner = getattr(value, name)
            if name in value.model_fields_set and not isinstance(inner, CatalogueEntry):
                yield from _numbers(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _numbers(inner, f"{path}.{index + 1}")
    elif isinstance(value, SourcedNumber | Count):
        yield path, value


if __name__ == "__main__":
    PAGE.write_text(assumed(), encoding="utf-8")
