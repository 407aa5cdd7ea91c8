"""One operation of a prediction in plain words: its shape, what it moves, its formula, its
source.

They are those of docs/explanation/compute.md and communication.md.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall import units
from syncwall.answer.prediction import Prediction
from syncwall.cost.calibration import Calibration
from syncwall.cost.compute import SCAN_REACHED, unfused_cost
from syncwall.cost.nccl import bus_factor, constants
from syncwall.cost.path import Path, axis_paths, host_link_bytes_per_s
from syncwall.cost.prices import HOST_BYTES_PER_S
from syncwall.cost.rates import merged_share, nic_reached
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
        self._paths = axis_paths(prediction.run.layout, self._cluster)
        self._memory = _rate(self._device.memory.rate_bytes_per_s)
        self._known: dict[object, str] = {}
        self._writers: dict[type, Callable[[Any], str]] = {
            Gemm: self._gemm,
            CoreAttention: self._attention,
            Elementwise: self._elementwise,
            Scan: self._scan,
            Collective: self._collective,
            Transfer: self._transfer,
            Offload: self._offload,
        }

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
        more = unfused_cost(what, fit, self._setting)
        traffic = more.traffic * (1.0 if what.is_fused else fit.traffic)
        moved = "bytes" if what.is_fused and traffic == 1 else f"bytes × {traffic:.3g}"
        kernels = f" × {more.kernels:.3g} kernels without fusion" if more.kernels != 1 else ""
        return f"{moved} / {rest}{kernels}"

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


_COMPUTE: Final = "docs/explanation/compute.md"
_NETWORK: Final = "docs/explanation/communication.md"
_HOST: Final = "rate of the link measured, of the host's memory assumed; docs/explanation/memory.md"


@dataclass(frozen=True, slots=True)
class OperationWords:
    """What a reader wants to know of an operation; zeros where it does not apply."""

    shape: str
    seconds: float
    """If nothing else runs."""
    flops: float
    hbm_bytes: float
    """Memory traffic, each operand once."""
    sent_bytes: float
    """What one rank sends."""
    rate: float
    """What it reaches then, in `rate_unit`."""
    rate_unit: str
    """FLOP/s, B/s of memory, or B/s busbw as nccl-tests counts it."""
    of_peak: float | None
    """The rate over the datasheet's; None for communication."""
    formula: str
    source: str


class Wording:
    """Words for the operations of one prediction."""

    def __init__(self, prediction: Prediction) -> None:
        self._prices = prediction.prices
        self._fit = prediction.calibration
        self._memory_per_s = float(prediction.run.cluster.device.memory.rate_bytes_per_s)
        self._paths = axis_paths(prediction.run.layout, prediction.run.cluster)
        self._formulas = Formulas(prediction)
        self._fitted = _fitted(self._fit)

    def of(self, what: Task) -> OperationWords:
        """All about `what`."""
        seconds = float(self._prices.seconds(what))
        flops, moved, sent = 0.0, 0.0, 0.0
        if isinstance(what, Collective | Transfer):
            sent = self._sent(what)
            said, source = self._way(what), self._wire_source(what)
            amount, unit, peak = sent, "B/s busbw", 0.0
        elif isinstance(what, Offload):
            sent = float(what.bytes)
            said, source = "copy between device and host", _HOST
            amount, unit, peak = sent, "B/s", 0.0
        else:
            flops, moved = float(what.flops), float(what.hbm_bytes)
            said, source = shape(what), self._source(what)
            amount, unit, peak = moved, "B/s of memory", self._memory_per_s
            if not isinstance(what, Elementwise):
                amount, unit, peak = flops, "FLOP/s", self._formulas.peak(what)
        rate = amount / seconds if seconds > 0 else 0.0
        of_peak = rate / peak if peak else None
        return OperationWords(
            said, seconds, flops, moved, sent, rate, unit, of_peak, self._formulas.of(what), source
        )

    def _source(self, what: Gemm | CoreAttention | Elementwise | Scan) -> str:
        if isinstance(what, Scan):
            return f"one published kernel on an H800; {_COMPUTE}"
        name = what.measured_as
        measured = "measured on this machine; " if getattr(self._fit.measured, name) else ""
        return f"{measured}{self._fitted[name]}; {_COMPUTE}"

    def _sent(self, what: Collective | Transfer) -> float:
        if isinstance(what, Transfer):
            return float(what.bytes)
        path = self._paths[what.axis]
        share = what.share * (merged_share(path.domains, what.copies) if what.copies > 1 else 1.0)
        return float(what.bytes * bus_factor(what.kind, path.ranks) * share)

    def _way(self, what: Collective | Transfer) -> str:
        if isinstance(what, Transfer):
            return "message to the next stage " + _reach(self._paths["pp"])
        path = self._paths[what.axis]
        calls = f", {_number(what.calls)} calls" if what.calls > 1 else ""
        seldom = f", in {float(what.share):.3g} of the steps" if what.share != 1 else ""
        return f"{what.kind} over {_number(path.ranks)} ranks {_reach(path)}{calls}{seldom}"

    def _wire_source(self, what: Collective | Transfer) -> str:
        if isinstance(what, Transfer):
            return f"start assumed, rates as for all-to-all; {_NETWORK}"
        path = self._paths[what.axis]
        for table in self._fit.measured.collectives:
            same = (table.kind, table.ranks, table.nodes) == (what.kind, path.ranks, path.nodes)
            if same:
                return f"measured on this machine; {_NETWORK}"
        far = float(path.domains) > 1
        if what.kind == "all-to-all":
            first = "start assumed, NIC rate fitted to training runs" if far else self._fitted["network"]
            return f"{first}; {_NETWORK}"
        nccl = f"constants of {constants()['title']} (src/graph/tuning.cc)"
        second = "NIC rate fitted to training runs" if far else self._fitted["network"]
        return f"{nccl}, {second}; {_NETWORK}"


def shape(what: Gemm | CoreAttention | Elementwise | Scan) -> str:
    """The dimensions: "8,192 x 28,672 x 8,192 bf16" is m x n x k."""
    if isinstance(what, Gemm):
        count = f"{_number(what.count)} of " if what.count != 1 else ""
        kind = ", weight gradient" if what.is_weight_gradient else ""
        sizes = " x ".join(map(_number, (what.m, what.n, what.k)))
        return f"{count}{sizes} {what.dtype}{kind}"
    if isinstance(what, CoreAttention):
        mask = ", causal" if what.is_causal else ""
        window = f", window {_number(what.window)}" if what.window is not None else ""
        return (
            f"batch {_number(what.batch)}, {_number(what.heads)} heads of {_number(what.head_dim)} "
            f"({_number(what.kv_heads)} of keys and values), {_number(what.q_len)} queries x "
            f"{_number(what.kv_len)} keys{mask}{window}"
        )
    if isinstance(what, Scan):
        heads, tokens, chunk = map(_number, (what.heads, what.tokens, what.chunk))
        return f"{heads} heads, {tokens} tokens in chunks of {chunk}"
    kernels = "kernel" if what.kernels == 1 else "kernels"
    return f"{what.kind or 'memory-bound'}, {_number(what.kernels)} {kernels}"


def _fitted(fit: Calibration) -> dict[str, str]:
    """By block of the calibration, what its numbers were fitted to and how well."""
    title = fit.title or fit.name
    blocks = {
        "gemm": fit.gemm,
        "attention": fit.attention,
        "elementwise": fit.elementwise,
        "network": fit.network,
    }
    return {name: _origin(block.fitted, fit.provenance or {}, title) for name, block in blocks.items()}


def _origin(fitted: dict[str, str], provenance: dict[str, Any], title: str) -> str:
    """As in "fitted to aiconfigurator 095f58a (error mean 4.8%), NVIDIA H100 SXM"."""
    trust = provenance.get("trust", "assumed")
    if not fitted or trust == "assumed":
        return f"assumed, no table of its own; {title}"
    text = next(iter(fitted.values()))
    error = re.search(r"error mean [\d.]+ %", text)
    return f"{trust} to {text.split(',')[0]}{f' ({error[0]})' if error else ''}, {title}"


def _reach(path: Path) -> str:
    if float(path.domains) <= 1:
        return "in one scale-up domain"
    where = "nodes" if float(path.domains) == float(path.nodes) else "scale-up domains"
    return f"in {_number(path.domains)} {where}"


def _number(value: Any) -> str:
    number = float(value)
    return f"{number:,.0f}" if number == round(number) or number >= 1000 else f"{number:.3g}"
