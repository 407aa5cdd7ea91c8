"""Numbers that remember where they come from.

Holds `Trust`, `Provenance`, and the two number types that carry one: `SourcedNumber` (a float) and
`Count` (an int). Both compute like plain numbers; the result of arithmetic is a plain number.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from syncwall import catalogue, units
from syncwall.units import Dimension


class Trust(StrEnum):
    """How much a number is worth, the best first."""

    MEASURED = "measured"
    FITTED = "fitted"
    DATASHEET = "datasheet"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a number comes from."""

    trust: Trust = Trust.ASSUMED
    source: str | None = None
    """A key of the catalogue's `sources.yaml`, or free text."""
    date: str | None = None
    """When it was true or published (ISO date, year or month); that of the source if None."""
    note: str | None = None
    stated: str | None = None
    """The number as the file writes it, where that differs from the value (duplex, bits)."""
    others: tuple[str, ...] = ()
    """What other sources say, where they disagree."""

    @property
    def known_source(self) -> dict[str, Any] | None:
        """The catalogue's record of the source, if `source` is a key."""
        found = catalogue.sources().get(self.source or "")
        return found if isinstance(found, dict) else None

    @property
    def dated(self) -> str | None:
        """The date of the number, or else of its source."""
        record = self.known_source
        return self.date or (str(record["date"]) if record else None)

    def as_dict(self) -> dict[str, Any]:
        """What is known, for JSON; the source with title and place if the catalogue has them."""
        record = self.known_source or {}
        known = {
            "trust": str(self.trust),
            "source": self.source,
            "title": record.get("title"),
            "where": record.get("where"),
            "date": self.dated,
            "stated": self.stated,
            "note": self.note,
            "others": list(self.others),
        }
        return {key: value for key, value in known.items() if value not in (None, [])}


class SourcedNumber(float):
    """A float in SI units that knows what it measures and where it comes from."""

    dimension: Dimension
    provenance: Provenance

    def __new__(cls, value: float, dimension: Dimension, provenance: Provenance) -> Self:
        """Make the number `value` with what is known about it."""
        self = super().__new__(cls, value)
        self.dimension = dimension
        self.provenance = provenance
        return self

    def __getnewargs__(self) -> tuple[float, Dimension, Provenance]:  # type: ignore[override]
        """What `pickle` and `copy` make it anew from."""
        return float(self), self.dimension, self.provenance

    @property
    def text(self) -> str:
        """The value with its unit."""
        return units.format(self, self.dimension)

    @property
    def unit(self) -> str:
        """The SI unit of the value."""
        return units.si_unit(self.dimension)


class Count(int):
    """A whole number with its provenance."""

    provenance: Provenance

    def __new__(cls, value: int, provenance: Provenance) -> Self:
        """Make the number `value` with what is known about it."""
        self = super().__new__(cls, value)
        self.provenance = provenance
        return self

    def __getnewargs__(self) -> tuple[int, Provenance]:  # type: ignore[override]
        """What `pickle` and `copy` make it anew from."""
        return int(self), self.provenance
