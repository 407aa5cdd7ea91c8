"""Fabrics that other tools describe: topograph's models (YAML) and NetQ's graphs (JSON).

Holds `read_topograph` and `read_netq`.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from syncwall.documents import read_document
from syncwall.problems import InputError
from syncwall.read.fabric_graph import Cable, FabricGraph, FabricNode
from syncwall.read.limited import Limits, open_limited

_LIMITS: Final = Limits(raw_bytes=64 << 20)
_RANGE: Final = re.compile(r"(.{0,200}?)\[(\d{1,9})-(\d{1,9})\](.{0,200})")
_MOST_HOSTS: Final = 1_000_000


def read_topograph(path: Path | str) -> FabricGraph:
    """A tree of switches with blocks of hosts below, as topograph's models have it."""
    value = read_document(Path(path)).value
    tree = value.get("switches") if isinstance(value, dict) else None
    if not isinstance(tree, dict):
        raise InputError.of("holds no `switches` as topograph's models do", file=str(path))
    nodes = {str(name): FabricNode(str(name), True) for name in tree}
    cables = [
        (str(name), str(child))
        for name, switch in tree.items()
        for child in _listed(switch, "switches")
    ]
    for block in _listed(value, "blocks"):
        switch = str(block.get("switch")) if isinstance(block, dict) else ""
        for text in _listed(block, "nodes"):
            for host in _hosts(str(text), str(path)):
                nodes[host] = FabricNode(host, False, host=host)
                cables.append((switch, host))
        if len(nodes) > _MOST_HOSTS:
            raise InputError.of("describes more than a million hosts", file=str(path))
    for name in {end for cable in cables for end in cable} - nodes.keys():
        nodes[name] = FabricNode(name, True)
    return FabricGraph(str(path), "topograph", nodes, tuple(Cable(a, b) for a, b in cables))


def _hosts(text: str, file: str) -> list[str]:
    """`node[0001-0009]` as nine names."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return [text]
    first, last, width = int(match[2]), int(match[3]), len(match[2])
    if last - first >= _MOST_HOSTS:
        raise InputError.of(f"{text} is more than a million hosts", file=file)
    return [f"{match[1]}{number:0{width}}{match[4]}" for number in range(first, last + 1)]


def read_netq(path: Path | str) -> FabricGraph:
    """Devices and links of a NetQ topology graph."""
    with open_limited(path, _LIMITS) as stream:
        try:
            value = json.loads(stream.read())
        except (ValueError, RecursionError) as error:
            raise InputError.of(f"is not JSON: {str(error)[:80]}", file=str(path)) from None
    graph = value[0] if isinstance(value, list) and value else value
    tiers = _listed(graph, "nodes")
    devices = [device for tier in tiers for device in _listed(tier, "compounded_nodes")]
    nodes = {
        str(device["id"]): _device(device)
        for device in devices
        if isinstance(device, dict) and "id" in device
    }
    if not nodes:
        raise InputError.of("holds no `nodes` as NetQ's topology graphs do", file=str(path))
    ends = [
        (str(bundle.get("src")), str(bundle.get("target")))
        for bundle in _listed(graph, "links")
        if isinstance(bundle, dict)
        for _ in _listed(bundle, "compounded_links") or [None]
    ]
    cables = tuple(Cable(a, b) for a, b in ends if a in nodes and b in nodes)
    return FabricGraph(str(path), "netq", nodes, cables)


def _device(device: dict[str, Any]) -> FabricNode:
    name, switch = str(device.get("name")), device.get("device_type") == "switch"
    return FabricNode(str(device["id"]), switch, name, None if switch else name)


def _listed(value: Any, key: str) -> list[Any]:
    """The list under `key`; nothing if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
