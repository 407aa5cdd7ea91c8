"""Fabrics in closed form: fat trees of one, two and three tiers, rails, dragonflies.

Holds `Tree` (counts of one tree) and `tree`. Every leaf has cables to every spine above it, equally
many to each: so the number of spines divides a leaf's ports up. In three tiers, leaves and spines
form pods; the i-th spine of every pod is joined to the i-th set of cores in the same way. Sources:
Al-Fares et al. 2008 (k³/4 hosts, 5k²/4 switches of k ports); NVIDIA's DGX SuperPOD tables, whose
counts of spines follow from equal spreading.

`fat_tree`: fat trees in which all NICs of a node hang on neighbouring ports of one leaf.
`rail_optimised` (spines join the rails) and `rail_only` (they do not): fabrics with rails: NIC i of
every node hangs on the leaves of rail i. Sources: NVIDIA DGX SuperPOD reference architecture (a
scalable unit is as many nodes as a leaf has ports down, with a leaf for each NIC); Wang et al.,
"Rail-only", arXiv:2307.12169.

`dragonfly` and `balanced`: groups of switches, all joined inside a group, and all groups joined.
Source: Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", 2008: a
switch has p ends, a - 1 links inside its group of a switches and h links to other groups; balanced
with a = 2p = 2h, it reaches ap(ah + 1) ends.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.question import Wiring, ceil
from syncwall.plan.fabric.sized import Sized


@dataclass(frozen=True, slots=True)
class Tree:
    """Switches of a tree, today and grown; arrays broadcast."""

    tiers: Any
    possible: Any
    leaves: Any
    spines: Any
    cores: Any
    grown_leaves: Any
    grown_spines: Any
    grown_cores: Any
    leaf_up: Any
    """Ports up of a leaf; 0 for a tree of one switch."""
    spine_up: Any
    """Ports up of a spine; 0 in two tiers."""
    pods: Any
    """Groups of leaves and spines in three tiers, else 1."""
    share: Any
    """Rate up through the narrowest tier over the rate down to the NICs, at most 1."""

    @property
    def hops(self) -> Any:
        """Switches between the two ends farthest apart."""
        return 2 * self.tiers - 1


def tree(wiring: Wiring, leaves: Any, grown_leaves: Any, *, alone: Any = False, pod_leaves: int) -> Tree:
    """The tree above `leaves`, with room for `grown_leaves`; `alone` where one switch does.

    `pod_leaves` is how many leaves of three tiers form a pod, at most a spine's ports down.
    """
    down, up = wiring.ports(0)
    spine_down, spine_up = wiring.ports(1)
    _, spine_radix, core_radix = wiring.radix
    leaves, grown = np.asarray(leaves), np.asarray(grown_leaves)
    pods, grown_pods = ceil(leaves, max(pod_leaves, 1)), ceil(grown, max(pod_leaves, 1))
    tiers = np.where(alone, 1, np.where(grown <= spine_radix, 2, 3))
    flat = next_divisor(up, ceil(grown * up, spine_radix))
    cores = up * next_divisor(spine_up, ceil(grown_pods * spine_up, core_radix))
    tall = tiers == 3
    share = np.where(tall, _share(up, down) * _share(spine_up, spine_down), _share(up, down))
    return Tree(
        tiers=tiers,
        possible=~tall | ((grown_pods <= core_radix) & (pod_leaves > 0)),
        leaves=np.where(alone, 1, leaves),
        spines=np.where(tall, pods * up, np.where(alone, 0, flat)),
        cores=np.where(tall, cores, 0),
        grown_leaves=np.where(alone, 1, grown),
        grown_spines=np.where(tall, grown_pods * up, np.where(alone, 0, flat)),
        grown_cores=np.where(tall, cores, 0),
        leaf_up=np.where(alone, 0, up),
        spine_up=np.where(tall, spine_up, 0),
        pods=np.where(tall, pods, 1),
        share=np.where(alone, 1.0, share),
    )


def next_divisor(number: int, least: Any) -> Any:
    """The smallest divisor of `number` that is at least `least`; `number` if there is none."""
    divisors = np.array([part for part in range(1, number + 1) if number % part == 0])
    return divisors[np.minimum(np.searchsorted(divisors, least), len(divisors) - 1)]


def _share(up: int, down: int) -> float:
    return min(1.0, up / down)


def fat_tree(wiring: Wiring, gpus: Any, tiers: Literal[2, 3]) -> Sized:
    """A fat tree of two tiers (of one switch where that is enough), or of three."""
    down, _ = wiring.ports(0)
    spine_down, _ = wiring.ports(1)
    leaf_radix, spine_radix, core_radix = wiring.radix
    nics = wiring.nodes(gpus) * wiring.nics_per_node
    grown = wiring.grown_nodes(gpus) * wiring.nics_per_node
    alone = grown <= leaf_radix
    made = tree(wiring, ceil(nics, down), ceil(grown, down), alone=alone, pod_leaves=spine_down)
    most = {2: spine_radix, 3: core_radix * spine_down}[tiers] * down
    fits = (made.tiers <= 2) if tiers == 2 else (made.tiers == 3) & made.possible
    return Sized(
        kind="fat-tree-2" if tiers == 2 else "fat-tree-3",
        wiring=wiring,
        gpus=gpus,
        possible=fits,
        most_gpus=most // wiring.nics_per_node * wiring.gpus_per_node,
        tiers=made.tiers,
        switches={"leaf": made.leaves, "spine": made.spines, "core": made.cores},
        cables={
            "node-leaf": nics,
            "leaf-spine": made.leaves * made.leaf_up,
            "spine-core": np.where(made.spine_up, made.spines * made.spine_up, 0),
        },
        grown_switches={
            "leaf": made.grown_leaves,
            "spine": made.grown_spines,
            "core": made.grown_cores,
        },
        bisection_share=made.share,
        hops=made.hops,
        shape={
            "rails": 1,
            "pods": made.pods,
            "down": np.where(alone, leaf_radix, down),
            "up": made.leaf_up,
            "spine_down": spine_down,
            "spine_up": made.spine_up,
            "leaf_nodes": np.where(alone, wiring.grown_nodes(gpus), down // wiring.nics_per_node),
            "pod_nodes": down * spine_down // wiring.nics_per_node,
        },
    )


def rail_optimised(wiring: Wiring, gpus: Any) -> Sized:
    """Groups of nodes with a leaf for each NIC; spines, and cores if need be, above all leaves.

    In three tiers a pod holds whole groups.
    """
    rails = wiring.nics_per_node
    down, _ = wiring.ports(0)
    spine_down, _ = wiring.ports(1)
    groups_in_pod = spine_down // rails
    leaves = ceil(wiring.nodes(gpus), down) * rails
    grown = ceil(wiring.grown_nodes(gpus), down) * rails
    made = tree(wiring, leaves, grown, pod_leaves=groups_in_pod * rails)
    most_leaves = max(wiring.radix[1], wiring.radix[2] * groups_in_pod * rails)
    groups = most_leaves // rails
    shape = {
        "rails": rails,
        "down": down,
        "leaf_nodes": down,
        "pod_nodes": groups_in_pod * down,
    }
    most = groups * down * wiring.gpus_per_node
    return _sized("rail-optimised", wiring, gpus, made, most, shape)


def rail_only(wiring: Wiring, gpus: Any) -> Sized:
    """Every rail a fat tree of its own; traffic between rails crosses the scale-up domain."""
    rails = wiring.nics_per_node * wiring.domain_nodes
    down, _ = wiring.ports(0)
    spine_down, _ = wiring.ports(1)
    leaf_radix, spine_radix, core_radix = wiring.radix
    ends = ceil(wiring.nodes(gpus), wiring.domain_nodes)
    grown = ceil(wiring.grown_nodes(gpus), wiring.domain_nodes)
    alone = grown <= leaf_radix
    made = tree(wiring, ceil(ends, down), ceil(grown, down), alone=alone, pod_leaves=spine_down)
    most = max(leaf_radix, down * max(spine_radix, core_radix * spine_down)) * wiring.domain_nodes
    shape = {
        "rails": rails,
        "down": np.where(alone, leaf_radix, down),
        "leaf_nodes": np.where(alone, leaf_radix, down) * wiring.domain_nodes,
        "pod_nodes": down * spine_down * wiring.domain_nodes,
    }
    most = most * wiring.gpus_per_node if wiring.scale_up else 0
    return _sized("rail-only", wiring, gpus, made, most, shape)


def _sized(
    kind: FabricKind, wiring: Wiring, gpus: Any, made: Tree, most: int, shape: dict[str, Any]
) -> Sized:
    """Counts of one tree above all rails, or of one for each of them."""
    copies = shape["rails"] if kind == "rail-only" else 1
    spine_down, _ = wiring.ports(1)
    grown_gpus = wiring.grown_nodes(gpus) * wiring.gpus_per_node
    nics = wiring.nodes(gpus) * wiring.nics_per_node
    return Sized(
        kind=kind,
        wiring=wiring,
        gpus=gpus,
        possible=made.possible & (shape["rails"] > 1) & (grown_gpus <= most),
        most_gpus=most,
        tiers=made.tiers,
        switches={
            "leaf": made.leaves * copies,
            "spine": made.spines * copies,
            "core": made.cores * copies,
        },
        cables={
            "node-leaf": nics,
            "leaf-spine": made.leaves * made.leaf_up * copies,
            "spine-core": made.spines * made.spine_up * copies,
        },
        grown_switches={
            "leaf": made.grown_leaves * copies,
            "spine": made.grown_spines * copies,
            "core": made.grown_cores * copies,
        },
        bisection_share=made.share,
        hops=made.hops,
        shape={
            "pods": made.pods,
            "up": made.leaf_up,
            "spine_down": spine_down,
            "spine_up": made.spine_up,
            **shape,
        },
    )


def balanced(radix: int, oversubscription: float = 1.0) -> tuple[int, int, int]:
    """Ends p, switches a of a group and links h to others, of switches with `radix` ports.

    a = 2h, and p at most `oversubscription` times h.
    """
    links = max(1, int((radix + 1) / (3.0 + oversubscription) + 1e-9))
    ends = min(int(links * oversubscription + 1e-9), radix + 1 - 3 * links)
    return ends, 2 * links, links


def dragonfly(wiring: Wiring, gpus: Any) -> Sized:
    """Groups filled one after the other; the last one may have fewer switches.

    Global links are spread over the other groups as evenly as possible. Half of the ends sending
    to the other half get g h / (2 p (g - 1)) of their rate in g groups: half of it in many.
    """
    p, a, h = balanced(wiring.radix[0], wiring.oversubscription[0])
    nics = wiring.nodes(gpus) * wiring.nics_per_node
    grown = wiring.grown_nodes(gpus) * wiring.nics_per_node
    switches, groups = _switches(nics, p, a, h)
    grown_switches, grown_groups = _switches(grown, p, a, h)
    full, rest = switches // a, switches % a
    several = groups > 1
    inside = min(1.0, a / (2 * p))
    between = groups * h / (2 * p * np.maximum(groups - 1, 1))
    return Sized(
        kind="dragonfly",
        wiring=wiring,
        gpus=gpus,
        possible=grown_groups <= a * h + 1,
        most_gpus=a * p * (a * h + 1) // wiring.nics_per_node * wiring.gpus_per_node,
        tiers=0 * switches,
        switches={"router": switches},
        cables={
            "node-router": nics,
            "local": full * (a * (a - 1) // 2) + rest * (rest - 1) // 2,
            "global": np.where(several, switches * h // 2, 0),
        },
        grown_switches={"router": grown_switches},
        bisection_share=np.where(several, np.minimum(inside, between), inside),
        hops=np.where(several, 4, np.minimum(switches, 2)),
        shape={
            "rails": 1,
            "pods": groups,
            "down": p,
            "up": h,
            "group": a,
            "leaf_nodes": p // wiring.nics_per_node,
            "pod_nodes": a * p // wiring.nics_per_node,
        },
    )


def _switches(ends: Any, p: int, a: int, h: int) -> tuple[Any, Any]:
    """Switches and groups; the last group has enough links to meet all the others."""
    routers = ceil(ends, p)
    groups = ceil(routers, a)
    last = np.maximum(routers - (groups - 1) * a, np.minimum(ceil(groups - 1, h), a))
    return (groups - 1) * a + last, groups
