"""One run, predicted.

Holds `predict`, `Prediction`, `as_seen_from` and `traits_of`.
"""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from syncwall.answer.evaluation import priced_step
from syncwall.answer.interval import Interval, interval
from syncwall.answer.settled import settled
from syncwall.answer.site import NOWHERE, Site
from syncwall.answer.traits import Traits
from syncwall.cost.calibration import Calibration
from syncwall.cost.communication import Network
from syncwall.cost.measured import Measured
from syncwall.cost.prices import Prices
from syncwall.describe import Run
from syncwall.timeline.ledger import Ledger
from syncwall.work.block import EXPOSED, Work
from syncwall.work.memory import Memory, step_memory

MFU_CONVENTION = "causal, dense 16-bit peak"


def predict(
    run: Run,
    network: Network | None = None,
    *,
    site: Site = NOWHERE,
    measured: Measured | None = None,
) -> "Prediction":
    """How fast `run` will be, where its time goes, and whether it fits.

    `network` prices communication in the place of the closed form, for example by simulation.
    `site` is what measured runs of the same cluster say; every prediction is anchored to them.
    `measured` is what `syncwall measure` found on the machine; it beats the catalogue.
    """
    run, assumed = settled(run)
    site = as_seen_from(run, site)
    work, time, prices = priced_step(
        run.model, run.cluster, run.layout, run.seq, run.software,
        network=network, measured=measured,
    )  # fmt: skip
    memory = step_memory(run.model, run.layout, run.seq)
    ledger = time.ledger.without_zeros().scaled(site.bias)
    step_s = float(time.step_s) * site.bias
    return Prediction(run, work, step_s, ledger, memory, prices, assumed, site)


def as_seen_from(run: Run, site: Site) -> Site:
    """What `site` says of `run`."""
    return site.seen_from(traits_of(run)) if site.known else site


def traits_of(run: Run) -> Traits:
    """What a run is compared by with others."""
    return Traits.of(run.model, run.cluster, run.layout, run.software, run.seq)


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
    assumed: dict[str, str] = field(default_factory=dict)
    """What the run leaves open, and the value taken for it."""
    site: Site = NOWHERE
    """Known runs of the same cluster."""

    @property
    def calibration(self) -> Calibration:
        """What was assumed to be reached on this device."""
        return self.prices.fit

    @property
    def step_interval_s(self) -> tuple[float, float]:
        """P10 and P90 of the step; wide where nothing like it was ever measured."""
        return self.interval.around(self.step_s)

    @cached_property
    def interval(self) -> Interval:
        """How sure the prediction is, and the published run most like this one."""
        return interval(self.traits, open_fields=len(self.assumed), site=self.site)

    @property
    def traits(self) -> Traits:
        """What this run is compared by with others."""
        return traits_of(self.run)

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
            "extrapolating": self.interval.extrapolating,
            "nearest_validated_run": self.interval.nearest and asdict(self.interval.nearest),
            "known_runs": len(self.site.ratios),
            "left_open": self.assumed,
            "calibrated_by": list(self.calibration.measured.sources),
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
