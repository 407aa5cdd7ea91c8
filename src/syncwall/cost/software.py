"""What the software of a run makes of a device's calibration.

Holds `Setting`: framework, kernels and host of a run with everything decided, and the calibration
that results. Constants of frameworks are data: `syncwall show frameworks`.
"""

import os
from dataclasses import dataclass
from functools import lru_cache

from syncwall.catalogue import VARIABLE, Kind
from syncwall.cost.calibration import Calibration
from syncwall.describe import Cluster, Model
from syncwall.describe.framework import AttentionKernel, Framework, Kernels, at
from syncwall.describe.names import load
from syncwall.describe.software import USUAL_FRAMEWORK, Software
from syncwall.work.block import Work
from syncwall.work.number import Number, most

ROW_SCALING = 0.77
"""Speed of fp8 multiplications with a scale for each row over those with one for a tensor: 1.35
and 1.76 times bf16 on an H100 (aiconfigurator's kernels; dgxc-benchmarking's training runs)."""


def framework(name: str | None) -> Framework:
    """The framework called `name`; the usual one if nobody names any."""
    return _framework(name or USUAL_FRAMEWORK, os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=64)
def _framework(name: str, directories: str) -> Framework:
    """Read once for each name and each setting of the user's catalogue directories."""
    return load(Kind.FRAMEWORK, Framework, name)


@dataclass(frozen=True)
class Setting:
    """Software in which nothing is open any more."""

    framework: Framework
    attention: AttentionKernel
    kernels: Kernels
    software: Software

    @classmethod
    def of(cls, software: Software) -> "Setting":
        """`software` with the framework's choice wherever it has none of its own."""
        family = framework(software.framework)
        kernel: AttentionKernel = at(family.attention, software.date)
        return cls(
            family,
            kernel if software.attention is None else software.attention,
            software.kernels or family.kernels,
            software,
        )

    def padded(self, model: Model) -> Model:
        """`model` with the rows that the framework adds to its embedding."""
        multiple = self.framework.vocab_multiple
        rows = -(-model.vocab // multiple) * multiple
        return model if rows == model.vocab else model.model_copy(update={"vocab": rows})

    def tuned(self, fit: Calibration) -> Calibration:
        """`fit` as this software reaches it: the date's efficiency, the framework's traffic."""
        reached = at(fit.training, self.software.date) * self.framework.efficiency
        gemm = fit.gemm.model_copy(update={"in_training": reached})
        if self.software.fp8_scaling == "row":
            slower = {dtype: share * ROW_SCALING for dtype, share in gemm.low_precision.items()}
            gemm = gemm.model_copy(update={"low_precision": slower})
        elementwise = fit.elementwise.model_copy(update={"traffic": self.framework.traffic})
        return fit.model_copy(update={"gemm": gemm, "elementwise": elementwise})

    def host_s(self, work: Work, cluster: Cluster, eager: float) -> Number:
        """Host time to issue one operation; `eager` is the number of kernels it has without fusion
        over that with it.
        """
        if self.software.graphs == "full":
            return 0.0
        host, ranks = self.framework.host, work.tensor_ranks
        crossing = (work.pipeline.stages > 1) & (work.gpus > cluster.gpus_per_node)
        meeting = host.per_tensor_rank_s * ranks * (ranks > 1)
        further = most(ranks / cluster.gpus_per_node - 1.0, 0.0)
        each_s = host.pipelined_per_tensor_rank_s + host.pipelined_per_tensor_node_s * further
        waiting: Number = each_s * ranks * crossing
        issued = host.per_operation_s * (eager if self.kernels == "eager" else 1.0)
        return issued + meeting + waiting
