"""Which part of a fabric is joined to which.

Holds `Wired`, the places of nodes, NICs, leaves, spines and cores of a sized fabric, and `kept`, a
wiring whose leaves keep their nodes when cables up are taken away. Parts are counted from 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.options import sized
from syncwall.plan.fabric.question import Wiring
from syncwall.plan.fabric.sized import Sized


def kept(
    kind: FabricKind, wiring: Wiring, gpus: int, oversubscription: tuple[float, float]
) -> Sized:
    """The fabric with these ratios in which every node stays on the leaf that it has without them.

    `sized` would give the ports that become free to more nodes: then a leaf reaches further, and a
    run may even become faster. Where nothing stands above a leaf, and for a dragonfly, whose ratio
    is that of its balance, the ratio changes nothing.
    """
    full = replace(wiring, oversubscription=(1.0, oversubscription[1]))
    one = sized(kind, full, [gpus]).at(0)
    if kind == "dragonfly" or one.tiers == 1:
        return one
    down, _ = full.ports(0)
    up = min(down, -int(-down / oversubscription[0] // 1))
    fewer = (min(down + up, wiring.radix[0]), *wiring.radix[1:])
    ratios = (max(oversubscription[0], down / up), oversubscription[1])
    return sized(kind, replace(wiring, radix=fewer, oversubscription=ratios), [gpus]).at(0)


@dataclass(frozen=True)
class Wired:
    """The joints of one sized fabric."""

    one: Sized

    @property
    def is_dragonfly(self) -> bool:
        """True if routers join each other, and not spines above them."""
        return self.one.kind == "dragonfly"

    @property
    def nodes(self) -> int:
        """Nodes that are joined."""
        return int(self.one.nodes)

    @property
    def nics(self) -> int:
        """NICs of a node."""
        return self.one.wiring.nics_per_node

    @property
    def leaves(self) -> int:
        """Switches that nodes hang on."""
        return int(self.one.switches["router" if self.is_dragonfly else "leaf"])

    @property
    def spines(self) -> int:
        """Switches above them."""
        return int(self.one.switches.get("spine", 0))

    @property
    def cores(self) -> int:
        """Switches above these."""
        return int(self.one.switches.get("core", 0))

    @property
    def planes(self) -> int:
        """Trees that nothing joins: one, or one for each rail."""
        return int(self.one.shape["rails"]) if self.one.kind == "rail-only" else 1

    @property
    def up(self) -> int:
        """Cables up of a leaf."""
        return 0 if self.is_dragonfly else int(self.one.shape["up"])

    @property
    def pod_spines(self) -> int:
        """Spines that one leaf is joined to."""
        return self.spines // (int(self.one.shape["pods"]) * self.planes) if self.spines else 0

    @property
    def cables_to_spine(self) -> int:
        """Cables between a leaf and each spine above it."""
        return self.up // self.pod_spines if self.pod_spines else 0

    def leaf_of(self, node: int, nic: int) -> int:
        """The leaf of a NIC."""
        down, kind = int(self.one.shape["down"]), self.one.kind
        if kind == "rail-optimised":
            return node // down * self.nics + nic
        if kind == "rail-only":
            together = self.one.wiring.domain_nodes
            rail = node % together * self.nics + nic
            return rail * self._in_plane + node // together // down
        return (node * self.nics + nic) // down

    def rail_of(self, leaf: int) -> int | None:
        """The rail of a leaf; None where there are none."""
        if self.one.kind == "rail-optimised":
            return leaf % self.nics
        return leaf // self._in_plane if self.one.kind == "rail-only" else None

    def ends(self, leaf: int) -> int:
        """NICs on a leaf."""
        down = int(self.one.shape["down"])
        if self.one.kind == "rail-optimised":
            before, ends = leaf // self.nics, self.nodes
        elif self.one.kind == "rail-only":
            first = leaf // self._in_plane // self.nics
            before, ends = leaf % self._in_plane, self._domains(first)
        else:
            before, ends = leaf, self.nodes * self.nics
        return max(0, min(down, ends - before * down))

    def nodes_of(self, leaf: int) -> range:
        """Nodes with a NIC on a leaf, from the first to the last."""
        down, ends = int(self.one.shape["down"]), self.ends(leaf)
        if self.one.kind == "rail-optimised":
            first = leaf // self.nics * down
            return range(first, first + ends)
        if self.one.kind == "rail-only":
            together = self.one.wiring.domain_nodes
            first = leaf // self._in_plane // self.nics + leaf % self._in_plane * down * together
            return range(first, first + ends * together, together)
        first = leaf * down
        return range(first // self.nics, -(-(first + ends) // self.nics) if ends else 0)

    def unit_of(self, node: int) -> int:
        """Nodes that reach each other without a spine form a unit; of a dragonfly, its group."""
        leaf = self.leaf_of(node, 0)
        if self.is_dragonfly:
            return leaf // int(self.one.shape["group"])
        if self.one.kind == "rail-optimised":
            return leaf // self.nics
        return leaf % self._in_plane if self.one.kind == "rail-only" else leaf

    def pod_of(self, leaf: int) -> int:
        """The set of spines that a leaf is joined to."""
        pods, rails = int(self.one.shape["pods"]), int(self.one.shape["rails"])
        if self.one.kind == "rail-only":
            place = leaf % self._in_plane // int(self.one.shape["spine_down"])
            return leaf // self._in_plane * pods + (place if pods > 1 else 0)
        if pods == 1 or self.is_dragonfly:
            return 0
        return leaf // (int(self.one.shape["spine_down"]) // rails * rails)

    def spines_of(self, leaf: int) -> range:
        """Spines that a leaf is joined to."""
        first = self.pod_of(leaf) * self.pod_spines
        return range(first, first + self.pod_spines)

    def cores_of(self, spine: int) -> range:
        """Cores that a spine is joined to: those of its place in the pod."""
        if not self.cores:
            return range(0)
        each = self.cores // self.planes // self.pod_spines
        plane = spine // (self.spines // self.planes)
        first = plane * (self.cores // self.planes) + spine % self.pod_spines * each
        return range(first, first + each)

    def plane_of(self, leaf: int) -> int:
        """The tree that a leaf belongs to."""
        return leaf // self._in_plane if self.one.kind == "rail-only" else 0

    def leaves_of(self, nodes: Iterable[int], nics: Iterable[int]) -> list[int]:
        """Leaves of some NICs of some nodes, in order."""
        nics = list(nics)
        return sorted({self.leaf_of(node, nic) for node in nodes for nic in nics})

    @property
    def _in_plane(self) -> int:
        return self.leaves // self.planes

    def _domains(self, first: int) -> int:
        """Scale-up domains that have a node in place `first`."""
        return max(0, -(-(self.nodes - first) // self.one.wiring.domain_nodes))
