"""What a fabric costs and draws, as far as prices and powers are stated.

Holds `Rates` and `Bill`. Nothing is assumed: a part without a price is named, not guessed.
"""

from dataclasses import dataclass
from typing import Any, Final

from syncwall.plan.fabric.sized import OPTICS_PER_CABLE, Sized


@dataclass(frozen=True, slots=True)
class Rates:
    """Price (USD) or power (W) of one part; None where nobody stated it."""

    switch: float | None = None
    optic: float | None = None
    """One transceiver, one port."""
    fibre: float | None = None
    """One optical cable, without its transceivers."""
    copper: float | None = None
    """One copper cable."""

    @property
    def stated(self) -> bool:
        """True if there is anything to add up."""
        return any(rate is not None for rate in self._by_part.values())

    @property
    def _by_part(self) -> dict[str, float | None]:
        return {
            "switch": self.switch, "optic": self.optic,
            "fibre": self.fibre, "copper": self.copper,
        }  # fmt: skip

    def bill(self, one: Sized, copper: tuple[str, ...] = ()) -> "Bill":
        """The sum over the parts of `one`, cables named in `copper` being of copper."""
        counts = parts(one, copper)
        known = {name: rate for name, rate in self._by_part.items() if rate is not None}
        total = sum(rate * counts.get(name, 0) for name, rate in known.items())
        return Bill(total, tuple(name for name in counts if name not in known))


NOTHING: Final = Rates()
"""No rate is stated."""


@dataclass(frozen=True, slots=True)
class Bill:
    """A sum, and what is not in it."""

    total: Any
    left_out: tuple[str, ...]
    """Parts that are needed and have no stated rate."""


def parts(one: Sized, copper: tuple[str, ...] = ()) -> dict[str, Any]:
    """How many of each priced part are bought now; parts of which there are none are left out."""
    optics = one.optics(copper)
    fibres = optics // OPTICS_PER_CABLE
    counts = {
        "switch": one.total_switches, "optic": optics,
        "fibre": fibres, "copper": one.total_cables - fibres,
    }  # fmt: skip
    return {name: count for name, count in counts.items() if count or name != "copper"}
