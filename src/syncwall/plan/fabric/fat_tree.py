"""Fat trees in which all NICs of a node hang on neighbouring ports of one leaf.

Holds `fat_tree`.
"""

from typing import Any, Literal

import numpy as np

from syncwall.plan.fabric.question import Wiring, ceil
from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.tree import tree


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
            "leaf": made.grown_leaves, "spine": made.grown_spines, "core": made.grown_cores,
        },
        bisection_share=made.share,
        hops=made.hops,
        shape={
            "rails": 1, "pods": made.pods,
            "down": np.where(alone, leaf_radix, down), "up": made.leaf_up,
            "spine_down": spine_down, "spine_up": made.spine_up,
            "leaf_nodes": np.where(alone, wiring.grown_nodes(gpus), down // wiring.nics_per_node),
            "pod_nodes": down * spine_down // wiring.nics_per_node,
        },
    )  # fmt: skip
