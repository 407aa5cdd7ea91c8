"""A sized fabric as links.

Holds `links_of_sized` and `fabric_named`, the links of a kind of fabric for the nodes of a cluster.
"""

from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from syncwall.describe import Cluster
from syncwall.network.graph import Links, links_of
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.options import sized, sized_named
from syncwall.plan.fabric.question import Wiring
from syncwall.plan.fabric.sized import Sized


def fabric_named(
    kind: FabricKind, cluster: Cluster, oversubscription: tuple[float, float] = (1.0, 1.0)
) -> Links:
    """The links of a fabric of one kind that joins the nodes of `cluster`."""
    return links_of_sized(sized_named(kind, cluster, oversubscription))


def links_of_sized(one: Sized) -> Links:
    """Every NIC and every cable; switches are named as in `plan fabric`, and counted from 1."""
    return _links_of(one.kind, one.wiring, int(one.gpus))


@lru_cache(maxsize=8)
def _links_of(kind: FabricKind, wiring: Wiring, gpus: int) -> Links:
    """The links of the last few fabrics are kept, with their ways."""
    one = sized(kind, wiring, [gpus]).at(0)
    rate, routers = wiring.nic_bytes_per_s, int(one.switches.get("router", 0))
    node, nic = np.divmod(np.arange(int(one.nodes) * wiring.nics_per_node), wiring.nics_per_node)
    nodes = [str(number + 1) for number in range(int(one.nodes))]
    place = _leaf_of(one, node, nic)
    if routers:
        size = int(one.shape["group"])
        names = [f"router:{number + 1}" for number in range(routers)]
        pairs = _dragonfly(routers, size, int(one.shape["up"]))
        cables = [(*ends, rate) for ends in pairs]
        group = np.arange(routers) // size + 1
        return links_of(nodes, place, rate, names, cables, group=group)
    counts = {tier: int(one.switches[tier]) for tier in ("leaf", "spine", "core")}
    names = [f"{tier}:{number + 1}" for tier, count in counts.items() for number in range(count)]
    cables = [(low, high, rate) for low, high in _tree(one, **counts)]
    rails = kind in ("rail-optimised", "rail-only")
    return links_of(nodes, place, rate, names, cables, rails=rails, forwards=kind == "rail-only")


def _planes(one: Sized) -> int:
    """Trees that nothing joins: one, or one for each rail."""
    return int(one.shape["rails"]) if one.kind == "rail-only" else 1


def _leaf_of(one: Sized, node: Any, nic: Any) -> Any:
    """The leaf or router of every NIC."""
    down, nics = int(one.shape["down"]), one.wiring.nics_per_node
    if one.kind == "rail-optimised":
        return node // down * nics + nic
    if one.kind == "rail-only":
        together = one.wiring.domain_nodes
        rail = node % together * nics + nic
        return rail * (int(one.switches["leaf"]) // _planes(one)) + node // together // down
    return (node * nics + nic) // down


def _tree(one: Sized, leaf: int, spine: int, core: int) -> list[tuple[int, int]]:
    """Every leaf has cables to all spines of its pod, every spine to the cores of its place there.

    Switches are numbered leaves first, then spines, then cores.
    """
    if not spine:
        return []
    shape, planes = one.shape, _planes(one)
    pods, in_plane = int(shape["pods"]), leaf // planes
    of_pod, down = spine // (pods * planes), int(shape["spine_down"])
    rails = int(shape["rails"]) if one.kind == "rail-optimised" else 1
    in_pod = down // rails * rails if pods > 1 else leaf
    found: list[tuple[int, int]] = []
    for number in range(leaf):
        plane, inside = divmod(number, in_plane)
        first = (plane * pods + inside // in_pod) * of_pod
        found += [(number, leaf + first + above) for above in range(of_pod)]
    found *= int(shape["up"]) // of_pod
    each = core // planes // of_pod
    for number, way in product(range(spine if core else 0), range(each)):
        first = number // (spine // planes) * (core // planes) + number % of_pod * each
        cable = (leaf + number, leaf + spine + first + way)
        found += [cable] * (int(shape["spine_up"]) // each)
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
