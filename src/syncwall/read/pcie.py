"""What PCI addresses, classes and links in a topology mean.

Holds `pcie_bytes_per_s`, `tree_distance`, `is_gpu`, `is_nic`, `bus_id`, and `Devices`, what readers
of XML have found so far.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from syncwall.problems import Problem
from syncwall.read.safe_xml import Element
from syncwall.read.topology import Distance, Gpu, NicPort, NumaNode, PciDevice, refuse_crowd

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
class Devices:
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
