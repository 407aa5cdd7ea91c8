"""One run, predicted.

Holds `predict` and `Prediction`.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, overload

from syncwall.answer.interval import PredictionInterval, interval
from syncwall.answer.priced import MFU_CONVENTION, Priced
from syncwall.answer.pricing import NetworkModel, Pricing
from syncwall.answer.room import Room
from syncwall.answer.settled import Chosen, SettledRun, settle
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.answer.traits import Traits
from syncwall.answer.verdict import Verdict, too_large
from syncwall.cost.communication import Network
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Run, Software
from syncwall.work.block import Work
from syncwall.work.memory import Memory, fits, step_memory


@overload
def predict(
    run: Run,
    pricing: Pricing | None = None,
    *,
    network: NetworkModel | Network | None = None,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
) -> "Prediction": ...


@overload
def predict(
    run: Work,
    pricing: Pricing | None = None,
    *,
    cluster: Cluster,
    software: Software | None = None,
    network: NetworkModel | Network | None = None,
    measured: MachineMeasurements | None = None,
) -> Priced: ...


def predict(  # noqa: PLR0913 - a run has this many sides
    run: Run | Work,
    pricing: Pricing | None = None,
    *,
    cluster: Cluster | None = None,
    software: Software | None = None,
    network: NetworkModel | Network | None = None,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
) -> Priced:
    """How fast `run` will be, where its time goes, and whether it fits.

    `pricing` is that of an earlier prediction, whose run this one resembles; else it is made of
    `network`, which prices communication instead of the closed form (for example by simulation),
    `measured`, what `syncwall measure` found on the machine, and `site`, what known runs of the
    cluster say. All that is derived from the prediction is priced by it too.

    A `Work` of other origin, such as a captured program, is priced on `cluster` with `software`;
    of its memory and of other layouts nothing can be said.
    """
    if isinstance(run, Work):
        if cluster is None:
            raise TypeError("the price of a Work depends on the machine: give cluster=")
        pricing = pricing or Pricing.on(cluster, software, network=network, measured=measured)
        return Priced(pricing, pricing.timed(run, cluster))
    pricing = pricing or Pricing.of(run, network=network, measured=measured, site=site)
    settled = settle(run, pricing)
    done = settled.run
    timed = pricing.step(done.model, done.layout, done.seq, done.cluster)
    return Prediction(pricing, timed, settled, step_memory(done.model, done.layout, done.seq))


@dataclass(frozen=True)
class Prediction(Priced):
    """What to expect of a run."""

    settled: SettledRun
    """The run in which nothing is open, and what was chosen for it."""
    memory: Memory
    """Bytes on the fullest GPU, by cause."""

    @property
    def run(self) -> Run:
        """The run, with nothing open."""
        return self.settled.run

    @property
    def chosen(self) -> tuple[Chosen, ...]:
        """What was open, the value taken for it, and why."""
        return self.settled.chosen

    @property
    def assumed(self) -> dict[str, str]:
        """What the run leaves open and does not follow from its framework, with the value taken."""
        return self.settled.guessed

    @property
    def site(self) -> Site:
        """Known runs of the same cluster."""
        return self.pricing.site

    @cached_property
    def interval(self) -> PredictionInterval:
        """How sure the prediction is, and the published run most like this one."""
        return interval(self.traits, waiting=self.waiting, unsaid=len(self.assumed), site=self.site)

    @property
    def traits(self) -> Traits:
        """What this run is compared by with others."""
        run = self.run
        return Traits.of(run.model, run.cluster, run.layout, run.software, run.seq)

    def to_dict(self) -> dict[str, Any]:
        """The prediction as plain data: seconds, bytes, FLOP."""
        low, high = self.step_interval_s
        return {
            "verdict": asdict(self.verdict),
            "step_s": self.step_s,
            "step_interval_s": [low, high],
            "extrapolating": self.interval.extrapolating,
            "nearest_validated_run": self.interval.nearest and asdict(self.interval.nearest),
            "known_runs": len(self.site.known),
            "knobs": self.pricing.knobs.by_name(),
            "left_open": self.assumed,
            "chosen": [asdict(one) for one in self.chosen],
            "calibrated_by": list(self.calibration.measured.sources),
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "mfu_convention": MFU_CONVENTION,
            "fits": self.fits,
            "memory_bytes": self.memory_bytes,
            "memory_interval_bytes": list(self.room.interval_bytes),
            "fits_probability": self.room.probability,
            "memory_by_cause_bytes": self.memory.by_cause(),
            "ledger_s": dict(self.ledger),
            "exposed_s": self.exposed_s,
            "model_flops": float(self.work.model_flops),
            "tokens": float(self.work.tokens),
        }

    def _repr_html_(self) -> str:
        """The numbers and the ledger as a table, for notebooks."""
        rows = [
            ("verdict", self.verdict.text),
            ("step", f"{self.step_s:.3g} s"),
            ("tokens/s/GPU", f"{self.tokens_per_s_per_gpu:,.0f}"),
            ("MFU", f"{self.mfu:.1%} ({MFU_CONVENTION})"),
            ("memory", f"{self.memory_bytes / 1e9:.1f} GB, fits with {self.room.probability:.0%}"),
        ]
        ordered = sorted(self.ledger.items(), key=lambda pair: -float(pair[1]))
        rows += [(cause, f"{float(s):.3g} s, {float(s) / self.step_s:.1%}") for cause, s in ordered]
        cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in rows)
        return f"<table>{cells}</table>"

    @property
    def memory_bytes(self) -> float:
        """Bytes on the fullest GPU."""
        return float(self.memory.total)

    @property
    def room(self) -> Room:
        """The interval of that, and how likely it fits."""
        return Room.on(self.run.cluster.device, self.memory_bytes)

    @property
    def fits(self) -> bool:
        """True if the fullest GPU has enough memory."""
        return bool(fits(self.memory_bytes, self.run.cluster.device))

    @property
    def verdict(self) -> Verdict:
        """What limits the run."""
        return super().verdict if self.fits else too_large(self.memory_bytes, self.cluster.device)
