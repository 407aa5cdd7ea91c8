"""A step of any origin, priced on a machine, whether it fits and what limits it.

What differs from run to run is the allocator's fragments, kernels that keep more or less than is
usual, and workspaces.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import log
from statistics import NormalDist
from typing import Final

from syncwall.answer.interval import UNKNOWN, Z80, PredictionInterval
from syncwall.answer.pricing import Pricing, Timed
from syncwall.cause import Cause
from syncwall.cost.calibration import Calibration
from syncwall.cost.prices import Prices
from syncwall.describe import Cluster, Device, Model
from syncwall.describe.run import MeasuredSpeed
from syncwall.timeline.ledger import Ledger
from syncwall.work.block import Work
from syncwall.work.memory import usable_bytes
from syncwall.work.number import Number, Truth

LOW, HIGH = 0.86, 1.40
"""P10 and P90 of measured over predicted memory: the calibration half of the ultra-scale playbook,
BLOOM's, ml-engineering's and pigeon23's runs, which print four peaks or more, each source with the
same weight. Of Aleph Alpha's grid of 587 layouts, in no fit, 11% of those ran that need 1.0 to 1.1
times the device, 3% at 1.1 to 1.2, none above; the others ran out of memory."""


@dataclass(frozen=True, slots=True)
class MemoryMargin:
    """The memory of one run beside that of its device."""

    memory_bytes: float
    """As predicted: the median."""
    size_bytes: float
    """What the device has."""

    @classmethod
    def on(cls, device: Device, memory_bytes: float) -> "MemoryMargin":
        """The room that so many bytes have on `device`."""
        return cls(memory_bytes, float(device.memory.size_bytes))

    @property
    def interval_bytes(self) -> tuple[float, float]:
        """P10 and P90."""
        return LOW * self.memory_bytes, HIGH * self.memory_bytes

    @property
    def probability(self) -> float:
        """How likely it fits: two halves of a normal distribution of the logarithm."""
        away = log(self.size_bytes / self.memory_bytes)
        spread = log(HIGH) if away > 0 else -log(LOW)
        return NormalDist(0.0, spread / Z80).cdf(away)


def likely_fits(memory_bytes: Number, device: Device) -> Truth:
    """True where a run fits with 90 %: the P90 of its memory is no more than the device has."""
    return HIGH * memory_bytes <= float(device.memory.size_bytes)


def may_fit(memory_bytes: Number, device: Device) -> Truth:
    """True unless even the P10 of a run's memory is more than the device has."""
    return LOW * memory_bytes <= float(device.memory.size_bytes)


BOTTLENECK: Final = 0.15
"""Share of a step from which one kind of waiting is called a bottleneck. A choice of words, not a
fit: below it the step would become at most 1.18 times faster if that waiting went away."""


class VerdictKind(StrEnum):
    """What limits a run."""

    DOES_NOT_FIT = "does not fit"
    COMPUTE = "compute"
    COMMUNICATION = "communication"
    PIPELINE = "pipeline"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits a run."""

    kind: VerdictKind
    share: float
    """Of the step, spent on what `kind` names; if it does not fit, memory needed over what is there
    to use."""
    text: str
    """The same in one line."""

    def __str__(self) -> str:
        return self.text


_BOTTLENECKS: Final = {
    VerdictKind.COMMUNICATION: "comms is a bottleneck: {:.0%} of the step waits for the network",
    VerdictKind.PIPELINE: "pipeline bubble is a bottleneck: {:.0%} of the step",
    VerdictKind.HOST: "the host is a bottleneck: {:.0%} of the step",
}


def tight(found: Verdict, need_bytes: float, device: Device) -> Verdict:
    """`found` for a run that may fit, though it needs more than can be counted on."""
    likely = MemoryMargin.on(device, need_bytes).probability
    size = float(device.memory.size_bytes)
    words = "memory is tight" if likely >= 0.5 else "memory will probably not suffice"
    need = f"{need_bytes / 1e9:.0f} of {size / 1e9:.0f} GB: {likely:.0%} likely to fit"
    return replace(found, text=f"{found.text}; {words}, {need}")


def too_large(need_bytes: float, device: Device) -> Verdict:
    """The verdict on a run that needs more memory on a GPU than can be used of it."""
    usable, size = usable_bytes(device), device.memory.size_bytes
    text = (
        f"does not fit: {need_bytes / 1e9:.0f} GB are needed, {usable / 1e9:.0f} of "
        f"{size / 1e9:.0f} GB can be used"
    )
    return Verdict(VerdictKind.DOES_NOT_FIT, need_bytes / usable, text)


def limit_of(ledger: Ledger) -> Verdict:
    """The verdict on a step that fits: the largest kind of waiting, or computation."""
    step_s = float(ledger.total)
    copies = float(ledger[Cause.EXPOSED_OFFLOAD])  # over the link to the host, not the network
    on_host = float(ledger[Cause.HOST] + ledger[Cause.HOST_OPTIMIZER]) + copies
    waits = {
        VerdictKind.COMMUNICATION: (float(ledger.exposed_s) - copies) / step_s,
        VerdictKind.PIPELINE: float(ledger[Cause.BUBBLE]) / step_s,
        VerdictKind.HOST: on_host / step_s,
    }
    kind = max(waits, key=lambda one: waits[one])
    if waits[kind] >= BOTTLENECK:
        return Verdict(kind, waits[kind], _BOTTLENECKS[kind].format(waits[kind]))
    working = sum(float(s) for cause, s in ledger.items() if not cause.is_wait) / step_s
    waiting = waits[VerdictKind.COMMUNICATION]
    text = f"compute-bound: {waiting:.0%} of the step waits for communication"
    return Verdict(VerdictKind.COMPUTE, working, text)


MFU_CONVENTION = "causal, dense 16-bit peak"
RECORDED_CONVENTION = MFU_CONVENTION.replace("causal", "FLOPs as recorded")


def mfu_convention(model: Model) -> str:
    """What counts as the FLOPs of `model`, and of which peak they are a share."""
    if model.stack is not None:
        return MFU_CONVENTION.replace("causal", "FLOPs as stated")
    if model.encoder is not None and not model.encoder.attention.causal:
        return MFU_CONVENTION.replace("causal", "causal behind a full encoder")
    if model.attention.causal:
        return MFU_CONVENTION
    return MFU_CONVENTION.replace("causal", "full attention")


@dataclass(frozen=True)
class Priced:
    """Time and speed of one step."""

    pricing: Pricing
    """What operations cost, here and in all that resembles it."""
    timed: Timed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.cluster.name}: step {self.step_s:.4g} s>"

    @property
    def work(self) -> Work:
        """What the step does."""
        return self.timed.work

    @property
    def cluster(self) -> Cluster:
        """The machine, as far as it is used."""
        return self.timed.cluster

    @property
    def prices(self) -> Prices:
        """Seconds of single operations."""
        return self.timed.prices

    @property
    def calibration(self) -> Calibration:
        """What was assumed to be reached on this device."""
        return self.pricing.fit

    @cached_property
    def step_s(self) -> float:
        """Median of the seconds of an optimizer step."""
        return float(self.timed.step_s)

    @cached_property
    def ledger(self) -> Ledger:
        """Seconds by cause; they add up to `step_s`."""
        return self.timed.ledger.without_zeros()

    @cached_property
    def exposed_s(self) -> float:
        """Seconds that wait for communication."""
        return float(self.ledger.exposed_s)

    @property
    def waiting(self) -> float:
        """Share of the step that waits for communication or for the host."""
        return float(self.ledger.waiting)

    @cached_property
    def interval(self) -> PredictionInterval:
        """How sure the prediction is; nothing like a step of other origin was ever validated."""
        return UNKNOWN

    @property
    def step_interval_s(self) -> tuple[float, float]:
        """P10 and P90 of the step; wide where nothing like it was ever measured."""
        return self.interval.around(self.step_s)

    @property
    def verdict(self) -> Verdict:
        """What limits the step."""
        return limit_of(self.ledger)

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens a second of each GPU."""
        return float(self.work.tokens) / self.step_s / float(self.work.gpus)

    @property
    def peak_flop_per_s(self) -> float:
        """Dense 16-bit peak of one GPU, which MFU and HFU refer to."""
        return float(self.cluster.device.sixteen_bit_flop_per_s)

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: causal, without recomputation, of the dense 16-bit peak."""
        return self._utilisation(float(self.work.model_flops))

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilisation: with recomputation."""
        return self._utilisation(float(self.work.model_flops + self.work.recompute_flops))

    def seconds_of(self, speed: MeasuredSpeed) -> float:
        """Seconds of this step at a `speed` that was measured."""
        at_peak_s = self.mfu * self.step_s
        return speed.seconds(float(self.work.tokens), float(self.work.gpus), at_peak_s, self.peak_flop_per_s)

    def _utilisation(self, flops: float) -> float:
        return flops / self.step_s / float(self.work.gpus) / self.peak_flop_per_s
