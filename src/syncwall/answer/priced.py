"""A step of any origin, priced on a machine: what can be said of it without a description.

Holds `Priced`, `PredictedStep` (whose memory is known, too), `MFU_CONVENTION` and
`mfu_convention`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from syncwall.answer.interval import UNKNOWN, PredictionInterval
from syncwall.answer.pricing import Pricing, Timed
from syncwall.answer.room import Room
from syncwall.answer.verdict import Verdict, limit_of, too_large
from syncwall.cost.calibration import Calibration
from syncwall.cost.prices import Prices
from syncwall.describe import Cluster, Model
from syncwall.describe.run import MeasuredSpeed
from syncwall.timeline.ledger import Ledger
from syncwall.work.block import Work
from syncwall.work.memory import fits

MFU_CONVENTION = "causal, dense 16-bit peak"


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
        return speed.seconds(float(self.work.tokens), float(self.work.gpus), self.mfu * self.step_s)

    def _utilisation(self, flops: float) -> float:
        return flops / self.step_s / float(self.work.gpus) / self.peak_flop_per_s


class PredictedStep(Priced, ABC):
    """A step of which it is known what the fullest GPU holds."""

    @property
    @abstractmethod
    def memory_bytes(self) -> float:
        """Bytes on the fullest GPU."""

    @property
    def room(self) -> Room:
        """The interval of that, and how likely it fits."""
        return Room.on(self.cluster.device, self.memory_bytes)

    @property
    def memory_interval_bytes(self) -> tuple[float, float]:
        """P10 and P90 of it."""
        return self.room.interval_bytes

    @property
    def fits(self) -> bool:
        """True if the fullest GPU has enough memory."""
        return bool(fits(self.memory_bytes, self.cluster.device))

    @property
    def verdict(self) -> Verdict:
        """What limits the step, or that it does not fit."""
        return super().verdict if self.fits else too_large(self.memory_bytes, self.cluster.device)
