"""Topologies and graphs of NCCL and RCCL: dumps and inputs, and nodes of them as links.

A dump has what NCCL found; an input may have PCI devices only, of which those with the class of a
GPU or adapter are taken as such.

Adapters share what stands between them and their GPUs: the PCIe link of an adapter with several
ports, that of a GPU with several adapters, and that of a PCIe switch which traffic has to leave.
What is too narrow for all that use it is a switch of its own in every node, with one link to a
network without loss. The link between sockets is in no file, so it is not here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.describe import Cluster
from syncwall.network.graph import Links, links_of
from syncwall.problems import InputError
from syncwall.read.limited import Element, read_xml
from syncwall.read.topology import (
    Distance,
    Gpu,
    HostInventory,
    HostTopology,
    NicPort,
    NumaNode,
    bits,
    bus_id,
    is_gpu,
    is_nic,
    pcie_bytes_per_s,
    tree_distance,
)

_SWITCH: Final = "0x068000"
"""PCI class of an NVSwitch as the target of a link."""
_IMPLAUSIBLE_MBIT: Final = 10_000_000
"""No port has 10 Tb/s: above, the figure is taken as kilobits (libfabric's cxi in RCCL's files)."""


def read_nccl_topology(path: Path | str) -> HostTopology:
    """The topology in the XML file `path`; InputError if it is another kind of XML."""
    root, problems = read_xml(path)
    if root.tag != "system":
        hint = " (an NCCL graph; NCCL_TOPO_DUMP_FILE writes topologies)" * (root.tag == "graphs")
        raise InputError.of(
            f"holds <{root.tag}>, not a NCCL topology <system>{hint}",
            file=str(path),
            line=root.line,
            column=1,
        )
    found = _NcclDevices(str(path), list(problems))
    for cpu in root.of("cpu"):
        found.cpu(cpu)
    found.refuse_crowd()
    return found.topology()


@dataclass
class _NcclDevices(HostInventory):
    """What was read of the file so far."""

    others: list[str] = field(default_factory=list)
    links: list[list[Element]] = field(default_factory=list)
    """Of each GPU."""
    bridges: dict[str, float] = field(default_factory=dict)
    """Links of PCIe switches towards the CPU."""

    def cpu(self, cpu: Element) -> None:
        index = cpu.number("numaid")
        if index is None:
            self.problem(cpu, "a CPU without `numaid`")
        else:
            self.numa.append(NumaNode(index, bits(cpu.get("affinity"))))
        self.below(cpu, {"numa": index, "path": ()})

    def below(self, parent: Element, place: dict[str, Any]) -> None:
        """Everything under `parent`, which is at `place`."""
        for child in parent.children:
            if child.tag == "pci":
                self.pci(child, place)
            elif child.tag == "gpu":
                self.gpu(child, place)
            elif child.tag == "nic":
                for net in child.of("net"):
                    self.net(net, place)

    def pci(self, pci: Element, place: dict[str, Any]) -> None:
        bus = bus_id(pci.get("busid"))
        kind = pci.get("class").removeprefix("0x")
        names = [pci.get(name).removeprefix("0x").lower() for name in ("vendor", "device")]
        here = place | {
            "bus": bus,
            "pci_id": ":".join(names) if all(names) else None,
            "pcie_bytes_per_s": pcie_bytes_per_s(pci.get("link_speed"), pci.number("link_width")),
            "line": pci.line,
        }
        inner = {child.tag for child in pci.children}
        if inner & {"gpu", "nic"}:
            self.below(pci, here)
        elif inner:
            switch = bus or f"?{pci.line}"
            if here["pcie_bytes_per_s"] is not None:
                self.bridges[switch] = here["pcie_bytes_per_s"]
            self.below(pci, {"numa": place["numa"], "path": (*place["path"], switch)})
        elif is_gpu(kind):
            self.add_gpu(Gpu(name=f"GPU{len(self.gpus)}", **here), [])
        elif is_nic(kind):
            self.nics.append(NicPort(name=bus or f"NIC{len(self.nics)}", **here))
        elif kind[:4] != "0604":
            self.others.append(bus or f"line {pci.line}")

    def gpu(self, gpu: Element, place: dict[str, Any]) -> None:
        links = [link for link in gpu.children if link.tag in ("nvlink", "xgmi")]
        index = gpu.number("dev")
        self.add_gpu(
            Gpu(
                name=f"GPU{len(self.gpus) if index is None else index}",
                architecture=_architecture(gpu),
                direct=_flag(gpu.get("gdr")),
                links=sum(max(link.number("count") or 0, 0) for link in links),
                **place | {"line": gpu.line},
            ),
            links,
        )

    def add_gpu(self, gpu: Gpu, links: list[Element]) -> None:
        self.gpus.append(gpu)
        self.links.append(links)

    def net(self, net: Element, place: dict[str, Any]) -> None:
        speed = net.number("speed")
        if speed is not None and speed > _IMPLAUSIBLE_MBIT:
            self.problem(net, f"{speed} Mb/s is more than any port has; taken as kb/s")
            speed //= 1000
        self.nics.append(
            NicPort(
                name=net.get("name") or f"NIC{len(self.nics)}",
                rate_bytes_per_s=speed * 1e6 / 8 if speed and speed > 0 else None,
                port=net.number("port"),
                direct=_flag(net.get("gdr")),
                **place | {"line": net.line},
            )
        )

    def topology(self) -> HostTopology:
        pairs = _pairs(self)
        targets = [link.get("tclass") for links in self.links for link in links]
        known = [gpu.links is not None for gpu in self.gpus]
        cpus: dict[int | None, Any] = {node.index: node.cpus for node in self.numa}
        return HostTopology(
            source=self.file,
            format="nccl",
            gpus=tuple(replace(gpu, cpus=cpus.get(gpu.numa)) for gpu in self.gpus),
            nics=tuple(self.nics),
            numa_nodes=tuple(self.numa),
            gpu_gpu=tuple(
                tuple(_gpu_distance(self, i, j, row[j]) for j in range(len(row)))
                for i, row in enumerate(pairs)
            ),
            gpu_nic=tuple(tuple(tree_distance(g, n) for n in self.nics) for g in self.gpus),
            pair_links=tuple(tuple(row) for row in pairs) if all(known) else (),
            switched=any(target == _SWITCH for target in targets) if targets else None,
            bridges=self.bridges,
            others=tuple(self.others),
            problems=tuple(self.problems),
        )


def _architecture(gpu: Element) -> str | None:
    """`sm90` of NVIDIA; of AMD, where `sm` counts compute units, what `gcn` says."""
    if gcn := gpu.get("gcn"):
        return gcn if gcn.startswith("gfx") else f"gfx{gcn}"
    return f"sm{gpu.get('sm')}" if gpu.get("sm") else None


def _flag(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


def _pairs(found: _NcclDevices) -> list[list[int | None]]:
    """Links between two GPUs; through a switch, as many as the poorer of both has."""
    direct = [_counts(links, "target") for links in found.links]
    switched = [_counts(links, "tclass")[_SWITCH] for links in found.links]

    def between(i: int, j: int) -> int | None:
        if found.gpus[i].links is None or found.gpus[j].links is None:
            return None
        target = found.gpus[j].bus
        return (direct[i][target] if target else 0) + min(switched[i], switched[j])

    count = range(len(found.gpus))
    return [[0 if i == j else between(i, j) for j in count] for i in count]


def _counts(links: list[Element], key: str) -> Counter[str | None]:
    """Links of one GPU by where they go."""
    found: Counter[str | None] = Counter()
    for link in links:
        where = link.get(key)
        found[bus_id(where) if key == "target" else where] += max(link.number("count") or 0, 0)
    return found


def _gpu_distance(found: _NcclDevices, i: int, j: int, links: int | None) -> Distance | None:
    if i == j:
        return Distance.SAME
    return Distance.LINK if links else tree_distance(found.gpus[i], found.gpus[j])


_PATTERNS: Final = {
    1: "balanced tree",
    2: "split tree",
    3: "tree",
    4: "ring",
    5: "NVLS",
    6: "CollNet direct",
}
"""NCCL's numbers of patterns. Source: NCCL, src/include/graph.h."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One path through the node: adapters at its ends, GPUs in between, in order."""

    gpus: tuple[int, ...]
    nics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NcclGraph:
    """What NCCL found for one pattern."""

    pattern: str
    intra_bytes_per_s: float
    """Of one channel within the node; NCCL counts in GB/s."""
    inter_bytes_per_s: float
    """Of one channel between nodes."""
    intra_distance: str
    """Farthest step between GPUs, for example NVL or SYS."""
    inter_distance: str
    """Farthest step between GPU and adapter."""
    channels: tuple[Channel, ...]
    cross_nic: bool
    line: int


def read_nccl_graphs(path: Path | str) -> tuple[NcclGraph, ...]:
    """Every graph in the XML file `path`, in its order."""
    root, problems = read_xml(path)
    if root.tag != "graphs":
        raise InputError.of(
            f"holds <{root.tag}>, not NCCL graphs <graphs>",
            file=str(path),
            line=root.line,
            column=1,
        )
    if problems:
        raise InputError(problems)
    return tuple(_graph(element, str(path)) for element in root.of("graph"))


def _graph(element: Element, file: str) -> NcclGraph:
    pattern = element.number("pattern")
    return NcclGraph(
        pattern=_PATTERNS.get(pattern or 0, f"pattern {pattern}"),
        intra_bytes_per_s=_rate(element, "speedintra", file),
        inter_bytes_per_s=_rate(element, "speedinter", file),
        intra_distance=element.get("typeintra"),
        inter_distance=element.get("typeinter"),
        channels=tuple(
            Channel(_devices(channel, "gpu"), _devices(channel, "net")) for channel in element.of("channel")
        ),
        cross_nic=element.get("crossnic") not in ("", "0"),
        line=element.line,
    )


def _devices(channel: Element, tag: str) -> tuple[int, ...]:
    numbers = (device.number("dev") for device in channel.of(tag))
    return tuple(number for number in numbers if number is not None)


def _rate(element: Element, name: str, file: str) -> float:
    try:
        rate = float(element.get(name)[:20])
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e6:
        raise InputError.of(
            f"`{name}` of a graph must be a rate in GB/s", file=file, line=element.line, column=1
        )
    return rate * 1e9


_MOST_SWITCHES: Final = 8192
"""Ways between all of them are kept."""


@dataclass(frozen=True)
class _Shared:
    """A PCIe link, and those NICs of a node whose traffic passes it."""

    name: str
    rate_bytes_per_s: float
    nics: frozenset[int]


def links_of_host(topology: HostTopology, cluster: Cluster) -> Links:
    """Links of the nodes of `cluster`, each with the adapters of `topology`.

    A port of unknown rate is as fast as a NIC of `cluster`. Of more ports than that has NICs, those
    nearest to GPUs are used, as NCCL does.
    """
    nics, file = cluster.node.nics, topology.source
    if nics is None:
        raise InputError.of(f"{cluster.name} has no NICs, so nothing shares a link")
    if topology.format != "nccl":
        message = f"a topology of {topology.format} has no rates of PCIe links"
        raise InputError.of(f"{message}: write the file that NCCL_TOPO_DUMP_FILE names", file=file)
    for count, what, wanted in (
        (len(topology.gpus), "GPUs", cluster.node.gpus),
        (len(topology.nics), "ports", nics.count),
    ):
        if count < wanted or (what == "GPUs" and count != wanted):
            message = f"has {count} {what}, a node of {cluster.name} {wanted}"
            raise InputError.of(f"{message}: name a cluster such as this", file=file)
    gpus_of = _gpus_of_nics(cluster.node.gpus, nics.count)
    ports = _nearest_ports(topology, gpus_of)
    passed = _passed(topology, gpus_of, ports)
    full = [port.rate_bytes_per_s or float(nics.rate_bytes_per_s) for port in ports]
    alone = {one.nics: one.rate_bytes_per_s for one in passed if len(one.nics) == 1}
    rates = [min(rate, alone.get(frozenset({nic}), rate)) for nic, rate in enumerate(full)]
    narrow = [
        one
        for one in passed
        if one.rate_bytes_per_s < sum(rates[nic] for nic in one.nics) * (1 - 1e-9) and len(one.nics) > 1
    ]
    _refuse_crossing(narrow, file)
    found = _nodes_alike(cluster.nodes, rates, sorted(narrow, key=lambda one: len(one.nics)), file)
    return replace(found, nic_bytes_per_s=float(nics.rate_bytes_per_s))


def _gpus_of_nics(gpus: int, nics: int) -> list[list[int]]:
    """GPUs that use each NIC of a node, as `network.routing.Ends` has it."""
    several = max(1, nics // gpus)
    users = [range(gpu * nics // gpus, gpu * nics // gpus + several) for gpu in range(gpus)]
    return [[gpu for gpu, mine in enumerate(users) if nic in mine] for nic in range(nics)]


def _nearest_ports(topology: HostTopology, gpus_of: Sequence[Sequence[int]]) -> list[NicPort]:
    """A port for each NIC: of all pairs the nearest first, the fastest of equally near ones."""
    far, ports = int(Distance.SYS) + 1, topology.nics

    def distance(nic: int, port: int) -> int:
        each = [topology.gpu_nic[gpu][port] for gpu in gpus_of[nic]]
        return sum(far if one is None else int(one) for one in each)

    pairs = sorted(
        (distance(nic, port), -(ports[port].rate_bytes_per_s or 0.0), nic, port)
        for nic in range(len(gpus_of))
        for port in range(len(ports))
    )
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, nic, port in pairs:
        if nic not in found and port not in taken:
            found[nic] = port
            taken.add(port)
    return [ports[found[nic]] for nic in range(len(gpus_of))]


def _passed(
    topology: HostTopology, gpus_of: Sequence[Sequence[int]], ports: Sequence[NicPort]
) -> list[_Shared]:
    """PCIe links of known rate, each with the NICs that send over it; the narrowest of equal sets.

    Of a NIC of several GPUs only those that the traffic of all of them passes.
    """
    users: dict[str, set[int]] = {}
    rates: dict[str, float] = {}

    def passes(nic: int, name: str, rate: float | None) -> None:
        if rate is not None:
            rates[name] = rate
            users.setdefault(name, set()).add(nic)

    for nic, (port, gpus) in enumerate(zip(ports, gpus_of, strict=True)):
        passes(nic, f"adapter {port.bus or port.name}", port.pcie_bytes_per_s)
        devices = [topology.gpus[gpu] for gpu in gpus]
        if len(gpus) == 1:
            passes(nic, f"GPU {gpus[0]}", devices[0].pcie_bytes_per_s)
        between = [set(gpu.path) ^ set(port.path) for gpu in devices]
        for bridge in set.intersection(*between) if between else ():
            passes(nic, f"PCIe switch {bridge}", topology.bridges.get(bridge))
    narrowest: dict[frozenset[int], _Shared] = {}
    for name in sorted(users, key=lambda one: rates[one]):
        nics = frozenset(users[name])
        narrowest.setdefault(nics, _Shared(name, rates[name], nics))
    return list(narrowest.values())


def _refuse_crossing(narrow: Sequence[_Shared], file: str) -> None:
    for one in narrow:
        for other in narrow:
            if one.nics & other.nics and not (one.nics <= other.nics or other.nics <= one.nics):
                message = f"{one.name} and {other.name} share some of their NICs, not all"
                hint = "write a cluster whose NICs have the rate that is left to each"
                raise InputError.of(f"{message}, which links here cannot hold: {hint}", file=file)


def _nodes_alike(nodes: int, rates: Sequence[float], narrow: Sequence[_Shared], file: str) -> Links:
    """Nodes with these NICs and narrow parts, the smallest first, around one network."""
    if nodes * len(narrow) > _MOST_SWITCHES:
        most = _MOST_SWITCHES // len(narrow)
        message = f"{len(narrow)} PCIe links of each node are shared"
        raise InputError.of(f"{message}: ask for {most:,} nodes at most", file=file)

    def inside(nics: frozenset[int], start: int) -> int:
        """The first part from `start` on that holds all of `nics`; the network if none does."""
        fits = (place for place in range(start, len(narrow)) if nics <= narrow[place].nics)
        return next(fits, len(narrow))

    homes = [inside(frozenset({nic}), 0) for nic in range(len(rates))]
    above = [inside(one.nics, place + 1) for place, one in enumerate(narrow)]
    network, names, cables = nodes * len(narrow), [], []
    for node in range(nodes):
        first = node * len(narrow)
        for place, one in enumerate(narrow):
            up = network if above[place] == len(narrow) else first + above[place]
            names.append(f"{one.name} of {node + 1}")
            cables.append((first + place, up, one.rate_bytes_per_s))
    hangs = [
        network if home == len(narrow) else node * len(narrow) + home
        for node in range(nodes)
        for home in homes
    ]
    hosts = [str(node + 1) for node in range(nodes)]
    return links_of(hosts, hangs, np.tile(rates, nodes), [*names, "network"], cables)
