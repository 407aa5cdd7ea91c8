"""InfiniBand fabrics as `ibnetdiscover` prints them.

Holds `read_ibnetdiscover` and `read_guids`, which says on which host an adapter's GUID is.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.lookup import link
from syncwall.problems import InputError, Problem
from syncwall.read.fabric_graph import Cable, FabricGraph, FabricNode
from syncwall.read.limited import UnpackLimits, text_lines

_LIMITS: Final = UnpackLimits(raw_bytes=1 << 30)
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
    for number, line in enumerate(text_lines(path, _LIMITS), 1):
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


def read_guids(path: Path | str) -> dict[str, tuple[str, ...]]:
    """GUIDs of each host's adapters, from lines `VM_hostname NAME` each followed by GUIDs."""
    hosts: dict[str, list[str]] = {}
    current = ""
    for line in text_lines(path, _LIMITS):
        word, _, name = line.strip().partition(" ")
        if word == "VM_hostname" and name:
            current = name.strip()
            hosts.setdefault(current, [])
        elif current and re.fullmatch(r"(0x)?[0-9a-fA-F]{16}", word) and not name:
            hosts[current].append(word.lower().removeprefix("0x"))
    if not hosts:
        raise InputError.of("names no host (`VM_hostname`)", file=str(path))
    return {host: tuple(guids) for host, guids in hosts.items()}
