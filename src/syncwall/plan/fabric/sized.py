"""A fabric of one kind, counted.

Holds `Sized`: switches, cables, bandwidth and hops, for one number of GPUs or for arrays of them.
`PartRates` and `FabricTotal`: what a fabric costs and draws, as far as prices and powers are
stated. Nothing is assumed: a part without a price is named, not guessed. `FailureEffect` and
`losses`: what one broken part of each kind takes from a fabric, in closed form. `fabric_of`: a
fabric as a cluster file states it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import numpy as np

from syncwall.describe import Fabric, Tier
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.question import Wiring
from syncwall.public import Late, published

OPTICS_PER_CABLE = 2
"""One transceiver at each end of an optical cable."""
Integers = Annotated[Any, int]
Floats = Annotated[Any, float]
"""One number, or an array of them."""


@published(
    "tiers switches cables optics bisection_share bisection_bytes_per_s hops losses",
    "total_switches total_cables",
)
@dataclass(frozen=True, slots=True)
class Sized:
    """Counts of one kind of fabric; all values broadcast over the numbers of GPUs."""

    losses = Late("plan.fabric.sized:losses")
    fabric = Late("plan.fabric.sized:fabric_of")
    kind: FabricKind
    wiring: Wiring
    gpus: Any
    possible: Annotated[Any, bool]
    """True where the kind connects that many GPUs, and a smaller one of its family does not."""
    most_gpus: int
    """GPUs that the kind can connect at all."""
    tiers: Integers
    """Levels of switches; 0 for a dragonfly, which has none."""
    switches: dict[str, Integers]
    """To buy now, by tier: the highest tier for the grown number, all below for today's."""
    cables: dict[str, Integers]
    """To buy now, by the two ends; up-links of every switch that is bought are all laid."""
    grown_switches: dict[str, Integers]
    """All of them, after the growth."""
    bisection_share: Floats
    """Rate between two halves of the nodes over the rate of half of the NICs; 1 is full."""
    hops: Integers
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

    def optics(self, copper: tuple[str, ...] = ()) -> Integers:
        """Transceivers to buy now if the cables named in `copper` need none."""
        lit = [count for name, count in self.cables.items() if name not in copper]
        return OPTICS_PER_CABLE * sum(lit, start=np.int64(0))

    @property
    def bisection_bytes_per_s(self) -> Floats:
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
            self.kind,
            self.wiring,
            one(self.gpus),
            one(self.possible),
            self.most_gpus,
            one(self.tiers),
            each(self.switches),
            each(self.cables),
            each(self.grown_switches),
            one(self.bisection_share),
            one(self.hops),
            each(self.shape),
        )


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
            "switch": self.switch,
            "optic": self.optic,
            "fibre": self.fibre,
            "copper": self.copper,
        }

    def bill(self, one: Sized, copper: tuple[str, ...] = ()) -> "FabricTotal":
        """The sum over the parts of `one`, cables named in `copper` being of copper."""
        counts = parts(one, copper)
        known = {name: rate for name, rate in self._by_part.items() if rate is not None}
        total = sum(rate * counts.get(name, 0) for name, rate in known.items())
        return FabricTotal(total, tuple(name for name in counts if name not in known))


NOTHING: Final = PartRates()
"""No rate is stated."""


@published("total without=left_out")
@dataclass(frozen=True, slots=True)
class FabricTotal:
    """A sum over what is bought now, and what is not in it."""

    total: Floats
    left_out: tuple[str, ...]
    """Parts that are needed and have no stated rate."""


def parts(one: Sized, copper: tuple[str, ...] = ()) -> dict[str, Any]:
    """How many of each priced part are bought now; parts of which there are none are left out."""
    optics = one.optics(copper)
    fibres = optics // OPTICS_PER_CABLE
    counts = {
        "switch": one.total_switches,
        "optic": optics,
        "fibre": fibres,
        "copper": one.total_cables - fibres,
    }
    return {name: count for name, count in counts.items() if count or name != "copper"}


@dataclass(frozen=True, slots=True)
class FailureEffect:
    """The effect of one broken part."""

    part: str
    """The switch's tier, or the ends of the cable."""
    gpus: int
    """GPUs that notice it."""
    share: float
    """Of their rate: to everybody, or (`beyond`) through the tier that broke."""
    beyond: str = ""
    """What the lost rate led to; empty if everywhere, so that a share of 1 cuts GPUs off."""


def losses(one: Sized) -> list[FailureEffect]:
    """What one broken part of each kind takes away, widest first within switches and cables."""
    return _dragonfly(one) if one.kind == "dragonfly" else _tree(one)


def _tree(one: Sized) -> list[FailureEffect]:
    shape, wiring = one.shape, one.wiring
    a_node = wiring.gpus_per_node
    found = [_leaf(one)]
    leaf_gpus = min(shape["leaf_nodes"] * a_node, one.gpus)
    copies = shape["rails"] if one.kind == "rail-only" else 1
    spines, cores = one.switches["spine"] // copies, one.switches["core"] // copies
    if spines:
        in_pod = spines // shape["pods"]
        pod_gpus = min(shape["pod_nodes"] * a_node, one.gpus) if cores else one.gpus
        found.append(FailureEffect("spine", pod_gpus, 1 / in_pod / copies, "other leaves"))
    if cores:
        found.append(FailureEffect("core", one.gpus, 1 / cores / copies, "other pods"))
    found.append(FailureEffect("node-leaf", a_node, 1 / wiring.nics_per_node))
    if spines:
        affected = leaf_gpus if shape["rails"] == 1 else leaf_gpus // wiring.nics_per_node
        found.append(FailureEffect("leaf-spine", max(affected, 1), 1 / shape["up"], "other leaves"))
    return found


def _leaf(one: Sized) -> FailureEffect:
    """A leaf takes all NICs of its nodes, or with rails one NIC of each node of its group."""
    wiring = one.wiring
    gpus = min(max(one.shape["leaf_nodes"], 1) * wiring.gpus_per_node, one.gpus)
    if one.shape["rails"] == 1:
        return FailureEffect("leaf", gpus, 1.0)
    return FailureEffect("leaf", gpus, 1 / one.shape["rails"])


def _dragonfly(one: Sized) -> list[FailureEffect]:
    shape, wiring = one.shape, one.wiring
    per_nic = wiring.gpus_per_node / wiring.nics_per_node
    router_gpus = min(round(shape["down"] * per_nic), one.gpus)
    found = [
        FailureEffect("router", router_gpus, 1.0),
        FailureEffect("node-router", wiring.gpus_per_node, 1 / wiring.nics_per_node),
        FailureEffect("local", router_gpus, 1 / (shape["group"] - 1), "its group"),
    ]
    if shape["pods"] > 1:
        links = shape["group"] * shape["up"] / (shape["pods"] - 1)
        nodes = max(shape["pod_nodes"], 1)  # a group with less than a node is part of one
        group_gpus = min(nodes * wiring.gpus_per_node, one.gpus)
        found.append(FailureEffect("global", group_gpus, 1 / max(links, 1.0), "one other group"))
    return found


def fabric_of(one: Sized) -> Fabric:
    """A fabric as a cluster file states it: tiers with reach and oversubscription, and rails."""
    shape, wiring = one.shape, one.wiring
    if one.kind == "dragonfly":
        reaches = [("router", shape["leaf_nodes"], 1.0)]
        reaches.append(("group", shape["pod_nodes"], 2 * shape["down"] / shape["group"]))
        if shape["pods"] > 1:
            reaches.append(("global", one.nodes, 1 / one.bisection_share))
    else:
        to_spine = max(1.0, shape["down"] / shape["up"]) if shape["up"] else 1.0
        reaches = [("leaf", shape["leaf_nodes"], 1.0)]
        if one.tiers > 1:
            reaches.append(("spine", shape["pod_nodes"] if one.tiers > 2 else one.nodes, to_spine))
        if one.tiers > 2:
            reaches.append(("core", one.nodes, 1 / one.bisection_share))
    tiers: list[Tier] = []
    for name, reach, ratio in reaches:
        last = reach >= one.nodes or name == reaches[-1][0]  # reaches everybody
        if last or reach > (int(tiers[-1].nodes or 1) if tiers else 1):
            nodes = None if last else reach
            tiers.append(Tier(name=name, nodes=nodes, oversubscription=max(1.0, ratio)))
        if last:
            break
    rails = 1 if shape["rails"] == 1 else wiring.nics_per_node
    return Fabric(rails=rails, tiers=tuple(tiers))
