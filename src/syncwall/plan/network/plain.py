"""The plain arithmetic of the network: bytes that a node must send over the time it computes.

Holds `Plain` and `plain`. Source: the network chapter of ml-engineering (S. Bekman): a GPU computes
at half its peak, gradients are sent twice, all of it hides behind all of the computation.
"""

from dataclasses import dataclass
from typing import Final

from syncwall.describe import Cluster, Layout
from syncwall.describe.layout import Recompute, Shard
from syncwall.plan.wires import Case

HALF_OF_PEAK: Final = 0.5
"""Share of the dense 16-bit peak at which the chapter lets a GPU compute: 156 of 312 TFLOP/s."""
_WEIGHT_BYTES: Final = 2.0


@dataclass(frozen=True, slots=True)
class Plain:
    """What a sheet of paper says."""

    node_bytes: float
    """Sent by one node in a step, for data parallelism only."""
    compute_s: float
    """Forward and backward pass at half the peak."""

    @property
    def node_bytes_per_s(self) -> float:
        """The rate, one way and reached, at which both take equally long."""
        return self.node_bytes / self.compute_s


def plain(case: Case, layout: Layout) -> Plain | None:
    """Plain arithmetic for one resolved `layout`; None where it has none: experts that are spread.

    Gradients are counted where they leave a scale-up domain.
    """
    if layout.ep > 1:
        return None
    parameters = float(case.model.parameters)
    passes = 4.0 if layout.recompute == Recompute.FULL else 3.0
    tokens = float(layout.global_batch or 1) * case.seq / float(layout.gpus)
    flop = 2.0 * passes * float(case.model.active_parameters) * tokens
    compute_s = flop / (case.cluster.device.sixteen_bit_flop_per_s * HALF_OF_PEAK)
    return Plain(parameters * _bytes(layout) * _share_of_a_node(case.cluster, layout), compute_s)


def _share_of_a_node(cluster: Cluster, layout: Layout) -> float:
    """Part of the parameters whose gradients leave a node: what its scale-up domain holds of them,
    over the nodes of the domain.
    """
    together = max(cluster.domain_gpus, cluster.gpus_per_node)
    if layout.gpus <= together or float(layout.dp or 1) * float(layout.cp) == 1:
        return 0.0
    held = min(1.0, together / float(layout.tp * layout.pp))
    return held * cluster.gpus_per_node / together


def _bytes(layout: Layout) -> float:
    """Bytes that cross the network for each parameter: an all-reduce sends twice."""
    gradients = layout.gradient_dtype.size_bytes
    micro = float(layout.microbatches) if layout.pp == 1 else 1.0  # a stage keeps its weights
    if layout.shard == Shard.DDP:
        return 2.0 * gradients
    if layout.shard == Shard.FSDP:
        return (2.0 * _WEIGHT_BYTES + gradients) * micro
    return gradients + _WEIGHT_BYTES
