"""One node as NCCL sees it, as the links of many such nodes.

Holds `links_of_host`. Adapters share what stands between them and their GPUs: the PCIe link of an
adapter with several ports, that of a GPU with several adapters, and that of a PCIe switch which
traffic has to leave. What is too narrow for all that use it is a switch of its own in every node,
with one link to a network without loss. The link between sockets is in no file, so it is not here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from syncwall.describe import Cluster
from syncwall.network.graph import Links, links_of
from syncwall.problems import InputError
from syncwall.read.topology import Distance, HostTopology, NicPort

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
    for count, what, wanted in ((len(topology.gpus), "GPUs", cluster.node.gpus),
                                (len(topology.nics), "ports", nics.count)):  # fmt: skip
        if count < wanted or (what == "GPUs" and count != wanted):
            message = f"has {count} {what}, a node of {cluster.name} {wanted}"
            raise InputError.of(f"{message}: name a cluster such as this", file=file)
    gpus_of = _gpus_of_nics(cluster.node.gpus, nics.count)
    ports = _nearest_ports(topology, gpus_of)
    passed = _passed(topology, gpus_of, ports)
    full = [port.rate_bytes_per_s or float(nics.rate_bytes_per_s) for port in ports]
    alone = {one.nics: one.rate_bytes_per_s for one in passed if len(one.nics) == 1}
    rates = [min(rate, alone.get(frozenset({nic}), rate)) for nic, rate in enumerate(full)]
    narrow = [one for one in passed
              if one.rate_bytes_per_s < sum(rates[nic] for nic in one.nics) * (1 - 1e-9)
              and len(one.nics) > 1]  # fmt: skip
    _refuse_crossing(narrow, file)
    found = _nodes_alike(cluster.nodes, rates, sorted(narrow, key=lambda one: len(one.nics)), file)
    return replace(found, nic_bytes_per_s=float(nics.rate_bytes_per_s))


def _gpus_of_nics(gpus: int, nics: int) -> list[list[int]]:
    """GPUs that use each NIC of a node, as `network.routes.Ends` has it."""
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
        for nic in range(len(gpus_of)) for port in range(len(ports))
    )  # fmt: skip
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
    hangs = [network if home == len(narrow) else node * len(narrow) + home
             for node in range(nodes) for home in homes]  # fmt: skip
    hosts = [str(node + 1) for node in range(nodes)]
    return links_of(hosts, hangs, np.tile(rates, nodes), [*names, "network"], cables)
