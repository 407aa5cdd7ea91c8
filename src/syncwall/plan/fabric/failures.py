"""What one failure takes from a fabric.

Holds `Loss` and `losses`.
"""

from dataclasses import dataclass

from syncwall.plan.fabric.sized import Sized


@dataclass(frozen=True, slots=True)
class Loss:
    """The effect of one broken part."""

    part: str
    """The switch's tier, or the ends of the cable."""
    gpus: int
    """GPUs that notice it."""
    share: float
    """Of their rate: to everybody, or (`beyond`) through the tier that broke."""
    beyond: str = ""
    """What the lost rate led to; empty if everywhere, so that a share of 1 cuts GPUs off."""


def losses(one: Sized) -> list[Loss]:
    """One line for each kind of part, the widest effect first within switches and cables."""
    return _dragonfly(one) if one.kind == "dragonfly" else _tree(one)


def _tree(one: Sized) -> list[Loss]:
    shape, wiring = one.shape, one.wiring
    a_node = wiring.gpus_per_node
    found = [_leaf(one)]
    leaf_gpus = min(shape["leaf_nodes"] * a_node, one.gpus)
    copies = shape["rails"] if one.kind == "rail-only" else 1
    spines, cores = one.switches["spine"] // copies, one.switches["core"] // copies
    if spines:
        in_pod = spines // shape["pods"]
        pod_gpus = min(shape["pod_nodes"] * a_node, one.gpus) if cores else one.gpus
        found.append(Loss("spine", pod_gpus, 1 / in_pod / copies, "other leaves"))
    if cores:
        found.append(Loss("core", one.gpus, 1 / cores / copies, "other pods"))
    found.append(Loss("node-leaf", a_node, 1 / wiring.nics_per_node))
    if spines:
        affected = leaf_gpus if shape["rails"] == 1 else leaf_gpus // wiring.nics_per_node
        found.append(Loss("leaf-spine", max(affected, 1), 1 / shape["up"], "other leaves"))
    return found


def _leaf(one: Sized) -> Loss:
    """A leaf takes all NICs of its nodes, or with rails one NIC of each node of its group."""
    wiring = one.wiring
    gpus = min(max(one.shape["leaf_nodes"], 1) * wiring.gpus_per_node, one.gpus)
    if one.shape["rails"] == 1:
        return Loss("leaf", gpus, 1.0)
    return Loss("leaf", gpus, 1 / one.shape["rails"])


def _dragonfly(one: Sized) -> list[Loss]:
    shape, wiring = one.shape, one.wiring
    per_nic = wiring.gpus_per_node / wiring.nics_per_node
    router_gpus = min(round(shape["down"] * per_nic), one.gpus)
    found = [
        Loss("router", router_gpus, 1.0),
        Loss("node-router", wiring.gpus_per_node, 1 / wiring.nics_per_node),
        Loss("local", router_gpus, 1 / (shape["group"] - 1), "its group"),
    ]
    if shape["pods"] > 1:
        links = shape["group"] * shape["up"] / (shape["pods"] - 1)
        group_gpus = min(shape["pod_nodes"] * wiring.gpus_per_node, one.gpus)
        found.append(Loss("global", group_gpus, 1 / max(links, 1.0), "one other group"))
    return found
