"""Every kind of fabric for a number of GPUs, and the one that is proposed.

Holds `sized`, `options`, `proposed`, `refusal` with `Refusal`, and `least_radix`. `kept`, a fabric
whose leaves keep their nodes when cables up are taken away; `sized_named`, a kind of fabric for the
nodes of a cluster; `ratios_of`, the oversubscription that a cluster's own fabric says.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from syncwall.describe import Cluster
from syncwall.plan.choices import KINDS, FabricKind
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.sized import NOTHING, PartRates, Sized
from syncwall.plan.fabric.tree import dragonfly, fat_tree, rail_only, rail_optimised
from syncwall.problems import InputError

PORTS: Final = (64, 128)
"""Ports of the switches that are tried, at the NICs' rate."""
SAVED: Final = 0.05
"""Share of switches and cables together from which on another tree is worth giving up rails."""
_MOST_PORTS: Final = 4096
"""Beyond any switch that is sold."""


class Refusal(StrEnum):
    """Why a kind is not offered."""

    TOO_MANY = "more GPUs than it can connect"
    NOT_NEEDED = "fewer tiers are enough"
    NO_RAILS = "one NIC a node makes no rails"
    NO_SCALE_UP = "nothing inside a node forwards between rails"


def sized(kind: FabricKind, wiring: Wiring, gpus: Any) -> Sized:
    """The fabric of one kind for `gpus`, a number or an array of them."""
    if kind == "fat-tree-2":
        return fat_tree(wiring, gpus, 2)
    if kind == "fat-tree-3":
        return fat_tree(wiring, gpus, 3)
    makers = {"rail-optimised": rail_optimised, "rail-only": rail_only, "dragonfly": dragonfly}
    return makers[kind](wiring, gpus)


def options(wiring: Wiring, gpus: int) -> dict[FabricKind, Sized]:
    """Every kind for one number of GPUs, the impossible ones too."""
    return {kind: sized(kind, wiring, [gpus]).at(0) for kind in KINDS}


def refusal(one: Sized) -> Refusal | None:
    """Why a fabric for one number of GPUs is not possible; None if it is."""
    if one.possible:
        return None
    if one.kind.startswith("rail") and one.shape["rails"] == 1:
        return Refusal.NO_RAILS
    if one.kind == "rail-only" and not one.wiring.scale_up:
        return Refusal.NO_SCALE_UP
    return Refusal.NOT_NEEDED if one.kind == "fat-tree-3" and one.tiers < 3 else Refusal.TOO_MANY


def proposed(
    found: Mapping[FabricKind, Sized], prices: PartRates = NOTHING, copper: tuple[str, ...] = ()
) -> Sized | None:
    """The tree to build: the cheapest where all parts have a price; else rails, unless another one
    saves more than `SAVED` of the switches and cables. Where none can be, a dragonfly.

    A leaf of rails that breaks cuts no GPU off. A dragonfly has half the bisection and needs
    adaptive routing, rails alone need GPUs that forward: so the latter comes last. None if nothing
    is possible.
    """
    possible = [found[kind] for kind in KINDS if kind in found and found[kind].possible]
    joined = [one for one in possible if one.joins_all]
    trees = [one for one in joined if one.kind != "dragonfly"]
    best = trees or joined or possible
    if not best:
        return None
    bills = [prices.bill(one, copper) for one in best]
    if prices.stated and not any(bill.left_out for bill in bills):
        return min(zip(bills, best, strict=True), key=lambda pair: float(pair[0].total))[1]
    fewest = min(best, key=lambda one: one.total_switches)
    rails = next((one for one in best if one.kind == "rail-optimised"), fewest)
    counts = (one.total_switches + one.total_cables for one in (fewest, rails))
    return fewest if next(counts) < (1.0 - SAVED) * next(counts) else rails


def least_radix(kind: FabricKind, wiring: Wiring, gpus: int) -> int | None:
    """Ports that every switch needs for `kind` to connect `gpus`; None if none is enough."""
    low, high = 4, _MOST_PORTS
    if not _reaches(kind, wiring, gpus, high):
        return None
    while low < high:
        middle = (low + high) // 2
        if _reaches(kind, wiring, gpus, middle):
            high = middle
        else:
            low = middle + 1
    return high


def _reaches(kind: FabricKind, wiring: Wiring, gpus: int, radix: int) -> bool:
    grown = wiring.grown_nodes(gpus) * wiring.gpus_per_node
    return bool(sized(kind, replace(wiring, radix=(radix,) * 3), [gpus]).most_gpus >= grown)


def kept(kind: FabricKind, wiring: Wiring, gpus: int, oversubscription: tuple[float, float]) -> Sized:
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


def sized_named(
    kind: FabricKind, cluster: Cluster, oversubscription: tuple[float, float] = (1.0, 1.0)
) -> Sized:
    """The fabric of one kind that joins the nodes of `cluster`, of the smallest usual switches."""
    for ports in PORTS:
        one = kept(kind, wiring_of(cluster, (ports,) * 3), cluster.gpus, oversubscription)
        if one.possible:
            return one
    message = f"no {kind} of switches with {PORTS[0]} to {PORTS[-1]} ports joins"
    raise InputError.of(f"{message} {cluster.nodes} nodes")


def ratios_of(cluster: Cluster) -> tuple[float, float]:
    """The oversubscription of leaves and of spines that a cluster's own fabric says."""
    fabric = cluster.fabric

    def met_by(nodes: float) -> float:
        """What traffic among so many neighbouring nodes meets."""
        reached = [1.0, *(float(tier.nodes or "inf") for tier in fabric.tiers)]
        ratios = (t.oversubscription for t, at in zip(fabric.tiers, reached, strict=False) if nodes > at)
        return max(1.0, *ratios, 1.0)

    whole = met_by(cluster.nodes)
    if len(fabric.tiers) < 3:
        return whole, 1.0
    to_spine = met_by(min(cluster.nodes, fabric.tiers[1].nodes or cluster.nodes))
    return to_spine, whole / to_spine
