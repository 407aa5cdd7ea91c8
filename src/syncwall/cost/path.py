"""Where the ranks of a parallel axis stand on the machine.

Holds `Path` (ranks, the scale-up domains they stand in, and the rate between domains) and `paths`.
Ranks are numbered along the layout's `order`; all groups of an axis work at the same time, so every
GPU has its share of the NICs and of the fabric.
"""

from dataclasses import dataclass, replace

import numpy as np

from syncwall.describe import Cluster, Layout
from syncwall.work.number import Number
from syncwall.work.operations import Axis


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


def paths(layout: Layout, cluster: Cluster) -> dict[Axis | str, Path]:
    """The path of every axis of a resolved layout."""
    assert layout.dp is not None, "the layout is resolved"
    assert layout.shard_degree is not None
    sizes: dict[str, Number] = {"tp": layout.tp, "cp": layout.cp, "pp": layout.pp, "dp": layout.dp}
    strides: dict[str, Number] = {}
    stride: Number = 1
    for axis in layout.order:
        if axis != "ep":
            strides[axis] = stride
            stride = stride * sizes[axis]
    inner = np.minimum(strides["dp"], strides["cp"])
    whole, degree = sizes["dp"] * layout.cp, layout.shard_degree
    experts = layout.ep * layout.etp
    spans: dict[str, tuple[Number, Number]] = {
        "tp": (layout.tp, strides["tp"]),
        "cp": (layout.cp, strides["cp"]),
        "dp": (whole, inner),
        "shard": (degree, inner),
        "replica": (layout.replicas_of_shards, inner * degree),
        "ep": (layout.ep, layout.etp),
        "expert-shard": (layout.expert_dp, experts),
        "expert-replica": (layout.expert_dp, experts),
        "pp": (np.minimum(layout.pp, 2), strides["pp"]),  # one stage and the next
    }
    found = {axis: _path(size, stride, cluster) for axis, (size, stride) in spans.items()}
    leaves = (layout.pp > 1) & (layout.pp * strides["pp"] > cluster.domain_gpus)
    slowest = np.where(leaves, 2, found["pp"].domains)  # the pair that sets the pace
    return {**found, "pp": replace(found["pp"], domains=slowest)}


def _path(ranks: Number, stride: Number, cluster: Cluster) -> Path:
    """A group of `ranks` ranks, each `stride` ranks from the next."""
    within = np.clip(cluster.domain_gpus // np.maximum(stride, 1), 1, ranks)
    domains = np.ceil(ranks / within)
    reach = np.ceil(ranks * stride / cluster.gpus_per_node)
    nic_bytes_per_s = cluster.nic_bytes_per_s_per_gpu / _oversubscription(cluster, reach)
    nodes = np.ceil(ranks / np.clip(cluster.gpus_per_node // np.maximum(stride, 1), 1, ranks))
    return Path(ranks, domains, nodes, nic_bytes_per_s)


def _oversubscription(cluster: Cluster, nodes: Number) -> Number:
    """The ratio of the widest tier that traffic among `nodes` neighbouring nodes passes."""
    ratio: Number = 1.0
    reached: Number = 1
    for tier in cluster.fabric.tiers:
        ratio = np.where(nodes > reached, np.maximum(ratio, tier.oversubscription), ratio)
        reached = tier.nodes if tier.nodes is not None else np.inf
    return ratio
