"""What a fabric is asked to connect, and with what.

Holds `Wiring` and `wiring_of`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.describe import Cluster
from syncwall.problems import InputError


@dataclass(frozen=True, slots=True)
class Wiring:
    """Nodes, switches and the rules by which they are joined; ports run at the NICs' rate."""

    gpus_per_node: int
    nics_per_node: int
    nic_bytes_per_s: float
    """One NIC, one way."""
    radix: tuple[int, int, int] = (64, 64, 64)
    """Ports of a leaf, a spine and a core switch at the NICs' rate, split if need be."""
    oversubscription: tuple[float, float] = (1.0, 1.0)
    """Rate down over rate up, at most, of a leaf and of a spine; of a dragonfly the first."""
    growth: float = 0.0
    """GPUs to come, over those of today."""
    domain_nodes: int = 1
    """Nodes that share a scale-up domain; rails of a rail-only fabric are its NICs."""
    scale_up: bool = True
    """True if GPUs of a domain reach each other without a NIC, over links faster than PCIe."""

    def nodes(self, gpus: Any) -> Any:
        """Nodes that hold `gpus`; broadcasts, as all here does."""
        return ceil(gpus, self.gpus_per_node)

    def grown_nodes(self, gpus: Any) -> Any:
        """Nodes after the growth that is asked for."""
        return ceil(np.ceil(self.nodes(gpus) * (1.0 + self.growth) - 1e-9), 1)

    def ports(self, tier: int) -> tuple[int, int]:
        """Ports down and up of a leaf (`tier` 0) or of a spine that has a tier above it (1).

        As few up as the oversubscription allows.
        """
        radix = self.radix[tier]
        up = int(np.ceil(radix / (1.0 + self.oversubscription[tier]) - 1e-9))
        return radix - up, up


def wiring_of(
    cluster: Cluster,
    radix: tuple[int, int, int] = (64, 64, 64),
    oversubscription: tuple[float, float] = (1.0, 1.0),
    growth: float = 0.0,
) -> Wiring:
    """The wiring of machines such as those of `cluster`; of it only the nodes are used."""
    nics = cluster.node.nics
    if nics is None:
        raise InputError.of(f"{cluster.name} has no NICs that a fabric could connect")
    if min(radix) < 4:
        raise InputError.of(f"{min(radix)} ports are too few for a switch of a fabric")
    if min(oversubscription) < 1:
        raise InputError.of("an oversubscription is at least 1: write 3 or 3:1 for three to one")
    if growth < 0:
        raise InputError.of("a growth is not negative: write 20% or 0.2")
    domain = cluster.scale_up
    return Wiring(
        gpus_per_node=int(cluster.gpus_per_node),
        nics_per_node=int(nics.count),
        nic_bytes_per_s=float(nics.rate_bytes_per_s),
        radix=radix,
        oversubscription=oversubscription,
        growth=growth,
        domain_nodes=max(1, int(domain.gpus) // int(cluster.node.gpus)) if domain else 1,
        scale_up=bool(domain and domain.gpus > 1 and domain.topology != "pcie"),
    )


def ceil(amount: Any, part: Any) -> Any:
    """Whole parts that hold `amount`; a plain number for plain numbers."""
    parts = -(-np.asarray(amount, dtype=np.int64) // part)
    return parts if np.ndim(parts) else int(parts)
