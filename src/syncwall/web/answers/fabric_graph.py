"""A fabric as something to draw: at most some dozens of its parts, each one standing for itself.

Holds `graph`. What is broken is always drawn.
"""

from typing import Any, Final

from syncwall.plan.fabric.broken import Broken, FabricPart, left
from syncwall.plan.fabric.traffic import LinkLoad, Sent
from syncwall.plan.fabric.wired import Wired
from syncwall.show.draw.flow_parts import some

NODES: Final = 16
"""Nodes that are drawn."""
_UNITS: Final = 4
"""Units that are drawn; more where they are small."""
_NICS: Final = 8
_SPINES: Final = 8


def graph(
    broken: Broken, axes: list[Sent], links: list[LinkLoad], most_bytes: float
) -> dict[str, Any]:
    """Nodes with NICs, leaves, spines and cores that are drawn, and the use of their links.

    `most_bytes` is what one NIC or cable can send in a step.
    """
    wired = broken.wired
    nodes, nics = _nodes(broken), _nics(broken)
    hurt = [p.number for p in broken.parts if p.kind in ("leaf", "link")]
    leaves = sorted({*wired.leaves_of(nodes, nics), *hurt})
    spines = _spines(broken, leaves)
    cores = some(range(wired.cores), _SPINES, [p.number for p in broken.parts if p.kind == "core"])
    full = (len(nodes), len(leaves), len(spines), len(cores)) == (
        wired.nodes, wired.leaves, wired.spines, wired.cores,
    ) and len(nics) == wired.nics  # fmt: skip
    busy = {load.link: load for load in links}
    return {
        "full": full,
        "says": _says(wired, full, nodes, leaves, spines, nics),
        "unit": _unit(wired), "gpus_per_node": wired.one.wiring.gpus_per_node,
        "nics_per_node": wired.nics, "most_bytes": most_bytes,
        "counts": {"node": wired.nodes, "leaf": wired.leaves, "spine": wired.spines,
                   "core": wired.cores},
        "units": {
            str(unit): len(_members(wired, unit))
            for unit in sorted({wired.unit_of(node) for node in nodes})
        },
        "nodes": [_node(broken, node, nics, busy) for node in nodes],
        "leaves": [_leaf(broken, leaf, busy) for leaf in leaves],
        "spines": [
            {"id": FabricPart("spine", spine).name, "number": spine + 1,
             "pod": spine // wired.pod_spines, "failed": broken.has("spine", spine)}
            for spine in spines
        ],
        "cores": [
            {"id": FabricPart("core", core).name, "number": core + 1,
             "failed": broken.has("core", core)}
            for core in cores
        ],
        "links": [
            {"id": FabricPart("link", leaf, spine).name, "leaf": leaf + 1, "spine": spine + 1,
             "cables": wired.cables_to_spine, "failed": broken.has("link", leaf, spine),
             "dead": broken.has("leaf", leaf) or broken.has("spine", spine)}
            for leaf in leaves for spine in spines if spine in wired.spines_of(leaf)
        ],
        "trunks": [
            {"spine": spine + 1, "core": core + 1}
            for spine in spines for core in cores if core in wired.cores_of(spine)
        ],
        "axes": [one.axis for one in axes],
        "dragonfly": wired.is_dragonfly,
    }  # fmt: skip


def _nodes(broken: Broken) -> list[int]:
    """All of few nodes; of many some of the first units and of the last."""
    wired = broken.wired
    hurt = [p.number for p in broken.parts if p.kind in ("node", "nic")]
    for part in broken.parts:
        if part.kind in ("leaf", "link"):
            hurt += wired.nodes_of(part.number)[:1]
    if wired.nodes <= NODES:
        return list(range(wired.nodes))
    last = wired.unit_of(wired.nodes - 1)
    units = some(range(last + 1), max(_UNITS, NODES // len(_members(wired, 0))))
    found: set[int] = set(hurt)
    for unit in units:
        members = _members(wired, unit)
        found |= set(some(members, NODES // len(units)))
    return sorted(found)


def _members(wired: Wired, unit: int) -> range:
    """Nodes of a unit: they stand side by side."""
    return range(_first(wired, unit), _first(wired, unit + 1))


def _first(wired: Wired, unit: int) -> int:
    low, high = 0, wired.nodes
    while low < high:
        middle = (low + high) // 2
        if wired.unit_of(middle) >= unit:
            high = middle
        else:
            low = middle + 1
    return low


def _nics(broken: Broken) -> list[int]:
    hurt = [p.second for p in broken.parts if p.kind == "nic"]
    return some(range(broken.wired.nics), _NICS, hurt)


def _spines(broken: Broken, leaves: list[int]) -> list[int]:
    wired = broken.wired
    hurt = {p.number for p in broken.parts if p.kind == "spine"}
    hurt |= {p.second for p in broken.parts if p.kind == "link"}
    pods = sorted({wired.pod_of(leaf) for leaf in leaves}) if wired.spines else []
    most = max(1, 2 * _SPINES // len(pods)) if len(pods) > 1 else _SPINES
    found = set(hurt)
    for pod in pods:
        found |= set(some(range(pod * wired.pod_spines, (pod + 1) * wired.pod_spines), most))
    return sorted(found)


def _node(broken: Broken, node: int, nics: list[int], busy: dict[str, LinkLoad]) -> dict[str, Any]:
    wired = broken.wired
    near = left(broken, [node]).near
    return {
        "id": FabricPart("node", node).name, "number": node + 1, "unit": wired.unit_of(node),
        "domain": node // wired.one.wiring.domain_nodes, "failed": broken.has("node", node),
        "working": round(near * wired.nics),
        "utilisation": _shared(busy.get("nic"), near),
        "nics": [
            {"id": FabricPart("nic", node, nic).name, "number": nic + 1,
             "leaf": wired.leaf_of(node, nic) + 1, "failed": broken.has("nic", node, nic),
             "dead": not broken.works(node, nic) or broken.has("node", node)}
            for nic in nics
        ],
    }  # fmt: skip


def _leaf(broken: Broken, leaf: int, busy: dict[str, LinkLoad]) -> dict[str, Any]:
    wired = broken.wired
    rail, ends, up = wired.rail_of(leaf), wired.ends(leaf), broken.up(leaf)
    share = up / ends * wired.ends(0) / wired.up if wired.up and ends else 0.0
    load = busy.get("local" if wired.is_dragonfly else "leaf-spine")
    return {
        "id": FabricPart("leaf", leaf).name, "number": leaf + 1,
        "rail": None if rail is None else rail + 1,
        "unit": wired.unit_of(wired.nodes_of(leaf)[0]) if ends else 0,
        "pod": wired.pod_of(leaf), "failed": broken.has("leaf", leaf), "ends": ends,
        "up": wired.up, "up_left": 0 if broken.has("leaf", leaf) else up,
        "utilisation": _shared(load, 1.0 if wired.is_dragonfly else share),
    }  # fmt: skip


def _shared(load: LinkLoad | None, share: float) -> dict[str, float]:
    """The use of links of which only a share is left; nothing goes over none."""
    if load is None or share <= 0:
        return {}
    return {axis: min(used / share, 1.0) for axis, used in load.utilisation.items() if used > 0}


def _unit(wired: Wired) -> str:
    if wired.is_dragonfly:
        return "group"
    return "leaf" if wired.one.kind.startswith("fat") else "unit"


def _says(
    wired: Wired, full: bool, nodes: list[int], leaves: list[int], spines: list[int],
    nics: list[int],
) -> str:  # fmt: skip
    """What is drawn, and what one drawn thing stands for."""
    if full:
        return "Every node, NIC, switch and bundle of cables is drawn."
    name = "routers" if wired.is_dragonfly else "leaves"
    said = [f"{len(nodes)} of {wired.nodes:,} nodes", f"{len(leaves)} of {wired.leaves:,} {name}"]
    said += [f"{len(spines)} of {wired.spines:,} spines"] if wired.spines else []
    said += [f"{len(nics)} of {wired.nics} NICs of a node"] if len(nics) < wired.nics else []
    return f"Drawn are {', '.join(said)}; each stands for itself, dots for those left out."
