"""A fabric of one kind, counted.

Holds `Sized`: switches, cables, bandwidth and hops, for one number of GPUs or for arrays of them.
`PartRates` and `FabricTotal`: what a fabric costs and draws, as far as prices and powers are
stated. Nothing is assumed: a part without a price is named, not guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.question import Wiring

OPTICS_PER_CABLE = 2
"""One transceiver at each end of an optical cable."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Counts of one kind of fabric; all values broadcast over the numbers of GPUs."""

    kind: FabricKind
    wiring: Wiring
    gpus: Any
    possible: Any
    """True where the kind connects that many GPUs, and a smaller one of its family does not."""
    most_gpus: int
    """GPUs that the kind can connect at all."""
    tiers: Any
    """Levels of switches; 0 for a dragonfly, which has none."""
    switches: dict[str, Any]
    """To buy now, by tier: the highest tier for the grown number, all below for today's."""
    cables: dict[str, Any]
    """To buy now, by the two ends; up-links of every switch that is bought are all laid."""
    grown_switches: dict[str, Any]
    """After the growth."""
    bisection_share: Any
    """Rate between two halves of the nodes over the rate of half of the NICs; 1 is full."""
    hops: Any
    """Switches between two NICs that are farthest apart."""
    shape: dict[str, Any] = field(default_factory=dict)
    """What the drawing and the failures need: ports, and switches of a pod or group."""

    @property
    def nodes(self) -> Any:
        """Nodes of today."""
        return self.wiring.nodes(self.gpus)

    @property
    def total_switches(self) -> Any:
        """All switches to buy now."""
        return sum(self.switches.values())

    @property
    def total_cables(self) -> Any:
        """All cables to buy now."""
        return sum(self.cables.values())

    def optics(self, copper: tuple[str, ...] = ()) -> Any:
        """Transceivers to buy now if the cables named in `copper` need none."""
        lit = [count for name, count in self.cables.items() if name not in copper]
        return OPTICS_PER_CABLE * sum(lit, start=np.int64(0))

    @property
    def bisection_bytes_per_s(self) -> Any:
        """Rate between two halves of the nodes, one way."""
        nics = self.nodes * self.wiring.nics_per_node
        return self.bisection_share * nics / 2 * self.wiring.nic_bytes_per_s

    @property
    def joins_all(self) -> bool:
        """True if switches join every NIC with every other, without forwarding by GPUs."""
        return self.kind != "rail-only"

    def at(self, index: int) -> "Sized":
        """The fabric for one of several numbers of GPUs."""
        size = np.size(self.gpus)

        def one(value: Any) -> Any:
            return np.broadcast_to(value, size)[index].item()

        def each(values: dict[str, Any]) -> dict[str, Any]:
            return {name: one(value) for name, value in values.items()}

        return Sized(
            self.kind, self.wiring, one(self.gpus), one(self.possible), self.most_gpus,
            one(self.tiers), each(self.switches), each(self.cables), each(self.grown_switches),
            one(self.bisection_share), one(self.hops), each(self.shape),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartRates:
    """Price (USD) or power (W) of one part; None where nobody stated it."""

    switch: float | None = None
    optic: float | None = None
    """One transceiver, one port."""
    fibre: float | None = None
    """One optical cable, without its transceivers."""
    copper: float | None = None
    """One copper cable."""

    @classmethod
    def watts(cls, stated: Mapping[str, float]) -> "PartRates":
        """Powers: once any is stated, cables draw nothing unless that is, too."""
        return cls(**{"fibre": 0.0, "copper": 0.0, **stated} if stated else {})

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

    def bill(self, one: Sized, copper: tuple[str, ...] = ()) -> "FabricTotal":
        """The sum over the parts of `one`, cables named in `copper` being of copper."""
        counts = parts(one, copper)
        known = {name: rate for name, rate in self._by_part.items() if rate is not None}
        total = sum(rate * counts.get(name, 0) for name, rate in known.items())
        return FabricTotal(total, tuple(name for name in counts if name not in known))


NOTHING: Final = PartRates()
"""No rate is stated."""


@dataclass(frozen=True, slots=True)
class FabricTotal:
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
