"""One operation of a prediction in plain words: its shape, what it moves, its formula, its source.

Holds `OperationWords`, `Wording` and `shape`.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from syncwall.answer.prediction import Prediction
from syncwall.cost.calibration import Calibration
from syncwall.cost.nccl import bus_factor, constants
from syncwall.cost.path import Path, paths
from syncwall.cost.rates import merged_share
from syncwall.show.words.formulas import Formulas
from syncwall.work.block import Task
from syncwall.work.operations import (
    Collective,
    CoreAttention,
    Elementwise,
    Gemm,
    Offload,
    Scan,
    Transfer,
)

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
        self._paths = paths(prediction.run.layout, prediction.run.cluster)
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
            first = (
                "start assumed, NIC rate fitted to training runs"
                if far
                else self._fitted["network"]
            )
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
    blocks = {"gemm": fit.gemm, "attention": fit.attention, "elementwise": fit.elementwise,
              "network": fit.network}  # fmt: skip
    return {
        name: _origin(block.fitted, fit.provenance or {}, title) for name, block in blocks.items()
    }


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
