"""Topologies of a host as `lstopo`, `nvidia-smi topo -m` and `rocm-smi --showtopo` write them.

The table may stand anywhere in a file, such as a job's log; the first one is read.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from syncwall.problems import InputError, Problem
from syncwall.read.limited import Element, UnpackLimits, read_xml, text_lines
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
    processor_list,
    refuse_crowd,
    tree_distance,
)

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
class _LstopoDevices(HostInventory):
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


_LIMITS: Final = UnpackLimits(raw_bytes=256 << 20)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_GPU: Final = re.compile(r"GPU\d{1,4}", re.ASCII)
_LEGEND: Final = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})", re.ASCII)
_LINKS: Final = re.compile(r"NV(\d{1,3})", re.ASCII)
_CELLS: Final = {
    "X": Distance.SAME,
    "PIX": Distance.PIX,
    "PXB": Distance.PXB,
    "PHB": Distance.PHB,
    "NODE": Distance.NODE,
    "SYS": Distance.SYS,
    "SOC": Distance.SYS,
    "XGMI": Distance.LINK,
    "0": Distance.SAME,
    "PCIE": None,
    "N/A": None,
}
_MOST_LINES: Final = 5_000_000
_MOST_COLUMNS: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    cells: tuple[str, ...]
    rest: tuple[str, ...]
    """Affinities, where the table has them."""
    line: int


def read_smi_topology(path: Path | str) -> HostTopology:
    """The first table in `path`; InputError if there is none."""
    columns: list[str] = []
    rows: dict[str, _Row] = {}
    legend: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text_lines(path, _LIMITS), 1):
        if number > _MOST_LINES:
            break
        text = _ANSI.sub("", line) if "\x1b" in line else line
        if found := _LEGEND.match(text):
            legend[found[1]] = found[2]
        elif not columns or not rows:
            columns = _header(text) or columns
        if columns:
            row = _row(text, columns, number)
            if isinstance(row, Problem):
                problems.append(replace(row, file=str(path)))
            elif row is not None:
                rows.setdefault(row.name, row)
    gpus = [name for name in columns if _GPU.fullmatch(name) and name in rows]
    if not gpus:
        raise InputError.of("holds no table of `nvidia-smi topo -m`", file=str(path))
    refuse_crowd(len(gpus), len(columns) - len(gpus), str(path))
    return _topology(str(path), columns, rows, legend, tuple(problems[:20]))


def _header(text: str) -> list[str]:
    """Names of the columns if the line is a table's head, else nothing."""
    if len(text) > 1 << 16:
        return []
    names = text.partition("CPU Affinity")[0].split()
    named = len(names) <= _MOST_COLUMNS and names and all(_is_device(name) for name in names)
    return names if named and _GPU.fullmatch(names[0]) else []


def _is_device(name: str) -> bool:
    return name not in _CELLS and not _LINKS.fullmatch(name)


def _row(text: str, columns: list[str], number: int) -> _Row | Problem | None:
    """A line of the table; nothing if it is another line, a problem if it is cut short."""
    tokens = text.split(maxsplit=len(columns) + 4) if len(text) < 1 << 16 else []
    if len(tokens) < 2 or tokens[0] not in columns or tokens[1] in columns:
        return None
    cells = tuple(tokens[1 : len(columns) + 1])
    known = [cell in _CELLS or _LINKS.fullmatch(cell) is not None for cell in cells]
    if len(cells) == len(columns) and all(known):
        return _Row(tokens[0], cells, tuple(tokens[len(columns) + 1 :]), number)
    if not any(known) or _all_numbers(cells):
        return None
    return Problem("", number, 1, f"row {tokens[0]} of the table is cut short or unreadable")


def _all_numbers(cells: tuple[str, ...]) -> bool:
    """True for the tables of weights and hops of `rocm-smi`."""
    return all(cell.isdecimal() for cell in cells)


def _topology(
    file: str,
    columns: list[str],
    rows: dict[str, _Row],
    legend: dict[str, str],
    problems: tuple[Problem, ...],
) -> HostTopology:
    gpus = [name for name in columns if _GPU.fullmatch(name) and name in rows]
    nics = [name for name in columns if not _GPU.fullmatch(name)]
    at = {name: i for i, name in enumerate(columns)}
    cell = {name: rows[name].cells for name in gpus}
    pairs = tuple(tuple(_links(cell[a][at[b]]) for b in gpus) for a in gpus)
    distances = tuple(tuple(_distance(cell[a][at[b]]) for b in gpus) for a in gpus)
    amd = any("XGMI" in cells or "PCIE" in cells for cells in cell.values())
    switched = None if amd else _switched(pairs)
    read = tuple(_gpu(rows[name], links, switched) for name, links in zip(gpus, pairs, strict=True))
    if amd:
        read = tuple(replace(gpu, links=None) for gpu in read)
    return HostTopology(
        source=file,
        format="rocm-smi" if amd else "nvidia-smi",
        gpus=read,
        nics=tuple(
            NicPort(name=legend.get(name, name), line=rows[name].line if name in rows else 0) for name in nics
        ),
        numa_nodes=_numa(read),
        gpu_gpu=distances,
        gpu_nic=tuple(tuple(_distance(cell[a][at[nic]]) for nic in nics) for a in gpus),
        pair_links=pairs if not amd else (),
        switched=switched,
        problems=problems,
    )


def _links(cell: str) -> int:
    match = _LINKS.fullmatch(cell)
    return int(match[1]) if match else 0


def _distance(cell: str) -> Distance | None:
    return Distance.LINK if _LINKS.fullmatch(cell) else _CELLS.get(cell)


def _switched(pairs: tuple[tuple[int, ...], ...]) -> bool | None:
    """Through a switch every pair sees all links of a GPU: more than 18 in sum tells it.

    18 is the most that any GPU has (Hopper, Blackwell); None where the sum does not decide.
    """
    most = max((sum(row) for row in pairs), default=0)
    return True if most > 18 else None if most else False


def _gpu(row: _Row, links: tuple[int, ...], switched: bool | None) -> Gpu:
    cpus = processor_list(row.rest[0]) if row.rest else None
    numa = row.rest[1] if len(row.rest) > 1 else ""
    return Gpu(
        name=row.name,
        cpus=cpus,
        numa=int(numa) if numa.isdecimal() and len(numa) < 6 else None,
        links=max(links, default=0) if switched else sum(links),
        line=row.line,
    )


def _numa(gpus: tuple[Gpu, ...]) -> tuple[NumaNode, ...]:
    """Memory nodes that the GPUs name, with their processors."""
    nodes = {gpu.numa: gpu.cpus for gpu in gpus if gpu.numa is not None}
    return tuple(NumaNode(index, cpus) for index, cpus in sorted(nodes.items()))
