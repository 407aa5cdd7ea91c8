"""Where the ranks of a parallel axis stand on the machine.

Holds `Path` (ranks, the scale-up domains they stand in, and the rate between domains), `path` of a
group and `paths` of a layout. All groups of an axis work at the same time, so every GPU has its
share of the NICs and of the fabric.
"""

from dataclasses import dataclass, replace

import numpy as np

from syncwall.describe import Cluster, Layout
from syncwall.work.groups import groups
from syncwall.work.number import Number
from syncwall.work.operations import Axis, Group


@dataclass(frozen=True, slots=True)
class Path:
    """The way of one group's traffic."""

    ranks: Number
    domains: Number
    """Scale-up domains that the group stands in."""
    nodes: Number
    """Nodes that it stands in."""
    nic_bytes_per_s_per_gpu: Number
    """One rank's one-way share of the NICs through the fabric tiers that the group needs."""

    @property
    def ranks_in_domain(self) -> Number:
        """Ranks of the group in one domain."""
        return self.ranks / self.domains


def path(group: Group, cluster: Cluster) -> Path:
    """Where the ranks of `group` stand, each `stride` ranks from the next."""
    if group.axis == "pp":
        return _between_stages(group, cluster)
    ranks, apart = group.ranks, np.maximum(group.stride, 1)
    within = np.clip(cluster.domain_gpus // apart, 1, ranks)
    domains = np.ceil(ranks / within)
    reach = np.ceil(ranks * group.stride / cluster.gpus_per_node)
    nic_bytes_per_s = cluster.nic_bytes_per_s_per_gpu / _oversubscription(cluster, reach)
    nodes = np.ceil(ranks / np.clip(cluster.gpus_per_node // apart, 1, ranks))
    return Path(ranks, domains, nodes, nic_bytes_per_s)


def _between_stages(group: Group, cluster: Cluster) -> Path:
    """One pipeline stage and the next; the slowest pair leaves its domain if any does."""
    pair = path(Group("tp", np.minimum(group.ranks, 2), group.stride), cluster)
    leaves = (group.ranks > 1) & (group.ranks * group.stride > cluster.domain_gpus)
    return replace(pair, domains=np.where(leaves, 2, pair.domains))


def paths(layout: Layout, cluster: Cluster) -> dict[Axis, Path]:
    """The path of every axis of a resolved layout."""
    return {axis: path(group, cluster) for axis, group in groups(layout).items()}


def _oversubscription(cluster: Cluster, nodes: Number) -> Number:
    """The ratio of the widest tier that traffic among `nodes` neighbouring nodes passes."""
    ratio: Number = 1.0
    reached: Number = 1
    for tier in cluster.fabric.tiers:
        ratio = np.where(nodes > reached, np.maximum(ratio, tier.oversubscription), ratio)
        reached = tier.nodes if tier.nodes is not None else np.inf
    return ratio
