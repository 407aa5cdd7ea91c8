"""What the software of a run makes of a device's calibration, and how one site differs from it.

Constants of frameworks are data: `syncwall show frameworks`.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Final

from syncwall.catalogue import CatalogueKind, added_folders
from syncwall.cost.calibration import Calibration
from syncwall.describe import Cluster, Model
from syncwall.describe.choice import Dtype
from syncwall.describe.device import Device
from syncwall.describe.names import load
from syncwall.describe.software import (
    USUAL_FRAMEWORK,
    AttentionKernel,
    ExpertKernels,
    Framework,
    Graphs,
    Software,
    UsualKernels,
    at,
)
from syncwall.work.block import Scope, Work
from syncwall.work.number import Number, most

SCALED_SPEED = {"tensor": 1.0, "block": 0.84, "row": 0.77}
"""Speed of fp8 multiplications over those with one scale for a tensor, which train at 1.83 times
bf16 on an H100 (dgxc-benchmarking): with scales for blocks 1.53, for rows 1.35 to 1.45 times bf16
(medians of aiconfigurator's kernels from 10 TFLOP on, over libraries)."""
ROW_CAST = 2.5
"""Traffic of casts with a scale for each row: each tensor is read for its largest values and again
to be cast, once along its rows and once along its columns, 10 bytes instead of 4."""

KERNELS_OF_AN_OPERATION: Final = 4.0
"""Kernels of a recorded program for one operation of a description, whose host time was fitted."""
SORTING: Final = ("permute", "unpermute")
"""Kinds of kernels that put tokens in the order of their experts and back."""
ADDED: Final = ("clamp", "bias")
"""Kinds of kernels that good software makes part of others."""
CAPTURED: Final[dict[Graphs, frozenset[Scope]]] = {
    "none": frozenset(),
    "router": frozenset({Scope.ROUTER}),
    "attention": frozenset({Scope.ROUTER, Scope.ATTENTION}),
    "full": frozenset(Scope),
}


def framework_or_default(name: str | None) -> Framework:
    """The framework called `name`; the usual one if nobody names any."""
    return _framework(name or USUAL_FRAMEWORK, added_folders())


@lru_cache(maxsize=64)
def _framework(name: str, folders: tuple[Path, ...]) -> Framework:
    """Read once for each name and each set of the user's catalogue folders."""
    return load(CatalogueKind.FRAMEWORK, Framework, name)


@dataclass(frozen=True)
class ResolvedSoftware:
    """Software in which nothing is open any more."""

    framework: Framework
    attention: AttentionKernel
    kernels: UsualKernels
    software: Software
    expert_kernels: ExpertKernels = "grouped"
    graphs: Graphs = "none"

    @classmethod
    def of(cls, software: Software) -> "ResolvedSoftware":
        """`software` with the framework's choice wherever it has none of its own."""
        family = framework_or_default(software.framework)
        kernel: AttentionKernel = at(family.attention, software.date)
        expert_kernels: ExpertKernels = at(family.expert_kernels, software.date)
        graphs: Graphs = at(family.graphs, software.date)
        return cls(
            family,
            kernel if software.attention is None else software.attention,
            software.kernels or family.kernels,
            software,
            software.expert_kernels or expert_kernels,
            software.graphs or graphs,
        )

    def padded(self, model: Model) -> Model:
        """`model` with the rows that the framework adds to its embedding."""
        multiple = self.framework.vocab_multiple
        rows = -(-model.vocab // multiple) * multiple
        return model if rows == model.vocab else model.model_copy(update={"vocab": rows})

    def tuned(self, fit: Calibration, device: Device) -> Calibration:
        """`fit` of `device` as this software reaches it: the date's and the framework's efficiency,
        the framework's traffic.
        """
        library = self.framework.efficiency_on(device.architecture, self.software.date)
        reached = at(fit.training, self.software.date) * library
        gemm = fit.gemm.model_copy(update={"in_training": reached})
        scaling = self.software.fp8_scaling
        if Dtype.FP8 in gemm.low_precision:
            share = gemm.low_precision[Dtype.FP8] * SCALED_SPEED[scaling]
            narrow = gemm.low_precision | {Dtype.FP8: share}
            gemm = gemm.model_copy(update={"low_precision": narrow})
        elementwise = fit.elementwise.model_copy(
            update={
                "traffic": self.framework.traffic,
                "cast": ROW_CAST if scaling == "row" else self.framework.cast,
            }
        )
        one_rail = at(self.framework.one_rail, self.software.date)
        rings = {"ring_rank_s": self.framework.ring_rank_s, "one_rail": one_rail}
        network = fit.network.model_copy(update=rings)
        update = {"gemm": gemm, "elementwise": elementwise, "network": network}
        return fit.model_copy(update=update)

    def traffic(self, kind: str, usual: float) -> float:
        """Memory traffic of an element-wise kernel over that of the least; `usual` for most."""
        family, date = self.framework, self.software.date
        if kind.startswith(SORTING):
            return at(family.sorting_traffic, date)
        if kind.startswith(ADDED):
            return 0.0 if at(family.fused_expert_bias, date) else 1.0
        return usual

    @property
    def unfused(self) -> float:
        """Exponent on what kernels cost without fusion: 1 without, 0 with it, half where some are."""
        return {"fused": 0.0, "mixed": 0.5, "eager": 1.0}[self.kernels]

    @property
    def fused_optimizer(self) -> bool:
        """True if one kernel updates all weights."""
        stated = self.software.fused_optimizer
        return self.framework.fused_optimizer if stated is None else stated

    @property
    def captured(self) -> frozenset[Scope]:
        """Parts of a layer that graphs hold."""
        return CAPTURED[self.graphs]

    @property
    def host_wait_s(self) -> float:
        """Host time lost by reading a number from the device; a graph of all reads none."""
        return 0.0 if self.graphs == "full" else self.framework.host.per_wait_s

    @property
    def host_kernel_s(self) -> float:
        """Host time to issue one kernel of a recorded program."""
        if self.graphs == "full":
            return 0.0
        return self.framework.host.per_operation_s / KERNELS_OF_AN_OPERATION

    @property
    def host_expert_s(self) -> float:
        """Host time to issue the multiplication of one more expert; in a loop an operation."""
        if self.graphs == "full":
            return 0.0
        host = self.framework.host
        return host.per_operation_s if self.expert_kernels == "loop" else host.per_expert_s

    def host_s(self, work: Work, cluster: Cluster) -> Number:
        """Host time to issue one operation that is one kernel without fusion too."""
        if self.graphs == "full":
            return 0.0
        host, ranks = self.framework.host, work.tensor_ranks
        crossing = (work.pipeline.stages > 1) & (work.gpus > cluster.gpus_per_node)
        meeting = host.per_tensor_rank_s * ranks * (ranks > 1)
        further = most(ranks / cluster.gpus_per_node - 1.0, 0.0)
        each_s = host.pipelined_per_tensor_rank_s + host.pipelined_per_tensor_node_s * further
        waiting: Number = each_s * ranks * crossing
        split: Number = host.per_split_operation_s * (ranks > 1) * self.unfused
        return host.per_operation_s + meeting + waiting + split


@dataclass(frozen=True, slots=True)
class Knobs:
    """Time at the site over that which the catalogue gives; 1 is as the catalogue says."""

    gemm: Number = 1.0
    """Matrix multiplications."""
    attention: Number = 1.0
    elementwise: Number = 1.0
    """Memory-bound kernels, the optimizer, adding up gradients."""
    network: Number = 1.0
    """Collectives and messages, whether anything waits for them or not."""
    host: Number = 1.0
    """Issuing operations, waiting for numbers of the device, copies to the host and what it
    computes, the end of a step."""

    def by_name(self) -> dict[str, Number]:
        """Every knob by its name."""
        return {name: getattr(self, name) for name in KNOBS}


KNOBS: Final = tuple(one.name for one in fields(Knobs))
AS_CATALOGUED: Final = Knobs()
