"""Where the ranks of a parallel axis stand on the machine.

Holds `Path` (ranks, the scale-up domains they stand in, and how they share NICs and fabric),
`Crossing` and `FREE`, `path` of a group and `paths` of a layout. All groups of an axis work at the
same time, so every GPU has its share of the NICs. A tier that is narrower than the NICs below it
slows down only what passes it: a ring in the order of the nodes leaves a switch once, however many
nodes hang on it. Formulas in docs/explanation/communication.md.
"""

from dataclasses import dataclass, replace
from typing import Literal

from syncwall.catalogue import CatalogueKind
from syncwall.describe import Cluster, Device, Layout
from syncwall.describe.device import Link
from syncwall.describe.names import load
from syncwall.work.block import groups
from syncwall.work.number import Number, Truth, least, most, rounded_up, where
from syncwall.work.operations import Group, GroupAxis

REACHED = 0.85
"""Share of the link's rate that copies reach: 55 of 63 GB/s over PCIe 5, 359 to 377 of 450 GB/s
over NVLink-C2C (nvbandwidth, in the catalogue's links)."""
STAGED = 0.86
"""Rate of collectives through host memory over that of GPUDirect RDMA where no link is narrower
than the NICs: all-reduce 0.83, all-gather 0.87, all-to-all 0.88 on two GH200, whose link to the
host is nine times as fast as their NICs (github.com/NVIDIA/nccl/issues/1579)."""
_USUAL_LINK = "pcie-4"
Pattern = Literal["ring", "tree", "all-to-all"]
TREE_EDGES = 1.5
"""Edges of a tree that leave a block of neighbouring nodes over those of a ring, on average:
NCCL's binary trees join the first node of each block to those of others, and half of the roots of
the rest of a block to the first node of the next."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """How many times longer tiers narrower than the NICs make traffic of each pattern."""

    ring: Number = 1.0
    tree: Number = 1.0
    all_to_all: Number = 1.0


FREE = Crossing()
"""No tier is narrower than the NICs."""


@dataclass(frozen=True, slots=True)
class Path:
    """The way of one group's traffic."""

    ranks: Number
    domains: Number
    """Scale-up domains that the group stands in."""
    nodes: Number
    """Nodes that it stands in."""
    nic_bytes_per_s_per_gpu: Number
    """One rank's one-way share of the NICs."""
    reach_gpus: Number = 0
    """Neighbouring GPUs of the machine from the first rank of the group to its last."""
    spacing_gpus: Number = 1
    """From the group's ranks in one domain to those in the next."""
    crossing: Crossing = FREE

    @property
    def ranks_in_domain(self) -> Number:
        """Ranks of the group in one domain."""
        return self.ranks / self.domains

    def leaving(self, pattern: Pattern, unit_gpus: Number) -> Number:
        """Share of the traffic between domains that leaves units of neighbouring GPUs."""
        stops = most(unit_gpus / self.spacing_gpus, 1.0)
        if pattern == "all-to-all":
            near = self.ranks_in_domain
            inside = most(self.ranks * unit_gpus / most(self.reach_gpus, 1), near)
            share = (self.ranks - inside) / most(self.ranks - near, 1e-9)
        else:
            share = least((TREE_EDGES if pattern == "tree" else 1.0) / stops, 1.0)
        return where(self.reach_gpus > unit_gpus, share, 0.0)


def host_link_bytes_per_s(device: Device, link: str | None = None) -> float:
    """Rate of copies between `device`, or what hangs on `link`, and its host, one way."""
    found = load(CatalogueKind.LINK, Link, link or device.pcie or _USUAL_LINK)
    return REACHED * float(found.rate_bytes_per_s)


def nic_bytes_per_s_per_gpu(cluster: Cluster) -> float:
    """One GPU's one-way share of the NICs, less where their bytes pass host memory.

    Without GPUDirect RDMA a GPU writes to the host, from where the NIC reads, and the other way
    round. Behind a PCIe switch that both share, its link to the host carries what is sent and what
    is received in each direction. NCCL over TCP was measured that way: it has its own share.
    """
    nics, share = cluster.node.nics, cluster.nic_bytes_per_s_per_gpu
    if nics is None or nics.gpu_direct or nics.transport != "rdma":
        return share
    slots = len(cluster.nic_groups) / cluster.gpus_per_node
    shared = host_link_bytes_per_s(cluster.device, nics.pcie) / (2.0 if nics.pcie_shared else 1.0)
    return min(STAGED * share, slots * shared, host_link_bytes_per_s(cluster.device))


def path(group: Group, cluster: Cluster) -> Path:
    """Where the ranks of `group` stand, each `stride` ranks from the next."""
    if group.axis == "pp":
        return _between_stages(group, cluster)
    ranks, apart = group.ranks, most(group.stride, 1)
    within = least(most(cluster.domain_gpus // apart, 1), ranks)
    domains = rounded_up(ranks / within)
    if cluster.gpus > cluster.domain_gpus:
        domains = where(_straddles(group, cluster), most(domains, 2), domains)
    nodes = rounded_up(ranks / least(most(cluster.gpus_per_node // apart, 1), ranks))
    spacing = most(group.stride, cluster.domain_gpus)
    nic_bytes_per_s = nic_bytes_per_s_per_gpu(cluster)
    found = Path(ranks, domains, nodes, nic_bytes_per_s, ranks * group.stride, spacing)
    return _through(found, cluster)


def _straddles(group: Group, cluster: Cluster) -> Truth:
    """True where a group would fit into one domain, but some stand on the edge between two.

    Groups stand one behind the other: those of 64 GPUs begin in racks of 72 where the one before
    ends, unless of each rack only 64 are in use. Racks are filled one by one or evenly, whichever
    suits the group. The slowest counts, taken as half in each.
    """
    reach = group.ranks * most(group.stride, 1)
    fits_into_one = (group.ranks > 1) & (reach <= cluster.domain_gpus)
    on_an_edge = (cluster.domain_gpus % reach != 0) & (cluster.filled_domain_gpus % reach != 0)
    return fits_into_one & on_an_edge


def _between_stages(group: Group, cluster: Cluster) -> Path:
    """One pipeline stage and the next; the slowest pair leaves its domain if any does."""
    pair = path(Group("tp", least(group.ranks, 2), group.stride), cluster)
    reach = group.ranks * group.stride
    leaves = (group.ranks > 1) & (reach > cluster.domain_gpus)
    found = replace(pair, domains=where(leaves, 2, pair.domains), reach_gpus=reach)
    return _through(found, cluster)


def axis_paths(layout: Layout, cluster: Cluster) -> dict[GroupAxis, Path]:
    """The path of every axis of a resolved layout."""
    return {axis: path(group, cluster) for axis, group in groups(layout).items()}


def _through(found: Path, cluster: Cluster) -> Path:
    """`found` with what narrow tiers make of its traffic.

    Of every tier its oversubscription times what passes it; the narrowest counts.
    """
    if all(tier.oversubscription <= 1 for tier in cluster.fabric.tiers):
        return found
    slower: dict[Pattern, Number] = {"ring": 1.0, "tree": 1.0, "all-to-all": 1.0}
    unit_nodes: float = 1
    for tier in cluster.fabric.tiers:
        if tier.oversubscription > 1:
            for pattern, before in slower.items():
                share = found.leaving(pattern, unit_nodes * cluster.gpus_per_node)
                slower[pattern] = most(before, tier.oversubscription * share)
        unit_nodes = tier.nodes or unit_nodes
    crossing = Crossing(slower["ring"], slower["tree"], slower["all-to-all"])
    return replace(found, crossing=crossing)
