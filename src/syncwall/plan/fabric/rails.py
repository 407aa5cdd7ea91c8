"""Fabrics with rails: NIC i of every node hangs on the leaves of rail i.

Holds `rail_optimised` (spines join the rails) and `rail_only` (they do not).
Sources: NVIDIA DGX SuperPOD reference architecture (a scalable unit is as many nodes as a leaf has
ports down, with a leaf for each NIC); Wang et al., "Rail-only", arXiv:2307.12169.
"""

from typing import Any

import numpy as np

from syncwall.plan.fabric.question import Kind, Wiring, ceil
from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.tree import Tree, tree


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
        "rails": rails, "down": down,
        "leaf_nodes": down, "pod_nodes": groups_in_pod * down,
    }  # fmt: skip
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
    kind: Kind, wiring: Wiring, gpus: Any, made: Tree, most: int, shape: dict[str, Any]
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
            "leaf": made.leaves * copies, "spine": made.spines * copies,
            "core": made.cores * copies,
        },
        cables={
            "node-leaf": nics,
            "leaf-spine": made.leaves * made.leaf_up * copies,
            "spine-core": made.spines * made.spine_up * copies,
        },
        grown_switches={
            "leaf": made.grown_leaves * copies, "spine": made.grown_spines * copies,
            "core": made.grown_cores * copies,
        },
        bisection_share=made.share,
        hops=made.hops,
        shape={
            "pods": made.pods, "up": made.leaf_up,
            "spine_down": spine_down, "spine_up": made.spine_up, **shape,
        },
    )  # fmt: skip
