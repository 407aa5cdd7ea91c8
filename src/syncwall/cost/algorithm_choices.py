"""The algorithms and protocols that NCCL could choose for a collective, each with its time.

Holds `NcclAlgorithm` and `algorithm_choices`.
"""

from dataclasses import dataclass

import numpy as np

from syncwall.cost.communication import NcclNetwork
from syncwall.describe import Cluster
from syncwall.work.operations import Collective, CollectiveKind, Group


@dataclass(frozen=True, slots=True)
class NcclAlgorithm:
    """One algorithm and protocol."""

    name: str
    """As NCCL writes it: Ring/Simple, Tree/LL128."""
    start_s: float
    """What does not depend on the size."""
    seconds: float
    """All of it."""

    @property
    def algorithm(self) -> str:
        """Ring, Tree, NVLS, ..."""
        return self.name.split("/", maxsplit=1)[0]


def algorithm_choices(
    network: NcclNetwork, cluster: Cluster, kind: CollectiveKind, size: float, group: Group
) -> list[NcclAlgorithm]:
    """Every choice that is possible for one call with `size` bytes, the fastest first."""
    once = float(network.collective_seconds(Collective(kind, size, group)))
    if once <= 0:
        return []
    nics = cluster.node.nics
    if nics is not None and nics.transport == "gloo":
        return [NcclAlgorithm("Ring/Gloo", 0.0, once)]
    factors, terms = network.factors_and_terms(kind, size, group)
    ramp_s = float(terms.ramp_s(size))
    found = []
    for name, (latency_s, s_per_byte) in terms.choices.items():
        slower, faster = factors.get(name, (1.0, 1.0))
        start_s = float(latency_s * slower)
        seconds = start_s + float(size / faster * s_per_byte) + ramp_s
        if np.isfinite(seconds):
            found.append(NcclAlgorithm(name, start_s, seconds))
    return sorted(found, key=lambda one: one.seconds)
