"""GPUs, adapters and memory nodes of one host, and how near they are to each other.

Every reader of topologies fills it in as far as its file goes; None means that the file does not
say.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from syncwall.problems import InputError, Problem
from syncwall.read.limited import Element

_MOST_CPUS: Final = 1 << 12
_MOST_GPUS: Final = 256
_MOST_NICS: Final = 1024
"""Tables of distances grow with the product of both."""


class Distance(IntEnum):
    """What lies between two devices, in the words of `nvidia-smi topo -m`; larger is farther."""

    SAME = 0
    LINK = 1
    """NVLink or xGMI, direct or through its switch."""
    PIX = 2
    """At most one PCIe switch."""
    PXB = 3
    """Several PCIe switches."""
    PHB = 4
    """The PCIe host bridge of a CPU."""
    NODE = 5
    """Several host bridges of one memory node."""
    SYS = 6
    """The link between memory nodes or sockets."""

    @property
    def near(self) -> bool:
        """True if traffic stays below the CPU."""
        return self <= Distance.PXB


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """What GPUs and adapters have in common."""

    name: str
    bus: str | None = None
    """PCI address, in lower case."""
    pci_id: str | None = None
    """Vendor and device, for example 10de:2330."""
    numa: int | None = None
    """Memory node."""
    path: tuple[str, ...] = ()
    """Addresses of the PCIe bridges above it, the one at the CPU first."""
    pcie_bytes_per_s: float | None = None
    """Its own PCIe link, one way."""
    direct: bool | None = None
    """True if adapter and GPU memory may talk without host memory (GPUDirect RDMA)."""
    line: int = 0
    """Where the file says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(PciDevice):
    """One GPU as software sees it."""

    model: str | None = None
    """As its maker calls it."""
    architecture: str | None = None
    """`sm90` or `gfx942`, as compilers call it."""
    cpus: frozenset[int] | None = None
    """Processors next to it."""
    links: int | None = None
    """NVLink or xGMI links of this GPU, all together."""
    link_bytes_per_s: float | None = None
    """Rate of these links together, one way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPort(PciDevice):
    """One port of a network adapter."""

    rate_bytes_per_s: float | None = None
    """One way."""
    port: int | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One memory node and its processors."""

    index: int
    cpus: frozenset[int] | None = None


@dataclass(frozen=True)
class HostTopology:
    """One host."""

    source: str
    """The file."""
    format: str
    """nccl, nvidia-smi, rocm-smi or lstopo."""
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[NicPort, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    gpu_gpu: tuple[tuple[Distance | None, ...], ...] = ()
    """From each GPU (row) to each GPU."""
    gpu_nic: tuple[tuple[Distance | None, ...], ...] = ()
    """From each GPU (row) to each adapter."""
    pair_links: tuple[tuple[int | None, ...], ...] = ()
    """Links between each GPU (row) and each other one; through a switch, those of a GPU."""
    switched: bool | None = None
    """True if the links of GPUs end at a switch."""
    bridges: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Of PCIe switches by address: their link towards the CPU, one way, in bytes/s."""
    others: tuple[str, ...] = ()
    """Addresses of PCI devices of which the file does not say what they are."""
    problems: tuple[Problem, ...] = ()
    """What of the file could not be read."""

    def nearest_nic(self, gpu: int) -> Distance | None:
        """Distance from GPU number `gpu` to the adapter nearest to it; None if unknown."""
        known = [d for d in self.gpu_nic[gpu] if d is not None] if self.gpu_nic else []
        return min(known, default=None)

    def near_nics(self, gpu: int) -> tuple[int, ...]:
        """Numbers of the adapters that GPU number `gpu` reaches without passing a CPU."""
        row = self.gpu_nic[gpu] if self.gpu_nic else ()
        return tuple(i for i, d in enumerate(row) if d is not None and d.near)

    def where(self, device: PciDevice | None = None) -> str:
        """`file:line` of what the file says of `device`."""
        return f"{self.source}:{device.line}" if device and device.line else self.source


def refuse_crowd(gpus: int, nics: int, file: str) -> None:
    """InputError if a file describes more devices than any host has."""
    if gpus > _MOST_GPUS or nics > _MOST_NICS:
        raise InputError.of(
            f"describes {gpus} GPUs and {nics} adapters; one host has at most {_MOST_GPUS} and {_MOST_NICS}",
            file=file,
        )


def bits(mask: str) -> frozenset[int] | None:
    """Processors in a mask of 32-bit groups such as "000000ff,ffff0000" or "0x3,,0x00000303"."""
    groups = [group.strip().removeprefix("0x") for group in mask.split(",")]
    digits = "".join(group.zfill(8) for group in groups)
    if not mask.strip() or len(digits) * 4 > _MOST_CPUS:
        return None
    try:
        value = int(digits, 16)
    except ValueError:
        return None
    return frozenset(i for i in range(value.bit_length()) if value >> i & 1) if value >= 0 else None


def processor_list(ranges: str) -> frozenset[int] | None:
    """Processors in a list such as "0-23,48-71"."""
    found: set[int] = set()
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last.isdecimal() or not last) or len(part) > 12:
            return None
        low, high = int(first), int(last or first)
        if high >= _MOST_CPUS:
            return None
        found.update(range(low, high + 1))
    return frozenset(found)


_SPEED: Final = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})?)\s*GT/s", re.ASCII)
_BUS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(\.[0-9a-f])?", re.ASCII)


def pcie_bytes_per_s(speed: str, lanes: int | None) -> float | None:
    """Rate of a PCIe link one way from, for example, "16.0 GT/s PCIe" and 16 lanes; else None.

    Source: PCI Express Base Specification: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, flits of
    236 bytes of payload in 256 above.
    """
    match = _SPEED.match(speed)
    if match is None or not lanes or not 0 < lanes <= 64:
        return None
    transfers = float(match[1])
    share = 8 / 10 if transfers <= 5 else 128 / 130 if transfers <= 32 else 236 / 256
    return transfers * 1e9 * lanes * share / 8


def bus_id(text: str) -> str | None:
    """A PCI address in the usual form (lower case), or None if `text` is none."""
    text = text.strip().lower()
    return text if _BUS.fullmatch(text) else None


def is_gpu(pci_class: str) -> bool:
    """True for display controllers and processing accelerators (classes 03 and 12)."""
    return pci_class[:2] in ("03", "12")


def is_nic(pci_class: str) -> bool:
    """True for network controllers (class 02: Ethernet 0200, InfiniBand 0207)."""
    return pci_class[:2] == "02"


def tree_distance(one: PciDevice, other: PciDevice, ports: int = 1) -> Distance | None:
    """How far two devices are from each other by the bridges above them.

    `ports` is how many bridges of a path stand for one switch: 1 where the file lists switches
    (NCCL), 2 where it lists the ports of switches (hwloc).
    """
    shared = 0
    for a, b in zip(one.path, other.path, strict=False):
        if a != b:
            break
        shared += 1
    if one.path and other.path and shared:
        beyond = max(len(one.path), len(other.path)) - shared
        return Distance.PIX if beyond < ports else Distance.PXB
    if one.numa is None or other.numa is None:
        return None
    return Distance.PHB if one.numa == other.numa else Distance.SYS


@dataclass
class HostInventory:
    """What was read about a host so far."""

    file: str
    problems: list[Problem]
    gpus: list[Gpu] = field(default_factory=list)
    nics: list[NicPort] = field(default_factory=list)
    numa: list[NumaNode] = field(default_factory=list)

    def refuse_crowd(self) -> None:
        """InputError if there are more devices than any host has."""
        refuse_crowd(len(self.gpus), len(self.nics), self.file)

    def problem(self, at: Element, message: str) -> None:
        """Write down what is wrong with an element."""
        self.problems.append(Problem(self.file, at.line, 1, message))
