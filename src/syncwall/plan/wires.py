"""A run on a machine whose wires are faster, slower, nearer or farther.

Holds `Wires` (factors on rates and latency), `Case` (what is run where) and `Timed` (its time). The
model is that of `predict`; every factor may be an array.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from syncwall.answer.evaluation import priced_step
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.path import Path, paths
from syncwall.cost.prices import Prices
from syncwall.describe import Cluster, Layout, Model, Software
from syncwall.timeline.ledger import Ledger
from syncwall.work.block import EXPOSED, Work


@dataclass(frozen=True, slots=True)
class Wires:
    """Factors on what a machine has; 1 leaves it as it is."""

    nic: Any = 1.0
    """On the rate of every NIC."""
    scale_up: Any = 1.0
    """On the rate of a GPU inside its scale-up domain."""
    latency: Any = 1.0
    """On what a message between scale-up domains takes whatever its size."""

    def on(self, cluster: Cluster) -> Cluster:
        """`cluster` with these rates."""
        update: dict[str, Any] = {}
        nics, domain = cluster.node.nics, cluster.scale_up
        if nics is not None and not _is_one(self.nic):
            faster = nics.model_copy(update={"rate_bytes_per_s": nics.rate_bytes_per_s * self.nic})
            update["node"] = cluster.node.model_copy(update={"nics": faster})
        if domain is not None and not _is_one(self.scale_up):
            rate = domain.rate_bytes_per_s * self.scale_up
            update["scale_up"] = domain.model_copy(update={"rate_bytes_per_s": rate})
        return cluster.model_copy(update=update)


AS_IT_IS: Final = Wires()
"""A machine that nobody changed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A step, or arrays of them."""

    cluster: Cluster
    layout: Layout
    work: Work
    prices: Prices
    step_s: Any
    ledger: Ledger
    ways: dict[Any, Path]
    """Where the ranks of every axis stand."""

    @property
    def waits_s(self) -> Any:
        """Seconds that wait for communication."""
        return sum((self.ledger[cause] for cause in EXPOSED.values()), 0.0)

    @property
    def tokens_per_s(self) -> Any:
        """Tokens a second of all GPUs together."""
        return self.work.tokens / self.step_s


@dataclass(frozen=True, slots=True)
class Case:
    """A model on a machine; the layout comes with each question."""

    model: Model
    cluster: Cluster
    seq: int
    software: Software

    def timed(self, layout: Layout, wires: Wires = AS_IT_IS) -> Timed:
        """The step of a resolved `layout` with these `wires`."""
        cluster = wires.on(self.cluster)
        ways = paths(layout, cluster)
        fit = calibration(cluster.device).network
        network = NcclNetwork(layout, cluster, fit, latency=wires.latency)
        work, time, prices = priced_step(
            self.model, cluster, layout, self.seq, self.software, network=network
        )
        return Timed(cluster, layout, work, prices, time.step_s, time.ledger, ways)

    def using(self, gpus: int) -> "Case":
        """The same on `gpus` GPUs: part of a node, or whole nodes."""
        return replace(self, cluster=with_gpus(self.cluster, gpus))


def with_gpus(cluster: Cluster, gpus: int) -> Cluster:
    """`cluster` with `gpus` GPUs in use: part of a node, or whole nodes."""
    each = min(gpus, cluster.gpus_per_node)
    return cluster.using(nodes=-(-gpus // each), gpus_per_node=each)


def _is_one(factor: Any) -> bool:
    return np.ndim(factor) == 0 and factor == 1
