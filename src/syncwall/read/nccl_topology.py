"""Topologies of NCCL and RCCL: dumps (NCCL_TOPO_DUMP_FILE) and inputs (NCCL_TOPO_FILE).

Holds `read_nccl_topology`. A dump has what NCCL found; an input may have PCI devices only, of which
those with the class of a GPU or adapter are taken as such.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from syncwall.problems import InputError
from syncwall.read.pcie import Devices, bus_id, is_gpu, is_nic, pcie_bytes_per_s, tree_distance
from syncwall.read.safe_xml import Element, read_xml
from syncwall.read.topology import Distance, Gpu, HostTopology, NicPort, NumaNode, bits

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
class _NcclDevices(Devices):
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
