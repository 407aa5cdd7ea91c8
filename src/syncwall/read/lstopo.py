"""Topologies of hwloc (`lstopo --of xml`): packages, memory nodes, PCI devices, GPUs, adapters.

Holds `read_lstopo`.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from syncwall.problems import InputError
from syncwall.read.pcie import Devices, bus_id, is_gpu, is_nic, tree_distance
from syncwall.read.safe_xml import Element, read_xml
from syncwall.read.topology import Distance, Gpu, HostTopology, NicPort, NumaNode, bits

_TYPE: Final = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}:[0-9a-f]{4})\]", re.ASCII)
_MAKERS: Final = ("10de", "1002", "8086")
"""PCI vendors of GPUs for training: NVIDIA, AMD, Intel; others are consoles of a server."""


def read_lstopo(path: Path | str) -> HostTopology:
    """The topology in the XML file `path`; InputError if it is another kind of XML.

    A file without PCI devices (written with --no-io) has processors and memory nodes only.
    """
    root, problems = read_xml(path)
    if root.tag != "topology":
        raise InputError.of(
            f"holds <{root.tag}>, not a hwloc <topology>", file=str(path), line=root.line, column=1
        )
    found = _LstopoDevices(str(path), list(problems))
    for child in root.of("object"):
        found.visit(child, _Place())
    found.refuse_crowd()
    found.links(root)
    return found.topology()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the tree an object hangs."""

    numa: int | None = None
    cpus: frozenset[int] | None = None
    path: tuple[str, ...] = ()


@dataclass
class _LstopoDevices(Devices):
    owner: dict[str, str] = field(default_factory=dict)
    """Address of the PCI device by "OSDev:802" or "PCIDev:581"."""
    rates: dict[tuple[int, int], float] = field(default_factory=dict)
    """Bytes/s of links between GPUs, by their numbers."""
    switched: bool | None = None

    def visit(self, thing: Element, place: _Place) -> None:
        kind = thing.get("type")
        if nodes := bits(thing.get("nodeset")):
            only = min(nodes) if len(nodes) == 1 else None
            place = replace(place, numa=only, cpus=bits(thing.get("cpuset")))
        if kind == "NUMANode":
            index = thing.number("os_index")
            if index is None:
                self.problem(thing, "a NUMANode has no number")
            else:
                self.numa.append(NumaNode(index, bits(thing.get("cpuset"))))
        elif kind == "Bridge" and (bus := bus_id(thing.get("pci_busid"))):
            place = replace(place, path=(*place.path, bus))
        elif kind == "PCIDev":
            self.device(thing, place)
        for child in thing.of("object"):
            self.visit(child, place)

    def device(self, thing: Element, place: _Place) -> None:
        bus = bus_id(thing.get("pci_busid"))
        match = _TYPE.match(thing.get("pci_type").lower())
        if bus is None or match is None:
            self.problem(thing, "a PCI device without address")
            return
        inner = list(thing.of("object"))
        for name in (thing, *inner):
            self.owner[f"{name.get('type')}:{name.get('gp_index')}"] = bus
        facts = {info.get("name"): info.get("value") for dev in inner for info in dev.of("info")}
        speed = _number(thing.get("pci_link_speed"))
        common: dict[str, Any] = {
            "bus": bus,
            "pci_id": match[2],
            "numa": place.numa,
            "path": place.path,
            "pcie_bytes_per_s": speed * 1e9 if speed else None,
            "line": thing.line,
        }
        if is_gpu(match[1]) and match[2][:4] in _MAKERS:
            self.gpus.append(
                Gpu(
                    name=f"GPU{len(self.gpus)}",
                    model=facts.get("GPUModel"),
                    cpus=place.cpus,
                    **common,
                )
            )
        elif is_nic(match[1]):
            self.nics.append(NicPort(name=_nic_name(inner) or bus, **common))

    def links(self, root: Element) -> None:
        """Rates of NVLinks, which hwloc gives in MB/s between GPUs, switches and packages."""
        tables = [t for t in root.children if t.tag == "distances2hetero"]
        for table in (t for t in tables if t.get("name") == "NVLinkBandwidth"):
            ends = [word for part in table.of("indexes") for word in part.text.split()]
            words = [word for part in table.of("u64values") for word in part.text.split()]
            rates = [_number(word) for word in words]
            if len(rates) != len(ends) ** 2 or None in rates:
                self.problem(table, "NVLink rates do not add up")
                continue
            self._count(ends, [rate or 0.0 for rate in rates])

    def _count(self, ends: list[str], rates: list[float]) -> None:
        number = {gpu.bus: i for i, gpu in enumerate(self.gpus)}
        place = [number.get(self.owner.get(end, "")) for end in ends]
        to_gpus = to_others = 0.0
        for row, gpu in enumerate(place):
            if gpu is None:
                continue
            out = [rate * 1e6 for rate in rates[row * len(ends) : (row + 1) * len(ends)]]
            out[row] = 0.0
            self.gpus[gpu] = replace(self.gpus[gpu], link_bytes_per_s=sum(out))
            for column, rate in enumerate(out):
                peer = place[column]
                if peer is not None:
                    self.rates[gpu, peer] = rate
                    to_gpus += rate
                elif ends[column].startswith("PCIDev"):
                    to_others += rate
        self.switched = to_others > to_gpus

    def topology(self) -> HostTopology:
        count = range(len(self.gpus))
        return HostTopology(
            source=self.file,
            format="lstopo",
            gpus=tuple(self.gpus),
            nics=tuple(self.nics),
            numa_nodes=tuple(self.numa),
            gpu_gpu=tuple(tuple(self._distance(i, j) for j in count) for i in count),
            gpu_nic=tuple(tuple(tree_distance(g, n, 2) for n in self.nics) for g in self.gpus),
            switched=self.switched,
            problems=tuple(self.problems[:20]),
        )

    def _distance(self, i: int, j: int) -> Distance | None:
        if i == j:
            return Distance.SAME
        linked = [self.gpus[k].link_bytes_per_s for k in (i, j)]
        if self.rates.get((i, j)) or (self.switched and all(linked)):
            return Distance.LINK
        return tree_distance(self.gpus[i], self.gpus[j], 2)


def _number(text: str) -> float | None:
    try:
        value = float(text[:24])
    except ValueError:
        return None
    return value if 0 <= value < 1e12 else None


def _nic_name(devices: list[Element]) -> str | None:
    """The name for RDMA if the adapter has one, else that of the network interface."""
    named = [dev for dev in devices if dev.get("type") == "OSDev" and dev.get("name")]
    rdma = [d for d in named if any(info.get("name") == "NodeGUID" for info in d.of("info"))]
    return (rdma or named)[0].get("name") if named else None
