"""A fabric with broken parts: what rate is left to the node that has least.

Holds `FabricPart` with `part_of` (a part by its name), `Broken` (what is out of order), and
`RemainingRate` with `left`, the shares that are left. A node spreads what it sends evenly over the
NICs that work, since its GPUs reach all of them, without those whose way is so narrow that it is
faster without them; the narrowest way that it uses sets the pace of the node, and the slowest node
that of the job. `FailureEffect` and `losses`: what one failure takes from a fabric.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from syncwall.plan.fabric.sized import Sized
from syncwall.plan.fabric.wired import Wired
from syncwall.problems import InputError

PartKind = Literal["node", "nic", "leaf", "link", "spine", "core"]
PART_KINDS: Final[tuple[PartKind, ...]] = get_args(PartKind)
_NAME: Final = re.compile(r"([a-z]+):(\d{1,9})(?:-(\d{1,9}))?")
_PAIRS: Final = ("nic", "link")


@dataclass(frozen=True, slots=True, order=True)
class FabricPart:
    """One part; numbers count from 0, names from 1."""

    kind: PartKind
    number: int
    """Of a NIC its node, of a link its leaf."""
    second: int = 0
    """NIC in its node, or spine of a link."""

    @property
    def name(self) -> str:
        """leaf:2, nic:3-1 (NIC 1 of node 3), link:2-1 (a cable between leaf 2 and spine 1)."""
        pair = f"-{self.second + 1}" if self.kind in _PAIRS else ""
        return f"{self.kind}:{self.number + 1}{pair}"


def part_of(name: str, wired: Wired) -> FabricPart:
    """The part called `name`; InputError if the fabric has none."""
    match = _NAME.fullmatch(name)
    kind = next((one for one in PART_KINDS if match and match[1] == one), None)
    if match is None or kind is None or (match[3] is not None) != (kind in _PAIRS):
        message = (
            f'"{name[:40]}" is not a part of a fabric: '
            "write node:1, nic:1-2, leaf:1, link:1-2, spine:1 or core:1"
        )
        raise InputError.of(message, file="failed")
    part = FabricPart(kind, int(match[2]) - 1, int(match[3] or 1) - 1)
    if not _exists(part, wired):
        raise InputError.of(f"this fabric has no {name}", file="failed")
    return part


def _exists(part: FabricPart, wired: Wired) -> bool:
    counts = {
        "node": wired.nodes, "nic": wired.nodes, "leaf": wired.leaves, "link": wired.leaves,
        "spine": wired.spines, "core": wired.cores,
    }  # fmt: skip
    if not 0 <= part.number < counts[part.kind]:
        return False
    if part.kind == "nic":
        return 0 <= part.second < wired.nics
    return part.kind != "link" or part.second in wired.spines_of(part.number)


@dataclass(frozen=True)
class Broken:
    """Parts of a fabric that are out of order."""

    wired: Wired
    parts: frozenset[FabricPart] = frozenset()

    def has(self, kind: PartKind, number: int, second: int = 0) -> bool:
        """True if that part is out of order."""
        return FabricPart(kind, number, second) in self.parts

    def works(self, node: int, nic: int) -> bool:
        """True if a NIC and its leaf are in order."""
        return not (self.has("nic", node, nic) or self.has("leaf", self.wired.leaf_of(node, nic)))

    def up(self, leaf: int) -> int:
        """Cables up of a leaf that lead to a working spine."""
        each, above = self.wired.cables_to_spine, self.wired.spines_of(leaf)
        gone = sum(each for part in self.parts if part.kind == "spine" and part.number in above)
        cut = sum(
            1 for part in self.parts
            if part.kind == "link" and part.number == leaf and not self.has("spine", part.second)
        )  # fmt: skip
        return self.wired.up - gone - cut

    def cores(self, plane: int) -> float:
        """Share of the cores of a tree that are in order."""
        each = self.wired.cores // self.wired.planes
        lost = [p for p in self.parts if p.kind == "core" and p.number // max(each, 1) == plane]
        return 1.0 - len(lost) / each if each else 1.0

    def nodes(self) -> list[int]:
        """Nodes of which one must be the slowest: those touched, and one of each tree untouched."""
        wired = self.wired
        found = {0, wired.nodes - 1}
        for part in self.parts:
            if part.kind in ("node", "nic"):
                found.add(part.number)
            elif part.kind in ("leaf", "link"):
                found |= _both_ends(wired.nodes_of(part.number))
            elif part.kind == "spine":
                found |= _both_ends(wired.nodes_of(_leaf_under(wired, part.number)))
            else:
                found |= _both_ends(range(min(wired.nodes, wired.one.wiring.domain_nodes)))
        return sorted(found)


@dataclass(frozen=True, slots=True)
class RemainingRate:
    """Shares of the NICs' rate that a node has left, and the node that has so little."""

    near: float
    """To nodes that are reached without a spine."""
    far: float
    """Through the spines."""
    core: float
    """Through the cores."""
    near_node: int = 0
    far_node: int = 0
    core_node: int = 0


def left(broken: Broken, nodes: Iterable[int] | None = None) -> RemainingRate:
    """The least that any node has, for each distance."""
    each = {node: _of_node(broken, node) for node in nodes or broken.nodes()}
    near, far, core = (min(each, key=lambda n, i=i: each[n][i]) for i in range(3))  # type: ignore[misc]
    return RemainingRate(each[near][0], each[far][1], each[core][2], near, far, core)


def _of_node(broken: Broken, node: int) -> tuple[float, float, float]:
    wired = broken.wired
    working = [nic for nic in range(wired.nics) if broken.works(node, nic)]
    near = 0.0 if broken.has("node", node) else len(working) / wired.nics
    if not wired.up:
        return near, near, near
    leaves = [wired.leaf_of(node, nic) for nic in working]
    ways = {leaf: min(1.0, broken.up(leaf) / wired.ends(leaf)) for leaf in leaves}
    far = _spread([ways[leaf] for leaf in leaves]) / wired.nics
    shape = wired.one.shape
    above = min(1.0, shape["spine_up"] / shape["spine_down"]) if wired.cores else 1.0
    through = [ways[leaf] * broken.cores(wired.plane_of(leaf)) for leaf in leaves]
    return (near, far, above * _spread(through) / wired.nics) if near else (0.0, 0.0, 0.0)


def _spread(ways: list[float]) -> float:
    """NICs' worth of rate over the ways that are worth their use, each with as much as the others.

    So a way that is lost altogether never leaves more than one that became narrow.
    """
    widest_first = sorted(ways, reverse=True)
    return max((count * way for count, way in enumerate(widest_first, 1)), default=0.0)


def _both_ends(nodes: range) -> set[int]:
    return {nodes[0], nodes[-1]} if nodes else set()


def _leaf_under(wired: Wired, spine: int) -> int:
    """The first leaf that is joined to a spine: the fullest of them."""
    low, high = 0, wired.leaves - 1
    while low < high:
        middle = (low + high) // 2
        if wired.spines_of(middle).stop > spine:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, slots=True)
class FailureEffect:
    """The effect of one broken part."""

    part: str
    """The switch's tier, or the ends of the cable."""
    gpus: int
    """GPUs that notice it."""
    share: float
    """Of their rate: to everybody, or (`beyond`) through the tier that broke."""
    beyond: str = ""
    """What the lost rate led to; empty if everywhere, so that a share of 1 cuts GPUs off."""


def losses(one: Sized) -> list[FailureEffect]:
    """One line for each kind of part, the widest effect first within switches and cables."""
    return _dragonfly(one) if one.kind == "dragonfly" else _tree(one)


def _tree(one: Sized) -> list[FailureEffect]:
    shape, wiring = one.shape, one.wiring
    a_node = wiring.gpus_per_node
    found = [_leaf(one)]
    leaf_gpus = min(shape["leaf_nodes"] * a_node, one.gpus)
    copies = shape["rails"] if one.kind == "rail-only" else 1
    spines, cores = one.switches["spine"] // copies, one.switches["core"] // copies
    if spines:
        in_pod = spines // shape["pods"]
        pod_gpus = min(shape["pod_nodes"] * a_node, one.gpus) if cores else one.gpus
        found.append(FailureEffect("spine", pod_gpus, 1 / in_pod / copies, "other leaves"))
    if cores:
        found.append(FailureEffect("core", one.gpus, 1 / cores / copies, "other pods"))
    found.append(FailureEffect("node-leaf", a_node, 1 / wiring.nics_per_node))
    if spines:
        affected = leaf_gpus if shape["rails"] == 1 else leaf_gpus // wiring.nics_per_node
        found.append(FailureEffect("leaf-spine", max(affected, 1), 1 / shape["up"], "other leaves"))
    return found


def _leaf(one: Sized) -> FailureEffect:
    """A leaf takes all NICs of its nodes, or with rails one NIC of each node of its group."""
    wiring = one.wiring
    gpus = min(max(one.shape["leaf_nodes"], 1) * wiring.gpus_per_node, one.gpus)
    if one.shape["rails"] == 1:
        return FailureEffect("leaf", gpus, 1.0)
    return FailureEffect("leaf", gpus, 1 / one.shape["rails"])


def _dragonfly(one: Sized) -> list[FailureEffect]:
    shape, wiring = one.shape, one.wiring
    per_nic = wiring.gpus_per_node / wiring.nics_per_node
    router_gpus = min(round(shape["down"] * per_nic), one.gpus)
    found = [
        FailureEffect("router", router_gpus, 1.0),
        FailureEffect("node-router", wiring.gpus_per_node, 1 / wiring.nics_per_node),
        FailureEffect("local", router_gpus, 1 / (shape["group"] - 1), "its group"),
    ]
    if shape["pods"] > 1:
        links = shape["group"] * shape["up"] / (shape["pods"] - 1)
        nodes = max(shape["pod_nodes"], 1)  # a group with less than a node is part of one
        group_gpus = min(nodes * wiring.gpus_per_node, one.gpus)
        found.append(FailureEffect("global", group_gpus, 1 / max(links, 1.0), "one other group"))
    return found
