"""Switches, hosts and the cables between them, as `ibnetdiscover` prints them or a file
describes them.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.lookup import link
from syncwall.documents import read_document
from syncwall.hosts import slurm_hosts
from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.read.limited import UnpackLimits, open_limited, plain_text, text_lines, whole_json


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
    """True for the aggregation node inside a switch (SHARP), which is not a host."""
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
    """ibnetdiscover, topograph, netq or slurm."""
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


_LIMITS: Final = UnpackLimits(raw_bytes=64 << 20)
_MOST_HOSTS: Final = 100_000
_SLURM_KEY: Final = re.compile(r"(\w{1,40})=(\S{1,100000})")


def read_topograph(path: Path | str) -> FabricGraph:
    """A tree of switches with blocks of hosts below, as topograph's models have it."""
    value = read_document(Path(path)).value
    tree = value.get("switches") if isinstance(value, dict) else None
    if not isinstance(tree, dict):
        raise EmptyInput.of("holds no `switches` as topograph's models do", file=str(path))
    nodes = {str(name): FabricNode(str(name), True) for name in tree}
    cables = [
        (str(name), str(child)) for name, switch in tree.items() for child in _listed(switch, "switches")
    ]
    for block in _listed(value, "blocks"):
        switch = str(block.get("switch")) if isinstance(block, dict) else ""
        for text in _listed(block, "nodes"):
            for host in slurm_hosts(str(text), file=str(path)):
                nodes[host] = FabricNode(host, False, host=host)
                cables.append((switch, host))
                _refuse_crowd(cables, path)
    for name in {end for cable in cables for end in cable} - nodes.keys():
        nodes[name] = FabricNode(name, True)
    return FabricGraph(str(path), "topograph", nodes, tuple(Cable(a, b) for a, b in cables))


def read_slurm_topology(path: Path | str) -> FabricGraph:
    """The switches of Slurm's `topology.conf` (topology/tree), each with its nodes or switches."""
    nodes: dict[str, FabricNode] = {}
    cables: list[tuple[str, str]] = []
    for line in text_lines(path, _LIMITS):
        keys = {key.lower(): value for key, value in _SLURM_KEY.findall(line.partition("#")[0])}
        if "switchname" not in keys:
            continue
        above = keys["switchname"]
        nodes[above] = FabricNode(above, True)
        for kind in ("nodes", "switches"):
            for name in slurm_hosts(keys.get(kind, ""), file=str(path)):
                if kind == "nodes":
                    nodes[name] = FabricNode(name, False, host=name)
                cables.append((above, name))
                _refuse_crowd(cables, path)
    if not cables:
        raise InputError.of("holds no `SwitchName=` with nodes, as topology.conf does", file=str(path))
    for _, name in cables:
        nodes.setdefault(name, FabricNode(name, True))
    return FabricGraph(str(path), "slurm", nodes, tuple(Cable(a, b) for a, b in cables))


def _refuse_crowd(cables: list[tuple[str, str]], path: Path | str) -> None:
    if len(cables) > _MOST_HOSTS:
        raise InputError.of(f"describes more than {_MOST_HOSTS:,} cables", file=str(path))


def read_netq(path: Path | str) -> FabricGraph:
    """Devices and links of a NetQ topology graph."""
    with open_limited(path, _LIMITS) as stream:
        value = whole_json(stream.read(), str(path), "a fabric")
    graph = value[0] if isinstance(value, list) and value else value
    tiers = _listed(graph, "nodes")
    devices = [device for tier in tiers for device in _listed(tier, "compounded_nodes")]
    nodes = {
        plain_text(device["id"]): _device(device)
        for device in devices
        if isinstance(device, dict) and "id" in device
    }
    if not nodes:
        raise InputError.of("holds no `nodes` as NetQ's topology graphs do", file=str(path))
    ends = [
        (plain_text(bundle.get("src")), plain_text(bundle.get("target")))
        for bundle in _listed(graph, "links")
        if isinstance(bundle, dict)
        for _ in _listed(bundle, "compounded_links") or [None]
    ]
    cables = tuple(Cable(a, b) for a, b in ends if a in nodes and b in nodes)
    return FabricGraph(str(path), "netq", nodes, cables)


def _device(device: dict[str, Any]) -> FabricNode:
    name, switch = plain_text(device.get("name")), device.get("device_type") == "switch"
    return FabricNode(plain_text(device["id"]), switch, name, None if switch else name)


def _listed(value: Any, key: str) -> list[Any]:
    """The list under `key`; nothing if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


_IBNETDISCOVER_LIMITS: Final = UnpackLimits(raw_bytes=1 << 30)
_NODE: Final = re.compile(r'(Switch|Ca|Rt)\s+(\d{1,4})\s+"([^"]{1,64})"[^"]*(?:"([^"]{0,200})")?')
_PORT: Final = re.compile(r'\[(\d{1,4})\](?:\([0-9a-fA-F]{1,16}\))?\s+"([^"]{1,64})"\[(\d{1,4})\]')
_WIDTH: Final = re.compile(r"\b(\d{1,2})x([A-Z]{1,4}\d{0,2})\b")
_HELPER: Final = "Aggregation Node"
_NAMELESS: Final = re.compile(r"MT\d+ ConnectX|Mellanox Technologies")
_MOST_CABLES: Final = 2_000_000


def read_ibnetdiscover(path: Path | str) -> FabricGraph:
    """The fabric in `path`; InputError if the file names no switch and no adapter."""
    file = str(path)
    nodes: dict[str, FabricNode] = {}
    cables: dict[tuple[str, int, str, int], Cable] = {}
    titles: dict[str, str] = {}
    problems: list[Problem] = []
    rates = _Rates()
    current = ""
    for number, line in enumerate(text_lines(path, _IBNETDISCOVER_LIMITS), 1):
        if found := _NODE.match(line):
            current = found[3]
            nodes[current] = _node(found, number)
        elif found := _PORT.match(line):
            ends = sorted([(current, int(found[1])), (found[2], int(found[3]))])
            key = (*ends[0], *ends[1])
            if not current:
                problems.append(Problem(file, number, 1, "a port before any switch or adapter"))
            elif key not in cables and len(cables) < _MOST_CABLES:
                cables[key] = _cable(key, line, number, rates)
                titles[found[2]] = line.partition("#")[2].partition('"')[2].partition('"')[0]
        elif line.startswith("["):
            problems.append(Problem(file, number, 1, "a port that cannot be read"))
    if not nodes:
        raise InputError.of("is not output of ibnetdiscover", file=file)
    for cable in cables.values():
        for end in (end for end in (cable.a, cable.b) if end not in nodes):
            nodes[end] = _named(end, end.startswith("S-"), titles.get(end, ""), cable.line)
    return FabricGraph(file, "ibnetdiscover", nodes, tuple(cables.values()), tuple(problems[:20]))


def _node(found: re.Match[str], line: int) -> FabricNode:
    node = _named(found[3], found[1] == "Switch", found[4] or "", line)
    return replace(node, ports=int(found[2]))


def _named(name: str, switch: bool, title: str, line: int) -> FabricNode:
    """A node by its title, which for an adapter begins with its host."""
    words = title.split()
    named = not switch and len(words) > 1 and not _NAMELESS.search(title)
    helper = not switch and _HELPER in title
    return FabricNode(name, switch, title, words[0] if named else None, helper, line=line)


def _cable(key: tuple[str, int, str, int], line: str, number: int, rates: "_Rates") -> Cable:
    widths = _WIDTH.findall(line.rpartition('"')[2])
    lanes, generation = widths[-1] if widths else ("", "")
    return Cable(
        a=key[0],
        a_port=key[1],
        b=key[2],
        b_port=key[3],
        width=f"{lanes}x{generation}" if widths else "",
        rate_bytes_per_s=rates.of(int(lanes), generation) if widths else None,
        line=number,
    )


class _Rates:
    """Rates of InfiniBand by lanes and generation, from the catalogue."""

    def __init__(self) -> None:
        self._lane: dict[str, float | None] = {}
        self._known = set(catalogue.names(CatalogueKind.LINK))

    def of(self, lanes: int, generation: str) -> float | None:
        if generation not in self._lane:
            name = f"infiniband-{generation.lower()}"
            self._lane[generation] = link(name).lane_bytes_per_s if name in self._known else None
        lane = self._lane[generation]
        return lane * lanes if lane is not None else None
