"""The formula of an operation's time in one line, with the numbers of the run in their places.

Holds `Formulas`. They are those of docs/explanation/compute.md and communication.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from syncwall import units
from syncwall.answer.prediction import Prediction
from syncwall.cost.compute import SCAN_REACHED
from syncwall.cost.host import HOST_BYTES_PER_S, host_link_bytes_per_s
from syncwall.cost.nccl import constants
from syncwall.cost.path import paths
from syncwall.cost.rates import nic_reached
from syncwall.cost.torus import Torus
from syncwall.describe.choice import Dtype
from syncwall.units import Dimension
from syncwall.work.block import Task
from syncwall.work.operations import (
    Collective,
    CoreAttention,
    Elementwise,
    Gemm,
    GroupAxis,
    Offload,
    Scan,
    Transfer,
)


class Formulas:
    """Formulas of one prediction; alike operations are written once."""

    def __init__(self, prediction: Prediction) -> None:
        self._fit = prediction.calibration
        self._setting = prediction.prices.setting
        self._cluster = prediction.run.cluster
        self._device = self._cluster.device
        self._paths = paths(prediction.run.layout, self._cluster)
        self._memory = _rate(self._device.memory.rate_bytes_per_s)
        self._known: dict[object, str] = {}
        self._writers: dict[type, Callable[[Any], str]] = {
            Gemm: self._gemm, CoreAttention: self._attention, Elementwise: self._elementwise,
            Scan: self._scan,
            Collective: self._collective, Transfer: self._transfer, Offload: self._offload,
        }  # fmt: skip

    def of(self, what: Task) -> str:
        """The formula of `what`."""
        key = _key(what)
        if key not in self._known:
            self._known[key] = self._written(what)
        return self._known[key]

    def peak(self, what: Gemm | CoreAttention | Scan) -> float:
        """Dense FLOP/s of the datasheet in the format of `what`."""
        dtype = what.dtype if isinstance(what, Gemm) else Dtype.BF16
        if dtype in (Dtype.BF16, Dtype.FP16):
            return float(self._device.sixteen_bit_flop_per_s)
        if dtype is Dtype.MXFP8 and dtype not in self._device.peak_flop_per_s:
            dtype = Dtype.FP8
        return float(self._device.flop_per_s(dtype))

    def _written(self, what: Task) -> str:
        said = self._writers[type(what)](what)
        if not isinstance(what, Gemm | CoreAttention | Elementwise):
            return said
        known = getattr(self._fit.measured, what.measured_as)
        if isinstance(what, Elementwise):
            known = [point for point in known if point.kind == what.kind]
        return said + ("; times measured over formula of the nearest shapes" if known else "")

    def _transfer(self, what: Transfer) -> str:
        far = float(self._paths[what.group.axis].domains) > 1
        return f"start + bytes / {self._nic('pp') if far else 'rate of the links'}"

    def _offload(self, what: Offload) -> str:
        rate = _rate(host_link_bytes_per_s(self._device))
        return f"bytes / {rate} + memory traffic of the host / {_rate(HOST_BYTES_PER_S)}"

    def _gemm(self, what: Gemm) -> str:
        fit = self._fit.gemm
        slower = f" × {fit.weight_gradient:.3g} as a weight gradient" * what.is_weight_gradient
        narrow = fit.low_precision.get(what.dtype)
        slower += f" × {narrow:.3g} in {what.dtype}" if narrow else ""
        group = f" + {_us(fit.group_s)} for each further one" if what.count > 1 else ""
        return (
            f"(t_c⁴ + t_m⁴)^¼ + {_us(fit.launch_s)} launch{group}; t_c = 2 × area × (k + "
            f"{fit.half_depth:.3g}) / ({_flops(self.peak(what))} × {fit.efficiency:.3g} × "
            f"{fit.in_training:.3g} in training{slower}), area = m × n, partly rounded up to tiles "
            f"of {fit.tile_m} x {fit.tile_n}; t_m = bytes / ({self._memory} × "
            f"{fit.memory_efficiency:.3g})"
        )

    def _attention(self, what: CoreAttention) -> str:
        fit, kernel = self._fit.attention, self._setting.attention
        peak = _flops(self.peak(what))
        if kernel == "unfused":
            return (
                f"FLOP of the whole square / ({peak} × {fit.unfused:.3g} × d / (d + "
                f"{fit.unfused_head_overhead:.3g})) + (bytes + {fit.unfused_score_bytes:.3g} B a "
                f"score) / {self._memory}"
            )
        reached = fit.flash_3 if kernel == "flash-3" else fit.flash_2
        older = f" × {fit.flash_1_ratio:.3g}" if kernel == "flash-1" else ""
        back = f" × {fit.backward:.3g} backward" if what.is_backward else ""
        return (
            f"FLOP below the diagonal / ({peak} × {reached:.3g}{older} with {kernel}{back}, "
            f"less for small heads) × (1 + {fit.half_length:.3g} / length of a piece) × (1 + "
            f"{fit.half_filled:.3g} × multiprocessors / blocks of 128 queries); at least bytes / "
            "memory rate"
        )

    def _scan(self, what: Scan) -> str:
        fit = self._fit.elementwise
        return (
            f"FLOP of whole chunks / ({_flops(self.peak(what))} × {SCAN_REACHED:.3g}), or bytes / "
            f"({self._memory} × {fit.efficiency:.3g}) where that is longer; + {_us(fit.launch_s)}"
        )

    def _elementwise(self, what: Elementwise) -> str:
        fit = self._fit.elementwise
        rest = f"({self._memory} × {fit.efficiency:.3g}) + {_us(fit.launch_s)} a kernel"
        if what.is_fused:
            return f"bytes / {rest}"
        eager = (
            f", all × {fit.eager:.3g} without fusion" if self._setting.kernels == "eager" else ""
        )
        return f"bytes × {fit.traffic:.3g} / {rest}{eager}"

    def _collective(self, what: Collective) -> str:
        nics, path = self._cluster.node.nics, self._paths[what.axis]
        far = float(path.domains) > 1
        if nics and nics.transport == "gloo":
            passes = "2 × " if what.kind == "all-reduce" else ""
            return f"{passes}(ranks − 1) × (bytes / ranks / rate + hop): a ring of CPUs (Gloo)"
        if Torus.of(self._cluster) is not None:
            return "a hop's start × hops + bytes / links of the group's axes (torus, unvalidated)"
        if what.kind == "all-to-all":
            near = "bytes for its own domain / rate of the links"
            longer = f"the longer of {near} and bytes for others / {self._nic(what.axis)}"
            return f"start + {longer if far else near}"
        if far:
            reached = f"{constants()['net_fraction']:.3g} / {self._reached(what.axis):.3g}"
            return (
                "the fastest of NCCL's ways (ring, tree, ...): latency + hops + bytes / its rate × "
                f"{reached} reached in training, + time to fill pipelines"
            )
        kind = self._fit.network.of(what.kind)
        return (
            f"the fastest of NCCL's ways (ring, tree, NVLS): latency × {kind.latency:.3g} + "
            f"{_us(kind.per_rank_s)} a rank + bytes / (its rate × {kind.rate:.3g}), a little more "
            "for few ranks, + time to fill pipelines"
        )

    def _nic(self, axis: GroupAxis) -> str:
        """A GPU's share of the NICs, as messages and all-to-alls reach it."""
        path = self._paths[axis]
        slower = path.crossing.ring if axis == "pp" else path.crossing.all_to_all
        share = _rate(path.nic_bytes_per_s_per_gpu / slower)
        return f"({share} of NIC a GPU × {nic_reached(self._cluster, self._fit.network):.3g})"

    def _reached(self, axis: GroupAxis) -> float:
        lost = self._fit.network.nic_per_doubling * float(np.log2(self._paths[axis].domains))
        return max(0.3, nic_reached(self._cluster, self._fit.network) - lost)


def _key(what: Task) -> object:
    """What decides over the formula of an operation."""
    if isinstance(what, Gemm):
        return ("gemm", what.dtype, what.is_weight_gradient, bool(what.count > 1))
    if isinstance(what, CoreAttention):
        return ("attention", what.is_backward)
    if isinstance(what, Elementwise):
        return ("elementwise", what.is_fused, what.kind)
    if isinstance(what, Offload | Scan):
        return type(what)
    return (what.kind, what.axis) if isinstance(what, Collective) else "transfer"


def _rate(bytes_per_s: Any) -> str:
    return units.format(float(bytes_per_s), Dimension.BYTES_PER_S, digits=3)


def _flops(flop_per_s: float) -> str:
    return units.format(flop_per_s, Dimension.FLOP_PER_S, digits=3)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs"
