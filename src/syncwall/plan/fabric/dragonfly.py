"""Dragonflies: groups of switches, all joined inside a group, and all groups joined.

Holds `dragonfly` and `balanced`.
Source: Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", 2008:
a switch has p ends, a - 1 links inside its group of a switches and h links to other groups;
balanced with a = 2p = 2h, it reaches ap(ah + 1) ends.
"""

from typing import Any

import numpy as np

from syncwall.plan.fabric.question import Wiring, ceil
from syncwall.plan.fabric.sized import Sized


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
            "rails": 1, "pods": groups, "down": p, "up": h, "group": a,
            "leaf_nodes": p // wiring.nics_per_node,
            "pod_nodes": a * p // wiring.nics_per_node,
        },
    )  # fmt: skip


def _switches(ends: Any, p: int, a: int, h: int) -> tuple[Any, Any]:
    """Switches and groups; the last group has enough links to meet all the others."""
    routers = ceil(ends, p)
    groups = ceil(routers, a)
    last = np.maximum(routers - (groups - 1) * a, np.minimum(ceil(groups - 1, h), a))
    return (groups - 1) * a + last, groups
