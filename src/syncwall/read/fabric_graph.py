"""Switches, hosts and the cables between them.

Holds `FabricGraph`, `FabricNode` and `Cable`, which readers of fabrics fill in.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from syncwall.problems import Problem


@dataclass(frozen=True, slots=True)
class FabricNode:
    """A switch, or an adapter of a host."""

    name: str
    """Unique in the fabric, for example its GUID."""
    switch: bool
    title: str = ""
    """As operators call it."""
    host: str | None = None
    """Of an adapter: the host that it is in; None if the fabric does not know."""
    helper: bool = False
    """True for the aggregation node inside a switch (SHARP), which is no host."""
    ports: int | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Cable:
    """One link, named once."""

    a: str
    b: str
    a_port: int | None = None
    b_port: int | None = None
    width: str = ""
    """Lanes and generation, for example 4xNDR."""
    rate_bytes_per_s: float | None = None
    """One way; None if the generation is not in the catalogue."""
    line: int = 0


@dataclass(frozen=True)
class FabricGraph:
    """A fabric as discovered or described."""

    source: str
    format: str
    """ibnetdiscover, topograph or netq."""
    nodes: dict[str, FabricNode]
    cables: tuple[Cable, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def switches(self) -> tuple[FabricNode, ...]:
        """All switches."""
        return tuple(node for node in self.nodes.values() if node.switch)

    @property
    def adapters(self) -> tuple[FabricNode, ...]:
        """All adapters of hosts."""
        return tuple(n for n in self.nodes.values() if not n.switch and not n.helper)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of hosts, sorted."""
        return tuple(sorted({n.host for n in self.adapters if n.host is not None}))

    @cached_property
    def cables_of(self) -> dict[str, list[Cable]]:
        """Cables by node, without those to helpers."""
        found: dict[str, list[Cable]] = defaultdict(list)
        for cable in self.cables:
            if not any(self.nodes[end].helper for end in (cable.a, cable.b)):
                found[cable.a].append(cable)
                found[cable.b].append(cable)
        return dict(found)

    @cached_property
    def tiers(self) -> dict[str, int]:
        """Tier of each switch: 1 if a host hangs on it, else one more than its nearest neighbour.

        A switch that no host can reach has none.
        """
        tiers = {
            switch.name: 1
            for switch in self.switches
            if any(not self.nodes[end].switch for end in self.neighbours(switch.name))
        }
        edge = list(tiers)
        while edge:
            further = dict.fromkeys(
                other
                for name in edge
                for other in self.neighbours(name)
                if self.nodes[other].switch and other not in tiers
            )
            depth = tiers[edge[0]] + 1
            tiers.update(dict.fromkeys(further, depth))
            edge = list(further)
        return tiers

    def neighbours(self, name: str) -> list[str]:
        """The other end of each cable of a node."""
        cables = self.cables_of.get(name, ())
        return [cable.b if cable.a == name else cable.a for cable in cables]

    def down_and_up(self, switch: str) -> tuple[int, int]:
        """Cables of a switch to hosts or lower tiers, and to higher tiers."""
        mine = self.tiers.get(switch, 0)
        up = sum(self.tiers.get(other, 0) > mine for other in self.neighbours(switch))
        return len(self.neighbours(switch)) - up, up
