"""A recorded program, predicted on a machine, and what it could do otherwise.

Only what a recording can say: descriptions know nothing of padding, of lines that make the host
wait, or of kernels that a compiler would join.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from pydantic import ValidationError

from syncwall.answer.interval import UNKNOWN, PredictionInterval
from syncwall.answer.priced import MFU_CONVENTION, PredictedStep, Verdict
from syncwall.answer.pricing import NetworkChoice, Pricing, Timed
from syncwall.answer.timeline import Span, Timeline
from syncwall.catalogue import Folders, catalogue_overlay, takes_catalogue
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Software
from syncwall.describe.faults import faults_of
from syncwall.problems import InputError, Problem
from syncwall.public import Answer, Late, published
from syncwall.timeline.program import ProgramTime, program_time
from syncwall.work.block import StepPhase, Work
from syncwall.work.memory import COMMUNICATOR_BYTES, CONTEXT_BYTES, usable_bytes
from syncwall.work.operations import Collective, Group, Transfer
from syncwall.work.program import (
    NOTABLE,
    Call,
    HeldKind,
    Note,
    NoteKind,
    Program,
    RankProgram,
    SourceLocation,
    unknown_share,
)
from syncwall.work.program_variants import fused

NATIVE = "pytorch"
"""The framework that is nothing but PyTorch: how programs reach what they reach, if none is named.
"""


@takes_catalogue
def predict_program(  # noqa: PLR0913 - a machine has this many sides
    program: Program,
    cluster: Cluster,
    software: Software | None = None,
    *,
    compiled: bool | None = None,
    network: NetworkChoice | None = None,
    measured: MachineMeasurements | None = None,
    catalogue: Folders = None,
) -> "ProgramPrediction":
    """How fast a recorded `program` will be on `cluster`, where its time goes, and whether it fits.

    `compiled` joins memory-bound kernels as a compiler would; None as the program asks for.
    """
    machine = _sized(cluster, program.world_size)
    stated = software or Software()
    if stated.launch_blocking:
        raise InputError.of("launch_blocking of a recorded program is not modelled: leave it out")
    taken = {"kernels": "fused", "framework": stated.framework or NATIVE}
    pricing = Pricing.on(machine, stated.model_copy(update=taken), network=network, measured=measured)
    joined = program.compiled if compiled is None else compiled
    return priced_program(program, pricing, compiled=joined)


def priced_program(
    program: Program,
    pricing: Pricing,
    *,
    compiled: bool,
    cluster: Cluster | None = None,
    latency: float = 1.0,
) -> "ProgramPrediction":
    """`program` at these prices, or on a `cluster` that differs from theirs in wires alone.

    `latency` is a factor on what messages between scale-up domains take whatever their size.
    """
    played = program
    if compiled:
        played = replace(program, ranks=tuple(fused(rank) for rank in program.ranks))
    machine = cluster or pricing.cluster
    prices = pricing.prices(machine, latency=latency)
    time = program_time(played, prices)
    timed = Timed(_work(program), machine, prices, time.step_s, time.ledger)
    return ProgramPrediction(pricing, timed, program, time, compiled)


def _work(program: Program) -> Work:
    """What can be said of the step as a whole; it has no blocks that could be done otherwise."""
    none = Transfer(0.0, Group("pp", 1))
    flops, again = program.model_flops, program.recompute_flops
    return Work((), 1, none, flops, again, program.tokens, program.world_size)


def _sized(cluster: Cluster, world_size: int) -> Cluster:
    """As many nodes of `cluster` as the program has ranks for."""
    nearby = cluster.gpus_per_node
    if world_size > nearby and world_size % nearby:
        message = (
            f"the program has {world_size} ranks, which do not fill nodes of {nearby} GPUs; "
            f"record it with --world {world_size // nearby * nearby}"
        )
        raise InputError.of(message)
    try:
        return cluster.using(max(world_size // nearby, 1), min(world_size, nearby))
    except ValidationError as error:
        said = [message for _, message in faults_of(error, Cluster)]
        raise InputError([Problem(cluster.name, 0, 0, one) for one in said]) from None


@dataclass(frozen=True, slots=True)
class Share:
    """Seconds of the calls that come from one place."""

    name: str
    seconds: float
    calls: int


@published(
    "command=program.command torch=program.torch world_size=program.world_size",
    "cluster=cluster.name compiled verdict step_s step_interval_s tokens_per_s_per_gpu",
    "samples_per_s mfu hfu mfu_convention fits memory_bytes memory_interval_bytes",
    "fits_probability=room.probability memory_by_kind_bytes=memory_by_kind largest_batch",
    "ledger_s=ledger exposed_s model_flops=program.model_flops parameters=program.parameters",
    "unknown by_module by_source next=changes notes=program.noted",
)
@dataclass(frozen=True)
class ProgramPrediction(PredictedStep, Answer):
    """What to expect of a recorded program."""

    verb = "predict work"
    changes = Late("answer.program:program_changes")
    largest_batch = Late("answer.program:largest_batch")
    program: Program
    time: ProgramTime
    compiled: bool
    """Memory-bound kernels are joined."""

    @property
    def rank(self) -> RankProgram:
        """The class of ranks that the step waits for, as it was priced."""
        return self.time.rank

    @property
    def interval(self) -> PredictionInterval:
        """Wide: few published runs can be recorded; wider by the work that is not known."""
        return replace(UNKNOWN, deviation=UNKNOWN.deviation + self.unknown)

    @property
    def mfu_convention(self) -> str:
        """Which FLOPs are counted, over which peak."""
        return MFU_CONVENTION

    @property
    def samples_per_s(self) -> float:
        """Samples a second of all GPUs together; 0 if nobody knows the samples of a step."""
        return self.program.samples / self.step_s

    @cached_property
    def memory_by_kind(self) -> dict[str, float]:
        """Bytes on the fullest rank by what they are for."""
        fullest = max(self.program.ranks, key=lambda rank: rank.held_bytes)
        groups = {
            (c.what.group.axis, float(c.what.group.ranks)) for c in fullest if isinstance(c.what, Collective)
        }
        context = {"CUDA and NCCL": CONTEXT_BYTES + COMMUNICATOR_BYTES * len(groups)}
        return {**fullest.held_by_kind, **context}

    @property
    def memory_bytes(self) -> float:
        """Bytes on the fullest rank."""
        return sum(self.memory_by_kind.values())

    @cached_property
    def unknown(self) -> float:
        """Share of the step's work that is not known."""
        return unknown_share(self.program)

    @property
    def verdict(self) -> Verdict:
        """What limits the program, and whether much of it is unknown."""
        found = super().verdict
        if self.unknown <= NOTABLE:
            return found
        return replace(found, text=f"{found.text}; {self.unknown:.0%} of its work is not known")

    def by_module(self, depth: int = 2) -> list[Share]:
        """Seconds of kernels by module, names cut to `depth` parts, numbers of layers joined."""
        return self._shares(lambda call: _joined(call.place.module, depth))

    def by_source(self) -> list[Share]:
        """Seconds of kernels by the user's line."""
        return self._shares(lambda call: call.place.source)

    def _shares(self, name: Callable[[Call], str]) -> list[Share]:
        seconds: dict[str, float] = defaultdict(float)
        calls: dict[str, int] = defaultdict(int)
        for call in self.rank:
            if call.what is not None and not isinstance(call.what, Collective):
                seconds[name(call)] += float(self.prices.seconds(call.what))
                calls[name(call)] += 1
        found = [Share(name or "elsewhere", s, calls[name]) for name, s in seconds.items()]
        return sorted(found, key=lambda share: -share.seconds)

    def host_waits(self) -> dict[SourceLocation, int]:
        """Where the host waits for the device, and how often in a step."""
        found: dict[SourceLocation, int] = defaultdict(int)
        for call in self.rank:
            if call.host_waits:
                found[call.place] += 1
        return dict(found)

    def notes(self, kind: NoteKind) -> list[Note]:
        """What has to be known of the recording, the largest first."""
        found = [note for note in self.program.notes if note.kind is kind]
        return sorted(found, key=lambda note: -(note.bytes + note.flops))

    def timeline(self) -> Timeline:
        """Every kernel, collective and wait of the step, in time."""
        time = self.time
        title = f"{self.program.command or 'recorded program'}, one step, predicted by syncwall"
        return Timeline(time.intervals, time.waits, _spans(time), self.ledger, title=title)

    def __repr__(self) -> str:
        fits = "fits" if self.fits else "does not fit"
        return (
            f"<ProgramPrediction on {self.program.world_size} {self.cluster.device.name}: "
            f"step {self.step_s:.4g} s, MFU {self.mfu:.1%}, {fits}>"
        )


def _joined(module: str, depth: int) -> str:
    """`layers.3.attention.wq` as `layers.*.attention`, for a depth of two names."""
    parts = ["*" if part.isdigit() else part for part in module.split(".")]
    kept: list[str] = []
    for part in parts:
        if part != "*" and sum(one != "*" for one in kept) == depth:
            break
        kept.append(part)
    return ".".join(kept)


def _spans(time: ProgramTime) -> tuple[Span, ...]:
    """The phases on the compute stream, one after the other."""
    found: list[Span] = []
    for interval in sorted(time.intervals, key=lambda one: one.start_s):
        phase = StepPhase(interval.phase)
        phase = StepPhase.BACKWARD if phase is StepPhase.RECOMPUTE else phase
        if not found or (found[-1].phase is not phase and interval.stream == "compute"):
            found.append(Span(phase, interval.start_s, interval.end_s))
        else:
            found[-1] = replace(found[-1], end_s=max(found[-1].end_s, interval.end_s))
    return tuple(found)


LEAST_GAIN = 0.005
"""Share of a step from which a change is worth its line."""


class ProgramChangeKind(StrEnum):
    """What could be changed."""

    COMPILE = "compile"
    """`torch.compile`: memory-bound kernels are joined."""
    HOST_WAITS = "host waits"
    """The host reads no number from the device within the step."""
    PADDING = "padding"
    """Parameters are sharded along a dimension that the ranks divide."""
    RECOMPUTE = "recompute"
    """Nothing is computed again."""
    PREFETCH = "prefetch"
    """Sharded weights are asked for as early as wires allow."""
    BUCKETS = "buckets"
    """Gradients of DDP are reduced in buckets of twice the size."""


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """One change and what it brings."""

    kind: ProgramChangeKind
    gained_s: float
    """Seconds that it takes off the step."""
    where: tuple[str, ...] = ()
    """Lines or parameters that it is about, the most important first."""


def program_changes(prediction: ProgramPrediction) -> list[ProgramChange]:
    """Single changes that help, the best first."""
    with catalogue_overlay(prediction.pricing.catalogue):
        return _program_changes(prediction)


def _program_changes(prediction: ProgramPrediction) -> list[ProgramChange]:
    tried = (
        _compiled(prediction),
        _changed(prediction, ProgramChangeKind.HOST_WAITS, _without_host_waits, _lines(prediction)),
        _changed(prediction, ProgramChangeKind.PADDING, _without_padding, _padded(prediction)),
        _changed(prediction, ProgramChangeKind.RECOMPUTE, _without_recompute),
        _changed(prediction, ProgramChangeKind.PREFETCH, _early_weights),
        _changed(prediction, ProgramChangeKind.BUCKETS, _larger_buckets, _buckets(prediction)),
    )
    least_s = LEAST_GAIN * prediction.step_s
    found = [one for one in tried if one is not None and one.gained_s >= least_s]
    return sorted(found, key=lambda one: -one.gained_s)


def largest_batch(prediction: ProgramPrediction) -> float | None:
    """Times the recorded batch of a rank that fits; None if nothing grows with it."""
    kinds = prediction.memory_by_kind
    growing = kinds.get(HeldKind.ACTIVATIONS, 0.0) + kinds.get(HeldKind.OTHER, 0.0)
    if not growing:
        return None
    free = usable_bytes(prediction.cluster.device) - (prediction.memory_bytes - growing)
    return max(free / growing, 0.0)


def _compiled(prediction: ProgramPrediction) -> ProgramChange | None:
    if prediction.compiled:
        return None
    other = priced_program(prediction.program, prediction.pricing, compiled=True)
    return ProgramChange(ProgramChangeKind.COMPILE, prediction.step_s - other.step_s)


def _changed(
    prediction: ProgramPrediction,
    kind: ProgramChangeKind,
    change: Callable[[Program], Program | None],
    where: tuple[str, ...] = (),
) -> ProgramChange | None:
    changed = change(prediction.program)
    if changed is None:
        return None
    other = priced_program(changed, prediction.pricing, compiled=prediction.compiled)
    return ProgramChange(kind, prediction.step_s - other.step_s, where)


def _lines(prediction: ProgramPrediction) -> tuple[str, ...]:
    waits = sorted(prediction.host_waits().items(), key=lambda pair: -pair[1])
    return tuple(place.source or place.module for place, _ in waits)


def _padded(prediction: ProgramPrediction) -> tuple[str, ...]:
    return tuple(note.what for note in prediction.notes(NoteKind.PADDED))


def _without_host_waits(program: Program) -> Program | None:
    if not any(call.host_waits for rank in program.ranks for call in rank):
        return None
    return _kept(program, lambda call: call.what is not None, lambda c: replace(c, host_waits=False))


def _without_recompute(program: Program) -> Program | None:
    if not program.recompute_flops:
        return None
    return _kept(program, lambda c: c.phase is not StepPhase.RECOMPUTE or isinstance(c.what, Collective))


def _without_padding(program: Program) -> Program | None:
    notes = [note for note in program.notes if note.kind is NoteKind.PADDED]
    wasted = sum(note.bytes - note.useful_bytes for note in notes)
    sent = sum(note.bytes for note in notes)
    if wasted <= 0:
        return None
    calls = [call.what for rank in program.ranks for call in rank if _is_shard(call)]
    gathered = max((float(w.bytes) for w in calls if isinstance(w, Collective)), default=sent)
    share = 1.0 - wasted / max(sent, gathered)

    def smaller(call: Call) -> Call:
        if not _is_shard(call) or not isinstance(call.what, Collective):
            return call
        return replace(call, what=replace(call.what, bytes=call.what.bytes * share))

    return _kept(program, lambda call: True, smaller)


def _early_weights(program: Program) -> Program | None:
    def early(call: Call) -> Call:
        first = isinstance(call.what, Collective) and call.what.kind == "all-gather"
        return replace(call, after=()) if first and _is_shard(call) else call

    if not any(_is_shard(call) for rank in program.ranks for call in rank):
        return None
    return _kept(program, lambda call: True, early)


def _buckets(prediction: ProgramPrediction) -> tuple[str, ...]:
    """The size to ask for."""
    sizes = [float(getattr(call.what, "bytes", 0.0)) for call in prediction.rank if _is_bucket(call)]
    return (f"bucket_cap_mb={2.0 * max(sizes) / 2**20:.3g}",) if sizes else ()


def _larger_buckets(program: Program) -> Program | None:
    """Two and two buckets in one, which is reduced when both are there."""
    ranks = tuple(_paired(rank) for rank in program.ranks)
    changed = any(len(a.calls) < len(b.calls) for a, b in zip(ranks, program.ranks, strict=True))
    return replace(program, ranks=ranks) if changed else None


def _paired(rank: RankProgram) -> RankProgram:
    calls = list(rank.calls)
    buckets = [i for i, call in enumerate(calls) if _is_bucket(call)]
    into = {
        first: second
        for first, second in zip(buckets[::2], buckets[1::2], strict=False)
        if not any(first in call.after for call in calls[first : second + 1])
    }
    for first, second in into.items():
        one, other = calls[first].what, calls[second].what
        assert isinstance(one, Collective)
        assert isinstance(other, Collective)
        both = replace(other, bytes=one.bytes + other.bytes)
        after = tuple(sorted({*calls[first].after, *calls[second].after}))
        calls[second] = replace(calls[second], what=both, after=after)
    calls = [
        replace(call, after=tuple(sorted({into.get(earlier, earlier) for earlier in call.after})))
        for call in calls
    ]
    dropped = {id(calls[first]) for first in into}
    whole = replace(rank, calls=tuple(calls))
    return _kept_of(whole, lambda call: id(call) not in dropped, lambda call: call)


def _is_bucket(call: Call) -> bool:
    what = call.what
    return isinstance(what, Collective) and (what.kind, what.axis) == ("all-reduce", "dp")


def _is_shard(call: Call) -> bool:
    return isinstance(call.what, Collective) and call.what.axis in ("shard", "expert-shard")


def _kept(
    program: Program, keep: Callable[[Call], bool], change: Callable[[Call], Call] = lambda c: c
) -> Program:
    """`program` with only the calls to `keep`, each changed; waits for the others are dropped."""
    return replace(program, ranks=tuple(_kept_of(rank, keep, change) for rank in program.ranks))


def _kept_of(rank: RankProgram, keep: Callable[[Call], bool], change: Callable[[Call], Call]) -> RankProgram:
    into: dict[int, int] = {}
    calls: list[Call] = []
    for index, call in enumerate(rank.calls):
        if keep(call):
            into[index] = len(calls)
            after = tuple(into[earlier] for earlier in call.after if earlier in into)
            calls.append(change(replace(call, after=after)))
    return replace(rank, calls=tuple(calls))
