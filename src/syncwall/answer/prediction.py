"""One run, predicted, and what plug-ins decide of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, overload

from syncwall import catalogue, plugins
from syncwall.answer.contention import Contention, step_on_links
from syncwall.answer.interval import PredictionInterval, interval
from syncwall.answer.priced import PredictedStep, Priced, mfu_convention
from syncwall.answer.pricing import NetworkChoice, Pricing
from syncwall.answer.program import ProgramPrediction, predict_program
from syncwall.answer.settled import Chosen, SettledRun, settle
from syncwall.answer.site import UNKNOWN_SITE, Site, Traits
from syncwall.answer.timeline import Timeline, timeline
from syncwall.catalogue import CatalogueKind, Folders, takes_catalogue
from syncwall.cost.algorithm_choices import algorithm_choices
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.contended_network import SharedLinks
from syncwall.cost.measured import MachineMeasurements
from syncwall.cost.nccl import algorithms
from syncwall.describe import Cluster, Run, Software, lookup
from syncwall.public import Answer, Late, Part, published
from syncwall.work.block import Work
from syncwall.work.host_memory import host_memory_bytes
from syncwall.work.memory import Memory, step_memory
from syncwall.work.program import Program


@overload
def predict(
    run: Run | str | Path,
    pricing: Pricing | None = None,
    *,
    network: NetworkChoice | None = None,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> "Prediction": ...


@overload
def predict(
    run: Work,
    pricing: Pricing | None = None,
    *,
    cluster: Cluster,
    software: Software | None = None,
    network: NetworkChoice | None = None,
    measured: MachineMeasurements | None = None,
    catalogue: Folders = None,
) -> Priced: ...


@overload
def predict(
    run: Program,
    *,
    cluster: Cluster,
    software: Software | None = None,
    compiled: bool | None = None,
    network: NetworkChoice | None = None,
    measured: MachineMeasurements | None = None,
    catalogue: Folders = None,
) -> ProgramPrediction: ...


@takes_catalogue
def predict(  # noqa: PLR0913 - a run has this many sides
    run: Run | str | Path | Work | Program,
    pricing: Pricing | None = None,
    *,
    cluster: Cluster | None = None,
    software: Software | None = None,
    compiled: bool | None = None,
    network: NetworkChoice | None = None,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> Priced:
    """How fast `run`, or the one in a run file, will be, where its time goes, whether it fits.

    `pricing` is that of an earlier prediction, whose run this one resembles; else it is made of
    `network`, which prices communication instead of the closed form (for example by simulation; its
    name, if a package adds it; `SharedLinks` for flows that share links),
    `measured`, what `syncwall measure` found on the machine, and `site`, what known runs of the
    cluster say. All that is derived from the prediction is priced by it too.

    A recorded `Program` is predicted on `cluster` with `software`; `compiled` joins memory-bound
    kernels as a compiler would, None as the program asks for. Any other `Work` is priced there,
    too; of its memory and of other layouts nothing can be said.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(tp=8, shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-70b", cluster="dgx-h100", nodes=32, layout=layout)
        >>> found = sw.predict(run)
        >>> found
        <Prediction llama-3.1-70b on 256 h100-sxm: step ... s, MFU ...%, fits>
        >>> abs(sum(found.ledger.values()) - found.step_s) < 1e-9
        True
    """
    if isinstance(run, Work | Program):
        if cluster is None:
            raise TypeError(f"the price of a {type(run).__name__} depends on the machine: give cluster=")
        if isinstance(run, Program):
            return predict_program(
                run, cluster, software, compiled=compiled, network=network, measured=measured
            )
        pricing = pricing or Pricing.on(cluster, software, network=network, measured=measured)
        return Priced(pricing, pricing.timed(run, cluster))
    if isinstance(run, str | Path):
        run = lookup.run(run)
    if not isinstance(run, Run):
        raise TypeError(
            f"predict takes a run, not a {type(run).__name__}: make one with "
            'sw.Run(model="llama-3.1-8b", cluster="dgx-h100"), or name a run file'
        )
    shared = network if isinstance(network, SharedLinks) else None
    free = None if shared is not None else network
    pricing = pricing or Pricing.of(run, network=free, measured=measured, site=site)
    settled, contention = settle(run, pricing), None
    done = settled.run
    if shared is not None:
        pricing, timed, contention = step_on_links(done, pricing, shared)
    else:
        timed = pricing.step(done.model, done.layout, done.seq, done.cluster)
    memory = step_memory(done.model, done.layout, done.seq).as_floats()
    return Prediction(pricing, timed, settled, memory, contention)


_STEP: Final = (
    "verdict step_s step_interval_s extrapolating=interval.extrapolating "
    "nearest_validated_run=interval.nearest known_runs knobs=pricing.knobs.by_name "
    "left_open=assumed chosen calibrated_by=calibration.measured.sources tokens_per_s_per_gpu mfu "
    "hfu mfu_convention fits memory_bytes memory_interval_bytes fits_probability=room.probability "
    "memory_by_cause_bytes=memory.by_cause host_memory_bytes ledger_s=ledger exposed_s "
    "model_flops=work.model_flops tokens"
)


@published(_STEP, "next=improvements assumed=_taken_for_granted run job=_job gap contention")
@dataclass(frozen=True)
class Prediction(PredictedStep, Answer):
    """What to expect of a run."""

    verb = "predict"
    step = Part(_STEP, text="What is to be expected of a training step.")
    improvements = Late("answer.improvements:improvements")
    _taken_for_granted = Late("show.prediction:assumed")
    gap = Late("answer.gap:gap_of")
    _job = Late("job.completion:no_job")
    settled: SettledRun
    """The run in which nothing is open, and what was chosen for it."""
    memory: Memory
    """Bytes on the fullest GPU, by cause."""
    contention: Contention | None = None
    """What sharing links does to the step, if a fabric was given."""

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
    def known_runs(self) -> int:
        """Measured runs of the same cluster that the prices are anchored to."""
        return len(self.site.known)

    @property
    def tokens(self) -> float:
        """Of one step."""
        return float(self.work.tokens)

    @property
    def mfu_convention(self) -> str:
        """Which FLOPs are counted, over which peak."""
        return mfu_convention(self.run.model)

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

    def again(self, run: Run) -> "Prediction":
        """Another run on the same network, measurements and site."""
        pricing = self.pricing
        return predict(run, network=pricing.network, measured=pricing.fit.measured, site=pricing.site)

    def timeline(self) -> Timeline:
        """The last micro batch and the optimizer step in time: every operation and every wait."""
        return timeline(self, f"{self.run.model.name}, one micro batch, predicted by syncwall")

    def __repr__(self) -> str:
        run, fits = self.run, "fits" if self.fits else "does not fit"
        return (
            f"<Prediction {run.model.name} on {run.gpus} {run.cluster.device.name}: "
            f"step {self.step_s:.4g} s, MFU {self.mfu:.1%}, {fits}>"
        )

    @property
    def memory_bytes(self) -> float:
        """Bytes on the fullest GPU."""
        return float(self.memory.total)

    @cached_property
    def host_memory_bytes(self) -> float:
        """Bytes that offloading moves to the memory of one host, if all its GPUs are as full."""
        run = self.run
        each = host_memory_bytes(run.model, run.layout, run.seq, self.memory)
        return float(each) * run.gpus_per_node


@dataclass(frozen=True, slots=True)
class PluggedPart:
    """One part of a prediction."""

    what: str
    """As in "all-reduce of dp"."""
    by: str
    """Name of the entry."""
    package: str
    """Name and version of the package that adds it."""
    formula: str = ""
    """Of an algorithm, as its author states it."""


def plugged_parts(prediction: Prediction) -> list[PluggedPart]:
    """Every part that a plug-in decides, once."""
    found = (*_entries(prediction), *_network(prediction), *_collectives(prediction))
    return list(dict.fromkeys(found))


def _entries(prediction: Prediction) -> Iterator[PluggedPart]:
    """Catalogue entries from folders of packages."""
    run = prediction.run
    used = {
        CatalogueKind.MODEL: run.model.name,
        CatalogueKind.CLUSTER: run.cluster.name,
        CatalogueKind.DEVICE: run.cluster.device.name,
        CatalogueKind.FRAMEWORK: prediction.prices.setting.framework.name,
    }
    for plugin in plugins.added("catalogue"):
        for kind, name in used.items():
            file = plugin.entry and plugin.entry / kind.folder / f"{name}.yaml"
            if file and file == catalogue.paths(kind).get(str(name)):
                yield PluggedPart(str(kind), str(name), plugin.package)


def _network(prediction: Prediction) -> Iterator[PluggedPart]:
    plugin = plugins.owner("networks", prediction.pricing.network)
    if plugin is not None:
        yield PluggedPart("communication", plugin.name, plugin.package)


def _collectives(prediction: Prediction) -> Iterator[PluggedPart]:
    """Collectives for which an algorithm of a package is the fastest."""
    algorithms()
    known = {one.name: one for one in plugins.added("collectives") if not one.problem}
    if not known or prediction.pricing.network is not NcclNetwork:
        return
    cluster = prediction.cluster
    network = NcclNetwork(cluster, prediction.calibration.network)
    for stage in prediction.work.stages:
        for _, what, _ in stage.collectives(prediction.work.microbatches):
            size = float(what.bytes) / float(what.calls)
            found = algorithm_choices(network, cluster, what.kind, size, what.group)
            plugin = known.get(found[0].algorithm) if found else None
            if plugin is not None:
                about, formula = f"{what.kind} of {what.axis}", plugin.entry.formula
                yield PluggedPart(about, plugin.name, plugin.package, formula)
