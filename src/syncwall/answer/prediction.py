"""One run or recorded program, predicted, and what plug-ins decide of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, overload

from pydantic import ValidationError

from syncwall import catalogue, plugins
from syncwall.answer.contention import Contention, step_on_links
from syncwall.answer.interval import UNKNOWN, PredictionInterval, interval
from syncwall.answer.priced import (
    RECORDED_CONVENTION,
    MemoryMargin,
    Priced,
    Verdict,
    limit_of,
    may_fit,
    mfu_convention,
    tight,
    too_large,
)
from syncwall.answer.pricing import NetworkChoice, Pricing
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
from syncwall.describe.faults import faults_of
from syncwall.describe.run import MeasuredSpeed
from syncwall.problems import InputError, Problem
from syncwall.public import Answer, Late, Part, published
from syncwall.timeline.program_replay import Share, kernel_shares, module_name
from syncwall.work.block import Work
from syncwall.work.flops import forward_flops
from syncwall.work.host_memory import host_memory_bytes
from syncwall.work.memory import Memory, fits, recorded_memory, step_memory
from syncwall.work.program import NOTABLE, Program, RankProgram, unknown_share

NATIVE: Final = "pytorch"
"""The framework that is nothing but PyTorch: how programs reach what they reach, if none is named.
"""


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
    cluster: Cluster | str,
    software: Software | None = None,
    network: NetworkChoice | None = None,
    measured: MachineMeasurements | None = None,
    catalogue: Folders = None,
) -> Priced: ...


@overload
def predict(
    run: Program,
    *,
    cluster: Cluster | str,
    software: Software | None = None,
    compiled: bool | None = None,
    network: NetworkChoice | None = None,
    measured: MachineMeasurements | None = None,
    catalogue: Folders = None,
) -> "Prediction": ...


@takes_catalogue
def predict(  # noqa: PLR0913 - a run has this many sides
    run: Run | str | Path | Work | Program,
    pricing: Pricing | None = None,
    *,
    cluster: Cluster | str | None = None,
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

    A recorded `Program` is predicted on `cluster`, which may be a name, with `software`; `compiled`
    joins memory-bound kernels as a compiler would, None as the program asks for. Any other `Work` is
    priced there, too; of its memory and of other layouts nothing can be said.

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
        cluster = lookup.cluster(cluster) if isinstance(cluster, str) else cluster
        if isinstance(run, Program):
            machine = with_ranks(cluster, run.world_size)
            pricing = Pricing.on(cluster, _played(software), network=network, measured=measured)
            run = run if compiled is None else replace(run, compiled=compiled)
            return Prediction(pricing, pricing.timed(run, machine), run)
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
    return Prediction(pricing, timed, settled, contention)


def _played(software: Software | None) -> Software:
    """The software of a recorded program, which has its own kernels."""
    stated = software or Software()
    if stated.launch_blocking:
        raise InputError.of("launch_blocking of a recorded program is not modelled: leave it out")
    taken = {"kernels": "fused", "framework": stated.framework or NATIVE}
    return stated.model_copy(update=taken)


def with_ranks(cluster: Cluster, ranks: int) -> Cluster:
    """As many nodes of `cluster` as a program of so many ranks fills."""
    nearby = cluster.gpus_per_node
    if ranks > nearby and ranks % nearby:
        raise InputError.of(
            f"the program has {ranks} ranks, which do not fill nodes of {nearby} GPUs; "
            f"record it with --world {ranks // nearby * nearby}"
        )
    try:
        return cluster.with_gpus(ranks)
    except ValidationError as error:
        said = [message for _, message in faults_of(error, Cluster)]
        raise InputError([Problem(cluster.name, 0, 0, one) for one in said]) from None


_STEP: Final = (
    "verdict step_s step_interval_s extrapolating=interval.extrapolating "
    "interval_reasons=interval.reasons "
    "nearest_validated_run=interval.nearest known_runs knobs=pricing.knobs.by_name "
    "left_open=assumed chosen calibrated_by=calibration.measured.sources tokens_per_s_per_gpu mfu "
    "hfu mfu_convention fits memory_bytes memory_interval_bytes fits_probability=room.probability "
    "memory_by_cause_bytes=memory.by_cause host_memory_bytes ledger_s=ledger exposed_s "
    "model_flops=work.model_flops tokens"
)


@published(_STEP, "next=improvements assumed=_taken_for_granted run job=_job gap contention first_run")
@dataclass(frozen=True)
class Prediction(Priced, Answer):
    """What to expect of a run.

    Or of a recorded program: `is_recorded` says of which.
    """

    step = Part(_STEP, text="What is to be expected of a training step.")
    _recorded = Part(
        "command=program.command torch=program.torch world_size=program.world_size",
        "cluster=cluster.name compiled verdict step_s step_interval_s",
        "tokens_per_s_per_gpu samples_per_s mfu hfu mfu_convention fits memory_bytes",
        "memory_interval_bytes fits_probability=room.probability",
        "memory_by_kind_bytes=memory_by_cause largest_batch ledger_s=ledger exposed_s",
        "model_flops=program.model_flops parameters=program.parameters unknown by_module by_source",
        "next=improvements._recorded notes=program.noted job=_job",
        text="What to expect of a recorded program.",
        name="ProgramPrediction",
    )
    improvements = Late("answer.improvements:improvements")
    largest_batch = Late("answer.improvements:largest_batch")
    _taken_for_granted = Late("show.prediction:assumed")
    gap = Late("answer.gap:gap_of")
    first_run = Late("answer.improvements:first_run")
    _job = Late("job.completion:no_job")
    source: SettledRun | Program
    """The run in which nothing is open, and what was chosen for it; or what was recorded."""
    contention: Contention | None = None
    """What sharing links does to the step, if a fabric was given."""
    without_effect: tuple[str, ...] = ()
    """A sentence for each stated key that changes nothing."""

    @property
    def is_recorded(self) -> bool:
        """True if it has a `program`, and no `run`."""
        return isinstance(self.source, Program)

    @property
    def verb(self) -> str:  # type: ignore[override]
        """Whose answer it is, in its JSON."""
        return "predict work" if self.is_recorded else "predict"

    @property
    def exit_code(self) -> int:
        """1 if it does not fit; else that of the gap, where it is stated how fast the run was."""
        if not self.fits or self.is_recorded or self.run.measured is None:
            return int(not self.fits)
        return int(self.gap.exit_code)

    @property
    def settled(self) -> SettledRun:
        """The run in which nothing is open, and what was chosen for it."""
        if not isinstance(self.source, SettledRun):
            raise AttributeError("this is the prediction of a recorded program: it has no run")
        return self.source

    @property
    def run(self) -> Run:
        """The run, with nothing open."""
        return self.settled.run

    @property
    def program(self) -> Program:
        """What was recorded; `compiled`, as it was predicted."""
        if not isinstance(self.source, Program):
            raise AttributeError("this is the prediction of a run: it has no program")
        return self.source

    @property
    def compiled(self) -> bool:
        """Memory-bound kernels are joined."""
        return self.program.compiled

    @property
    def _json(self) -> Any:
        return self._recorded if self.is_recorded else self

    @property
    def chosen(self) -> tuple[Chosen, ...]:
        """What was open, the value taken for it, and why."""
        return self.settled.chosen

    @property
    def assumed(self) -> dict[str, str]:
        """What the run leaves open and does not follow from its framework, with the value taken."""
        return {} if self.is_recorded else self.settled.guessed

    @property
    def known_runs(self) -> int:
        """Measured runs of the same cluster that the prices are anchored to."""
        return len(self.site.known)

    @property
    def tokens(self) -> float:
        """Of one step."""
        return float(self.work.tokens)

    @property
    def samples_per_s(self) -> float:
        """Samples a second of all GPUs together; 0 if nobody knows the samples of a step."""
        return self.program.samples / self.step_s

    @property
    def mfu_convention(self) -> str:
        """Which FLOPs are counted, over which peak."""
        return RECORDED_CONVENTION if self.is_recorded else mfu_convention(self.run.model)

    @property
    def site(self) -> Site:
        """Known runs of the same cluster."""
        return self.pricing.site

    @cached_property
    def interval(self) -> PredictionInterval:
        """How sure the prediction is, and the published run most like this one.

        Wide for a program, of which few published runs can be recorded, by its unknown work, too.
        """
        if self.is_recorded:
            return replace(UNKNOWN, deviation=UNKNOWN.deviation + self.unknown)
        return interval(self.traits, waiting=self.waiting, unsaid=self.unsaid, site=self.site)

    @property
    def unsaid(self) -> int:
        """Fields of the site that had to be guessed; those of a layout are chosen instead."""
        return int("framework" in self.assumed)

    @property
    def traits(self) -> Traits:
        """What this run is compared by with others."""
        run = self.run
        return Traits.of(run.model, run.cluster, run.layout, run.software, run.seq)

    def seconds_of(self, speed: MeasuredSpeed) -> float:
        """Seconds of this step at a `speed` that was measured, FLOP/s as the framework counts them."""
        seconds = super().seconds_of(speed)
        if speed.flop_per_s_per_gpu is None or not self.prices.setting.framework.logs_square_attention:
            return seconds
        run = self.run
        causal, square = (forward_flops(run.model, run.seq, square=one)[0] for one in (False, True))
        return seconds * float(square / causal)

    def again(self, run: Run | Program) -> "Prediction":
        """Another run or program on the same network, measurements and site."""
        pricing = self.pricing
        if isinstance(run, Program):
            machine = with_ranks(self.cluster, run.world_size)
            return Prediction(pricing, pricing.timed(run, machine), run)
        return predict(run, network=pricing.network, measured=pricing.fit.measured, site=pricing.site)

    def timeline(self) -> Timeline:
        """The last micro batch and the optimizer step in time: every operation and every wait.

        Of a recorded program all of the step.
        """
        if self.is_recorded:
            what = f"{self.program.command or 'recorded program'}, one step"
        else:
            what = f"{self.run.model.name}, one micro batch"
        return timeline(self, f"{what}, predicted by syncwall")

    def __repr__(self) -> str:
        what = self.program.command if self.is_recorded else self.run.model.name
        fits = "fits" if self.fits else "does not fit"
        return (
            f"<Prediction {what} on {int(self.work.gpus)} {self.cluster.device.name}: "
            f"step {self.step_s:.4g} s, MFU {self.mfu:.1%}, {fits}>"
        )

    @cached_property
    def memory(self) -> Memory:
        """Bytes on the fullest GPU, by cause."""
        run = self.run
        return step_memory(run.model, run.layout, run.seq).as_floats()

    @cached_property
    def memory_by_cause(self) -> dict[str, float]:
        """Bytes on the fullest rank by what they are for."""
        return recorded_memory(self.program) if self.is_recorded else self.memory.by_cause()

    @property
    def memory_bytes(self) -> float:
        """Bytes on the fullest GPU."""
        return sum(self.memory_by_cause.values())

    @property
    def room(self) -> MemoryMargin:
        """The interval of that, and how likely it fits."""
        return MemoryMargin.on(self.cluster.device, self.memory_bytes)

    @property
    def memory_interval_bytes(self) -> tuple[float, float]:
        """P10 and P90 of it."""
        return self.room.interval_bytes

    @property
    def fits(self) -> bool:
        """False if the fullest GPU has too little memory even for the P10 of what it needs."""
        return bool(may_fit(self.memory_bytes, self.cluster.device))

    @property
    def has_headroom(self) -> bool:
        """True if the usual share of memory stays free, as in all that is proposed."""
        return bool(fits(self.memory_bytes, self.cluster.device))

    @cached_property
    def host_memory_bytes(self) -> float:
        """Bytes that offloading moves to the memory of one host, if all its GPUs are as full."""
        run = self.run
        each = host_memory_bytes(run.model, run.layout, run.seq, self.memory)
        return float(each) * run.gpus_per_node

    @cached_property
    def unknown(self) -> float:
        """Share of the step's work that is not known."""
        return unknown_share(self.program) if self.is_recorded else 0.0

    @property
    def verdict(self) -> Verdict:
        """What limits the step, or that it does not fit.

        And that memory is tight or much of it is not known, if so.
        """
        device = self.cluster.device
        found = limit_of(self.ledger) if self.fits else too_large(self.memory_bytes, device)
        if self.fits and not self.has_headroom:
            found = tight(found, self.memory_bytes, device)
        if self.unknown <= NOTABLE:
            return found
        return replace(found, text=f"{found.text}; {self.unknown:.0%} of its work is not known")

    @property
    def rank(self) -> RankProgram:
        """The class of ranks of a recorded program that its step waits for, as it was priced."""
        played = self.timed.played
        assert played is not None
        return played.rank

    def by_module(self, depth: int = 2) -> list[Share]:
        """Seconds of kernels by module, names cut to `depth` parts, numbers of layers joined."""
        return kernel_shares(self.rank, self.prices, lambda call: module_name(call, depth))

    def by_source(self) -> list[Share]:
        """Seconds of kernels by the user's line."""
        return kernel_shares(self.rank, self.prices, lambda call: call.place.source)


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
