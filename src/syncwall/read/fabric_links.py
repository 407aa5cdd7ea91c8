"""A fabric that was discovered or described, as links.

Holds `links_of_file`, whatever wrote it, `links_of_graph`, and `rank_order`, the nodes of a job in
the order of its ranks.
"""

import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from syncwall.describe import Cluster
from syncwall.network.graph import Links, links_of
from syncwall.problems import InputError
from syncwall.read.detect import first_bytes, read_fabric, read_topology
from syncwall.read.fabric_file import FabricGraph
from syncwall.read.limited import text_lines
from syncwall.read.nccl_topology import links_of_host


def links_of_file(path: Path, cluster: Cluster, *, places: bool = False) -> Links:
    """Links of a fabric's file, or of nodes as the XML of NCCL_TOPO_DUMP_FILE has one of them.

    With `places`, InputError for the latter: it does not say which nodes are near each other.
    """
    if not first_bytes(path).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return links_of_graph(read_fabric(path), cluster)
    if places:
        message = "describes one node, not which nodes are near each other"
        raise InputError.of(f"{message}: name a kind of fabric, or its own file", file=str(path))
    return links_of_host(read_topology(path), cluster)


def links_of_graph(graph: FabricGraph, cluster: Cluster) -> Links:
    """Links of the hosts and switches of a file.

    A cable of unknown rate is as fast as a NIC of `cluster`; where the file has no cables but only
    says what hangs below what (Slurm, topograph), a switch reaches the one above without loss.
    """
    nics = cluster.node.nics
    if nics is None:
        raise InputError.of(f"{cluster.name} has no NICs, so nothing shares a link")
    number = {switch.name: place for place, switch in enumerate(graph.switches)}
    hung: dict[str, list[tuple[int, float]]] = defaultdict(list)
    between = []
    for cable in graph.cables:
        ends = [end for end in (cable.a, cable.b) if end in number]
        rate = cable.rate_bytes_per_s or float(nics.rate_bytes_per_s)
        if len(ends) == 2:
            between.append((number[cable.a], number[cable.b], rate))
        elif ends:
            other = graph.nodes[cable.b if cable.a in number else cable.a]
            if not other.helper and other.host is not None:
                hung[other.host].append((number[ends[0]], rate))
    hosts = sorted(hung, key=_natural)
    if not hosts:
        raise InputError.of("names no host, so nothing can run on it", file=graph.source)
    each = [_nics(host, hung[host], nics.count, graph.source) for host in hosts]
    hangs, rates = (np.array([one[side] for node in each for one in node]) for side in (0, 1))
    if graph.format in ("slurm", "topograph"):
        between = _without_loss(between, hangs.astype(int), len(number), nics.rate_bytes_per_s)
    names = [switch.title or switch.name for switch in graph.switches]
    return links_of(hosts, hangs, rates, names, between)


def _natural(name: str) -> list[tuple[int, str]]:
    """node9 before node10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _nics(host: str, found: list[tuple[int, float]], count: int, file: str) -> list[tuple[int, float]]:
    """The NICs of a host; one name stands for all of them."""
    if len(found) not in (1, count):
        message = f"{host} has {len(found)} cables, a node of the cluster {count} NICs"
        raise InputError.of(f"{message}: name a cluster such as this", file=file)
    return found * (count // len(found))


def _without_loss(
    cables: list[tuple[int, int, float]], hangs: np.ndarray, switches: int, rate: float
) -> list[tuple[int, int, float]]:
    """Cables from a switch to those below it, as wide as all NICs below."""
    below: dict[int, list[int]] = defaultdict(list)
    for above, low, _ in cables:
        below[above].append(low)
    own = np.bincount(hangs, minlength=switches)
    known: dict[int, int] = {}

    def ends(switch: int, seen: frozenset[int] = frozenset()) -> int:
        if switch in seen:
            raise InputError.of("a switch hangs below itself")
        if switch not in known:
            inside = seen | {switch}
            known[switch] = int(own[switch]) + sum(ends(low, inside) for low in below[switch])
        return known[switch]

    return [(above, low, max(ends(low), 1) * rate) for above, low, _ in cables]


def rank_order(path: Path, links: Links) -> tuple[int, ...]:
    """Nodes in the order of ranks: one name or number a line, as in SLURM_HOSTFILE.

    A name that follows itself, once for each task of a node, counts once.
    """
    places = {name: place for place, name in enumerate(links.nodes)}
    found: list[int] = []
    for number, line in enumerate(text_lines(path), 1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if name not in places:
            message = f'line {number}: the fabric has no node "{name[:60]}"'
            hint = f"its nodes are {links.nodes[0]} to {links.nodes[-1]}"
            raise InputError.of(f"{message}: {hint}", file=str(path))
        if not found or found[-1] != places[name]:
            found.append(places[name])
    if len(set(found)) != len(found):
        raise InputError.of("names a node twice, with others between", file=str(path))
    if not found:
        raise InputError.of("names no node", file=str(path))
    return tuple(found)
