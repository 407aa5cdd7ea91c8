"""One run, predicted.

Holds `predict`, `Prediction`, and `evaluate`, which does the same for arrays of layouts.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from syncwall.cost.calibration import Calibration, calibration
from syncwall.cost.communication import NcclNetwork, Network
from syncwall.cost.prices import Prices
from syncwall.describe import Cluster, Layout, Model, Run, Software
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.step import StepTime, step_time
from syncwall.work.block import EXPOSED, Work
from syncwall.work.memory import Memory, step_memory
from syncwall.work.step import transformer_step

KNOWN_SPREAD = (0.80, 1.25)
"""P10 and P90 of measured over predicted for calibrated devices, before any fit to runs; assumed
from the spread of published runs around models of this kind."""
UNKNOWN_SPREAD = (0.65, 1.60)
"""The same for a device without a calibration of its own."""

_DEFAULT_SOFTWARE = Software()
MFU_CONVENTION = "causal, dense 16-bit peak"


def evaluate(
    model: Model,
    cluster: Cluster,
    layout: Layout,
    seq: Any,
    *,
    software: Software = _DEFAULT_SOFTWARE,
    network: Network | None = None,
) -> tuple[Work, StepTime]:
    """Work and time of a resolved layout, or of arrays of them; the one model of the package."""
    prices = _prices(cluster, layout, software, network)
    work = transformer_step(model, layout, seq)
    return work, step_time(work, layout, prices, layout.gpus)


def _prices(
    cluster: Cluster, layout: Layout, software: Software, network: Network | None
) -> Prices:
    fit = calibration(cluster.device)
    wires = network or NcclNetwork(layout, cluster, fit.network)
    return Prices(cluster.device, wires, fit, software)


def predict(run: Run, network: Network | None = None) -> "Prediction":
    """How fast `run` will be, where its time goes, and whether it fits.

    `network` prices communication in the place of the closed form, for example by simulation.
    """
    prices = _prices(run.cluster, run.layout, run.software, network)
    work = transformer_step(run.model, run.layout, run.seq)
    time = step_time(work, run.layout, prices, run.gpus)
    memory = step_memory(run.model, run.layout, run.seq)
    return Prediction(run, work, float(time.step_s), time.ledger.without_zeros(), memory, prices)


@dataclass(frozen=True)
class Prediction:
    """What is to be expected of a run."""

    run: Run
    work: Work
    step_s: float
    """Seconds of an optimizer step, P50."""
    ledger: Ledger
    """Seconds by cause; they add up to `step_s`."""
    memory: Memory
    """Bytes on the fullest GPU, by cause."""
    prices: Prices
    """What operations cost in this run."""

    @property
    def calibration(self) -> Calibration:
        """What was assumed to be reached on this device."""
        return self.prices.fit

    @property
    def step_interval_s(self) -> tuple[float, float]:
        """P10 and P90 of the step; wide where the device was never measured."""
        low, high = KNOWN_SPREAD if self.calibration.device else UNKNOWN_SPREAD
        return self.step_s * low, self.step_s * high

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Training speed of one GPU."""
        return float(self.work.tokens) / self.step_s / self.run.gpus

    @property
    def peak_flop_per_s(self) -> float:
        """Dense 16-bit peak of one GPU, which MFU and HFU refer to."""
        return float(self.run.cluster.device.sixteen_bit_flop_per_s)

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: causal, without recomputation, of the dense 16-bit peak."""
        return self._utilisation(float(self.work.model_flops))

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilisation: with recomputation."""
        return self._utilisation(float(self.work.model_flops + self.work.recompute_flops))

    def to_dict(self) -> dict[str, Any]:
        """The prediction as plain data: seconds, bytes, FLOP."""
        low, high = self.step_interval_s
        return {
            "verdict": self.verdict,
            "step_s": self.step_s,
            "step_interval_s": [low, high],
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "mfu_convention": MFU_CONVENTION,
            "fits": self.fits,
            "memory_bytes": self.memory_bytes,
            "memory_by_cause_bytes": self.memory.by_cause(),
            "ledger_s": dict(self.ledger.items()),
            "exposed_s": self.exposed_s,
            "model_flops": float(self.work.model_flops),
            "tokens": float(self.work.tokens),
        }

    def _repr_html_(self) -> str:
        """The numbers and the ledger as a table, for notebooks."""
        rows = [
            ("verdict", self.verdict),
            ("step", f"{self.step_s:.3g} s"),
            ("tokens/s/GPU", f"{self.tokens_per_s_per_gpu:,.0f}"),
            ("MFU", f"{self.mfu:.1%} ({MFU_CONVENTION})"),
            ("memory", f"{self.memory_bytes / 1e9:.1f} GB, {'fits' if self.fits else 'too much'}"),
        ]
        ordered = sorted(self.ledger.items(), key=lambda pair: -float(pair[1]))
        rows += [(cause, f"{float(s):.3g} s, {float(s) / self.step_s:.1%}") for cause, s in ordered]
        cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in rows)
        return f"<table>{cells}</table>"

    def _utilisation(self, flops: float) -> float:
        return flops / self.step_s / self.run.gpus / self.peak_flop_per_s

    @cached_property
    def exposed_s(self) -> float:
        """Seconds that wait for communication."""
        return float(sum(self.ledger[cause] for cause in EXPOSED.values()))

    @property
    def memory_bytes(self) -> float:
        """Bytes on the fullest GPU."""
        return float(self.memory.total)

    @property
    def fits(self) -> bool:
        """True if the fullest GPU has enough memory."""
        return self.memory_bytes <= self.run.cluster.device.memory.size_bytes

    @property
    def verdict(self) -> str:
        """What limits the run, in one line."""
        waiting = self.exposed_s / self.step_s
        if not self.fits:
            have = self.run.cluster.device.memory.size_bytes
            return f"does not fit: {self.memory_bytes / 1e9:.0f} of {have / 1e9:.0f} GB are needed"
        limits = {
            "communication": waiting,
            "pipeline bubble": self.ledger["pipeline bubble"] / self.step_s,
            "the host": self.ledger["host"] / self.step_s,
        }
        worst = max(limits, key=lambda name: limits[name])
        if limits[worst] < 0.15:
            return f"compute-bound: {waiting:.0%} of the step waits for communication"
        if worst == "communication":
            return f"comms is a bottleneck: {waiting:.0%} of the step waits for the network"
        return f"{worst} is a bottleneck: {limits[worst]:.0%} of the step"
