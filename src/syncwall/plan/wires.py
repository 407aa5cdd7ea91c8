"""A run on a machine whose wires are faster, slower, nearer or farther.

Holds `Wires` (factors on rates and latency) and `PricedCase` (what is run where). The model is that
of `predict`; every factor may be an array.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from syncwall.answer.pricing import Pricing, Timed
from syncwall.describe import Cluster, Layout, Model, Run
from syncwall.work.memory import step_memory
from syncwall.work.number import is_one


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
        if nics is not None and not is_one(self.nic):
            faster = nics.model_copy(update={"rate_bytes_per_s": nics.rate_bytes_per_s * self.nic})
            update["node"] = cluster.node.model_copy(update={"nics": faster})
        if domain is not None and not is_one(self.scale_up):
            rate = domain.rate_bytes_per_s * self.scale_up
            update["scale_up"] = domain.model_copy(update={"rate_bytes_per_s": rate})
        return cluster.model_copy(update=update)


AS_IT_IS: Final = Wires()
"""A machine that nobody changed."""


@dataclass(frozen=True, slots=True)
class PricedCase:
    """A model on a machine, and what operations cost there; the layout comes with each question."""

    model: Model
    cluster: Cluster
    seq: int
    pricing: Pricing

    @classmethod
    def of(cls, run: Run, pricing: Pricing) -> "PricedCase":
        """What is trained, and where, in `run`."""
        return cls(run.model, run.cluster, run.seq, pricing)

    def timed(self, layout: Layout, wires: Wires = AS_IT_IS) -> Timed:
        """The step of a resolved `layout` with these `wires`."""
        cluster = wires.on(self.cluster)
        return self.pricing.step(self.model, layout, self.seq, cluster, latency=wires.latency)

    def memory(self, layout: Layout) -> Any:
        """Bytes on the fullest GPU."""
        return step_memory(self.model, layout, self.seq).total

    def using(self, gpus: int) -> "PricedCase":
        """The same on `gpus` GPUs: part of a node, or whole nodes."""
        return replace(self, cluster=self.cluster.with_gpus(gpus))
