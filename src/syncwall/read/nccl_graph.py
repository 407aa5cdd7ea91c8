"""Graphs that NCCL searched (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE): channels and their rates.

Holds `read_nccl_graphs`, `NcclGraph` and `Channel`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncwall.problems import InputError
from syncwall.read.safe_xml import Element, read_xml

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
            Channel(_devices(channel, "gpu"), _devices(channel, "net"))
            for channel in element.of("channel")
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
