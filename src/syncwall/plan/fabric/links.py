"""A sized fabric as links.

Holds `links_of_sized`, and `sized_named` with `fabric_named`: a kind of fabric for the nodes of a
cluster.
"""

from typing import Final

import numpy as np

from syncwall.describe import Cluster
from syncwall.network.links import Links, links_of
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.question import wiring_of
from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.wired import Wired, kept
from syncwall.problems import InputError

PORTS: Final = (64, 128)
"""Ports of the switches that are tried, at the NICs' rate."""


def fabric_named(
    kind: FabricKind, cluster: Cluster, oversubscription: tuple[float, float] = (1.0, 1.0)
) -> Links:
    """The links of a fabric of one kind that joins the nodes of `cluster`."""
    return links_of_sized(sized_named(kind, cluster, oversubscription))


def sized_named(
    kind: FabricKind, cluster: Cluster, oversubscription: tuple[float, float] = (1.0, 1.0)
) -> Sized:
    """The fabric of one kind that joins the nodes of `cluster`, of the smallest usual switches."""
    gpus = cluster.nodes * cluster.node.gpus
    for ports in PORTS:
        one = kept(kind, wiring_of(cluster, (ports,) * 3), gpus, oversubscription)
        if one.possible:
            return one
    message = f"no {kind} of switches with {PORTS[0]} to {PORTS[-1]} ports joins"
    raise InputError.of(f"{message} {cluster.nodes} nodes")


def links_of_sized(one: Sized) -> Links:
    """Every NIC and every cable; switches are named as in `plan fabric`."""
    wired = Wired(one)
    nic = np.arange(wired.nodes * wired.nics)
    nodes = [str(number + 1) for number in range(wired.nodes)]
    rate, kind = one.wiring.nic_bytes_per_s, one.kind
    place = wired.leaf_of(nic // wired.nics, nic % wired.nics)  # type: ignore[arg-type]
    if wired.is_dragonfly:
        size = int(one.shape["group"])
        names = [f"router:{number + 1}" for number in range(wired.leaves)]
        group = np.arange(wired.leaves) // size
        pairs = _dragonfly(wired.leaves, size, int(one.shape["up"]))
        return links_of(nodes, place, rate, names, [(*ends, rate) for ends in pairs], group=group)
    counts = {"leaf": wired.leaves, "spine": wired.spines, "core": wired.cores}
    names = [f"{tier}:{number + 1}" for tier, count in counts.items() for number in range(count)]
    pairs = _up(wired) * wired.cables_to_spine + _to_cores(wired)
    cables = [(low, high, rate) for low, high in pairs]
    rails = kind in ("rail-optimised", "rail-only")
    return links_of(nodes, place, rate, names, cables, rails=rails, forwards=kind == "rail-only")


def _up(wired: Wired) -> list[tuple[int, int]]:
    return [
        (leaf, wired.leaves + spine)
        for leaf in range(wired.leaves)
        for spine in wired.spines_of(leaf)
    ]


def _to_cores(wired: Wired) -> list[tuple[int, int]]:
    above, found = wired.leaves + wired.spines, []
    for spine in range(wired.spines if wired.cores else 0):
        cores = wired.cores_of(spine)
        each = int(wired.one.shape["spine_up"]) // len(cores)
        found += [(wired.leaves + spine, above + core) for core in cores for _ in range(each)]
    return found


def _dragonfly(routers: int, size: int, links: int) -> list[tuple[int, int]]:
    """Routers of a group are all joined; cables between groups go round the routers of each."""
    groups = [range(first, min(first + size, routers)) for first in range(0, routers, size)]
    found = [(a, b) for group in groups for a in group for b in group if a < b]
    turn = [0] * len(groups)
    for one, first in enumerate(groups):
        for other in range(one + 1, len(groups)):
            second = groups[other]
            for _ in range(max(1, min(len(first), len(second)) * links // (len(groups) - 1))):
                found.append((first[turn[one] % len(first)], second[turn[other] % len(second)]))
                turn[one] += 1
                turn[other] += 1
    return found
