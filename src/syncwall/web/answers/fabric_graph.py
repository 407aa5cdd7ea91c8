"""A fabric as something to draw: at most some dozens of its parts, each one standing for itself.

Holds `graph`. What is broken is always drawn.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from syncwall.network.graph import Ints, Links, part_named
from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.traffic import LinkLoad
from syncwall.show.draw.flows import some

NODES: Final = 16
"""Nodes that are drawn."""
_UNITS: Final = 4
"""Units that are drawn; more where they are small."""
_NICS: Final = 8
_SPINES: Final = 8
_ROWS: Final = ("leaf", "spine", "core")


def graph(
    one: Sized, links: Links, hurt: Links, failed: Iterable[str], loads: list[LinkLoad]
) -> dict[str, Any]:
    """Nodes with NICs, leaves, spines and cores that are drawn, and the use of their links.

    `hurt` are the links without what `failed`.
    """
    busy = {load.link: load.utilisation for load in loads}
    return _Picture(one, links, hurt, frozenset(failed), busy).drawn()


@dataclass(frozen=True)
class _Picture:
    one: Sized
    links: Links
    hurt: Links
    failed: frozenset[str]
    busy: dict[str, dict[str, float]]

    def drawn(self) -> dict[str, Any]:
        links = self.links
        switches, hurt_nodes, hurt_nics = self._always
        units, unit = self._units
        nodes = self._nodes(hurt_nodes)
        nics = some(range(links.nics_per_node), _NICS, hurt_nics)
        first = np.array(nodes)[:, None] * links.nics_per_node
        leaves = {*links.switch_of_nic[(first + np.array(nics)).ravel()].tolist()}
        rows = [sorted(leaves | {one for one in switches if links.tier[one] == 1})]
        rows += [rows_ := self._above(rows[0], 2, switches), self._above(rows_, 3, switches)]
        totals = [len(links.nodes), *(int((links.tier == tier).sum()) for tier in (1, 2, 3))]
        counts = dict(zip(("node", *_ROWS), totals, strict=True))
        shown = dict(zip(("node", *_ROWS), (len(nodes), *map(len, rows)), strict=True))
        full = shown == counts and len(nics) == links.nics_per_node
        return {
            "full": full,
            "says": self._says(shown, counts, len(nics), full),
            "unit": unit,
            "gpus_per_node": self.one.wiring.gpus_per_node,
            "nics_per_node": links.nics_per_node,
            "counts": counts,
            "units": {str(one): int((units == one).sum()) for one in np.unique(units[nodes])},
            "nodes": [self._node(node, nics) for node in nodes],
            "leaves": [self._leaf(leaf) for leaf in rows[0]],
            "spines": [self._switch(spine, "spine") for spine in rows[1]],
            "cores": [self._switch(core, "core") for core in rows[2]],
            "links": [*self._bundles(rows[0], rows[1])],
            "trunks": [
                {"spine": self._place(spine), "core": self._place(core)}
                for spine in rows[1]
                for core in rows[2]
                if self._joined(links, spine, core)
            ],
            "dragonfly": self.one.kind == "dragonfly",
        }

    @cached_property
    def _always(self) -> tuple[set[int], set[int], list[int]]:
        """Switches, nodes and NICs of nodes that are broken, or that a broken one stands above."""
        links, switches, nodes, nics = self.links, set[int](), set[int](), list[int]()
        for name in self.failed:
            part = part_named(links, name)
            if name.startswith(("nic:", "node:")):
                nodes |= {*part.nodes}
                nics += [int(name.rpartition("-")[2]) - 1] if name.startswith("nic:") else []
            elif name.startswith("link:"):
                switches |= {*links.ends[part.links - 2 * links.nics].ravel().tolist()}
            else:
                switches.add(part.switch)
        for switch in switches:
            nodes |= {*(np.flatnonzero(links.switch_of_nic == switch)[:1] // links.nics_per_node)}
        return switches, nodes, nics

    @cached_property
    def _units(self) -> tuple[Ints, str]:
        """Of every node its unit, in which no spine is needed, and what units are."""
        leaf, one = self.links.switch_of_nic[:: self.links.nics_per_node], self.one
        if one.kind == "dragonfly":
            return leaf // int(one.shape["group"]), "group"
        if one.kind == "rail-optimised":
            return leaf // self.links.nics_per_node, "unit"
        if one.kind == "rail-only":
            return leaf % (int(one.switches["leaf"]) // int(one.shape["rails"])), "unit"
        return leaf, "leaf"

    def _nodes(self, always: set[int]) -> list[int]:
        """All of few nodes; of many some of the first units and of the last."""
        units = self._units[0]
        if len(units) <= NODES:
            return list(range(len(units)))
        names = np.unique(units).tolist()
        chosen = some(names, max(_UNITS, NODES // int((units == names[0]).sum())))
        found = {int(node) for node in always}
        for unit in chosen:
            found |= {*some(np.flatnonzero(units == unit).tolist(), NODES // len(chosen))}
        return sorted(found)

    def _above(self, row: list[int], tier: int, always: set[int]) -> list[int]:
        """Switches of a tier that those of `row` are joined to; of several pods some of each."""
        start, end = self.links.ends.T
        up = np.unique(end[np.isin(start, row) & (self.links.tier[end] == tier)]).tolist()
        pods: dict[int, list[int]] = {}
        for switch in up:
            pods.setdefault(self._pod(switch) if tier == 2 else 0, []).append(switch)
        most = max(1, 2 * _SPINES // len(pods)) if len(pods) > 1 else _SPINES
        found = {switch for pod in pods.values() for switch in some(pod, most)}
        return sorted(found | {switch for switch in always if self.links.tier[switch] == tier})

    def _pod(self, switch: int) -> int:
        """The first leaf below a spine, which all spines of its pod stand above; of a leaf, too."""
        near = self.links.neighbours(switch)
        if self.links.tier[switch] > 1:
            return int(near[self.links.tier[near] == 1].min(initial=len(self.links.switches)))
        above = near[self.links.tier[near] == 2]
        return self._pod(int(above[0])) if len(above) else 0

    def _place(self, switch: int) -> int:
        """Its number in its tier."""
        return int(self.links.switches[switch].rpartition(":")[2])

    def _joined(self, links: Links, low: int, high: int) -> int:
        """Cables between two switches."""
        return int((links.neighbours(low) == high).sum())

    def _switch(self, switch: int, kind: str) -> dict[str, Any]:
        number = self._place(switch)
        down = {f"{kind}:{number}", self.links.switches[switch]} & self.failed
        pod = 0 if kind == "core" else self._pod(switch)
        return {"id": f"{kind}:{number}", "number": number, "pod": pod, "failed": bool(down)}

    def _node(self, node: int, nics: list[int]) -> dict[str, Any]:
        works, name = self.hurt.works[node], f"{node + 1}"
        leaf = self.links.switch_of_nic[node * len(works) : (node + 1) * len(works)]
        return {
            "id": f"node:{name}",
            "number": node + 1,
            "unit": int(self._units[0][node]),
            "domain": node // self.one.wiring.domain_nodes,
            "failed": f"node:{name}" in self.failed,
            "working": int(works.sum()),
            "utilisation": self._used("nic", float(works.mean())),
            "nics": [
                {
                    "id": f"nic:{name}-{nic + 1}",
                    "number": nic + 1,
                    "leaf": self._place(leaf[nic]),
                    "failed": f"nic:{name}-{nic + 1}" in self.failed,
                    "dead": not works[nic],
                }
                for nic in nics
            ],
        }

    def _leaf(self, leaf: int) -> dict[str, Any]:
        links, rails = self.links, int(self.one.shape["rails"])
        ends = np.flatnonzero(links.switch_of_nic == leaf)
        is_tree = self.one.kind != "dragonfly"
        up, left = (len(each.neighbours(leaf)) * is_tree for each in (links, self.hurt))
        unit = self._units[0][ends[0] // links.nics_per_node] if len(ends) else 0
        return self._switch(leaf, "leaf") | {
            "rail": int(ends[0]) % rails + 1 if rails > 1 and len(ends) else None,
            "unit": int(unit),
            "ends": len(ends),
            "up": up,
            "up_left": left,
            "utilisation": self._used("leaf-spine" if is_tree else "local", left / up if up else 1),
        }

    def _bundles(self, leaves: list[int], spines: list[int]) -> Iterator[dict[str, Any]]:
        """Cables between the drawn leaves and spines."""
        for leaf in leaves:
            for spine in spines:
                cables = self._joined(self.links, leaf, spine)
                if cables:
                    low, high = self._place(leaf), self._place(spine)
                    is_cut = f"link:{low}-{high}" in self.failed
                    left = self._joined(self.hurt, leaf, spine) + is_cut
                    yield {
                        "id": f"link:{low}-{high}",
                        "leaf": low,
                        "spine": high,
                        "cables": cables,
                        "failed": is_cut,
                        "dead": not left,
                    }

    def _used(self, link: str, share: float) -> dict[str, float]:
        """The use of links of which only a share is left; nothing goes over none."""
        used = self.busy.get(link, {}) if share > 0 else {}
        return {axis: min(busy / share, 1.0) for axis, busy in used.items() if busy > 0}

    def _says(self, shown: dict[str, int], counts: dict[str, int], nics: int, full: bool) -> str:
        """What is drawn, and what one drawn thing stands for."""
        if full:
            return "Every node, NIC, switch and bundle of cables is drawn."
        leaves = "routers" if self.one.kind == "dragonfly" else "leaves"
        names = {"node": "nodes", "leaf": leaves, "spine": "spines", "core": "cores"}
        said = [f"{shown[key]} of {counts[key]:,} {name}" for key, name in names.items() if counts[key]]
        each = self.links.nics_per_node
        said += [f"{nics} of {each} NICs of a node"] if nics < each else []
        return f"Drawn are {', '.join(said)}; each stands for itself, dots for those left out."
