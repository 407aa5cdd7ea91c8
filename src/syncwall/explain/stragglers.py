"""How much a job loses to its stragglers, to which, and what could be the cause.

A cause explains the share of the lost time that is won back when only its operations become ideal;
it is named only from 80% on.

Definitions follow Lin et al., "Understanding Stragglers in Large Model Training Using What-if
Analysis" (OSDI 2025); formulas in docs/explanation/stragglers.md.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from syncwall.cause import Cause
from syncwall.explain.replay import Durations, JobOperations, replay, replayed_job
from syncwall.problems import InputError, Problem
from syncwall.public import published
from syncwall.read.pipeline_operations import COMPUTE, TRANSFERS, OperationKind, read_operations

NAMED_FROM = 0.8
"""Share of the lost time that a cause must explain to be named."""
SLOW_FROM = 1.03
"""Slowdown below which there is nothing to explain (the artifact's threshold)."""
FEW_WORKERS = 0.03
"""Share of the workers, rounded up, that may be slow by themselves (as in M_W of the paper)."""
LONGER_TOGETHER = 0.9
"""Correlation of forward and backward time from which micro batches differ in length."""
FEW_STEPS = 10


class BlameKind(StrEnum):
    """Kinds of causes, the most specific first."""

    WORKERS = "slow workers"
    """A few workers, `FEW_WORKERS` at most."""
    DP_RANK = "slow data-parallel rank"
    """All stages of one data-parallel rank."""
    STAGE = "uneven stage"
    """One pipeline stage on all data-parallel ranks."""
    MICROBATCHES = "uneven micro batches"
    """Computations of one stage that differ among micro batches, ranks and steps."""
    COMPUTATION = "uneven computation"
    """Forward and backward passes, wherever they are."""
    TRANSFERS = "slow pipeline transfers"
    """Sends and receives between stages."""
    COLLECTIVES = "slow collectives"
    """Gathering of parameters, reduction of gradients, clipping."""
    HOST = Cause.IDLE_HOST.value
    """Gaps before operations that nothing recorded explains."""


class Collect(StrEnum):
    """What to record next."""

    KERNELS = "profiler traces of the slowest worker and of one with the same stage"
    CLOCKS = "clocks, power and temperature of the slowest worker's GPU"
    LAYERS = "layers and vocabulary parameters of each stage"
    TOKENS = "tokens and sequence lengths of every micro batch"
    HOST = "profiler traces with host operators, garbage collection and data loading"
    LINKS = "NCCL logs and a benchmark of the links of the slowest worker"
    STEPS = "more steps"


_COLLECTIVES: Final = tuple(
    kind for kind in OperationKind if not kind.is_computation and kind not in TRANSFERS
)
_TO_FIND_WHY: Final = {
    BlameKind.WORKERS: (Collect.KERNELS, Collect.CLOCKS),
    BlameKind.DP_RANK: (Collect.KERNELS, Collect.CLOCKS, Collect.TOKENS),
    BlameKind.STAGE: (Collect.LAYERS, Collect.KERNELS),
    BlameKind.MICROBATCHES: (Collect.TOKENS,),
    BlameKind.COMPUTATION: (Collect.TOKENS, Collect.LAYERS, Collect.KERNELS),
    BlameKind.TRANSFERS: (Collect.LINKS,),
    BlameKind.COLLECTIVES: (Collect.LINKS,),
    BlameKind.HOST: (Collect.HOST,),
}


@dataclass(frozen=True)
class Blame:
    """One possible cause and what it explains."""

    what: BlameKind
    won_s: float = 0.0
    """Seconds of a step won back if only these operations become ideal."""
    share: float = 0.0
    """`won_s` of all seconds lost; may exceed 1, because slow operations also raise the averages
    that count as ideal."""
    workers: tuple[tuple[int, int], ...] = ()
    """Slow workers as (data-parallel rank, stage), the slowest first."""
    ranks: tuple[int, ...] = ()
    """Their global ranks."""
    dp_rank: int | None = None
    stage: int | None = None


@dataclass(frozen=True)
class StepSeconds:
    """Mean length of a step."""

    measured: float
    """As recorded."""
    replayed: float
    """Without gaps that no dependency explains."""
    ideal: float
    """With ideal durations."""

    @property
    def lost(self) -> float:
        """To stragglers and gaps together."""
        return self.measured - self.ideal

    @property
    def slow(self) -> bool:
        """Whether there is enough to explain."""
        return self.measured >= SLOW_FROM * self.ideal


@dataclass(frozen=True)
class _Candidate:
    cause: Blame
    mask: Any
    """Its operations (operation, data-parallel rank)."""
    instead: Durations = Durations.IDEAL
    """What they get."""


def applicable_causes(
    job: JobOperations, of_rank: Any, of_stage: Any, step: StepSeconds
) -> tuple[Blame, ...]:
    """The causes that apply to the job, in the order of `BlameKind`.

    `of_rank` and `of_stage` are the slowdowns of each data-parallel rank and stage.
    """
    candidates = _candidates(job, np.asarray(of_rank), np.asarray(of_stage))
    actual = np.int8(Durations.ACTUAL)
    choices = (np.where(one.mask, np.int8(one.instead), actual) for one in candidates)
    won_s = step.replayed - replay(job, choices).mean(axis=1)
    found = [_priced(one.cause, won, step) for one, won in zip(candidates, won_s, strict=True)]
    found.append(_priced(Blame(BlameKind.HOST), step.measured - step.replayed, step))
    return tuple(_best([one for one in found if one.what == what]) for what in _whats(found))


def named_cause(causes: tuple[Blame, ...], step: StepSeconds) -> Blame | None:
    """The most specific cause that explains enough, if there is anything to explain."""
    if not step.slow:
        return None
    return next((one for one in causes if one.share >= NAMED_FROM), None)


def to_collect(
    cause: Blame | None, step: StepSeconds, correlation: float | None, steps: int
) -> tuple[Collect, ...]:
    """What tells why the named cause is slow, or what might explain what is unexplained."""
    if not step.slow:
        return ()
    if cause is not None:
        return _TO_FIND_WHY[cause.what]
    found = [Collect.STEPS] if steps < FEW_STEPS else []
    if correlation is not None and correlation >= LONGER_TOGETHER:
        found.append(Collect.TOKENS)
    return (*found, Collect.KERNELS, Collect.HOST)


def _candidates(job: JobOperations, of_rank: Any, of_stage: Any) -> list[_Candidate]:
    several_ranks, several_stages = len(of_rank) > 1, len(of_stage) > 1
    found = _slowest_workers(job, np.minimum.outer(of_rank, of_stage)) if several_ranks else []
    if several_ranks and several_stages:
        slowest = int(np.argmax(of_rank))
        cause = Blame(BlameKind.DP_RANK, dp_rank=job.dp_ranks[slowest])
        found.append(_Candidate(cause, job.on(dp=slowest)))
    if several_stages:
        found += [
            _Candidate(Blame(BlameKind.STAGE, stage=stage), job.on(stage=stage))
            for stage in range(job.stages)
        ]
    computation = job.on(kinds=COMPUTE)
    found.append(_Candidate(Blame(BlameKind.MICROBATCHES), computation, Durations.STAGE))
    found.append(_Candidate(Blame(BlameKind.COMPUTATION), computation))
    found.append(_Candidate(Blame(BlameKind.TRANSFERS), job.on(kinds=TRANSFERS)))
    found.append(_Candidate(Blame(BlameKind.COLLECTIVES), job.on(kinds=_COLLECTIVES)))
    return found


def _slowest_workers(job: JobOperations, by_worker: Any) -> list[_Candidate]:
    """The slowest worker, the slowest two, four ... up to `FEW_WORKERS`."""
    most = int(np.ceil(FEW_WORKERS * by_worker.size))
    stages = by_worker.shape[1]
    order = np.lexsort((job.ranks.ravel(), -by_worker.ravel()))[:most]
    places = [(int(place // stages), int(place % stages)) for place in order]
    counts = sorted({*(2**power for power in range(most.bit_length())), most})
    found = []
    for count in counts:
        mask = np.any([job.on(dp=dp, stage=stage) for dp, stage in places[:count]], axis=0)
        cause = Blame(
            BlameKind.WORKERS,
            workers=tuple((job.dp_ranks[dp], stage) for dp, stage in places[:count]),
            ranks=tuple(int(job.ranks[place]) for place in places[:count]),
        )
        found.append(_Candidate(cause, mask))
    return found


def _priced(cause: Blame, won_s: float, step: StepSeconds) -> Blame:
    share = float(won_s) / step.lost if step.lost > 0 else 0.0
    return replace(cause, won_s=float(won_s), share=share)


def _whats(causes: list[Blame]) -> list[BlameKind]:
    return [what for what in BlameKind if any(one.what == what for one in causes)]


def _best(causes: list[Blame]) -> Blame:
    """Of one kind: the first that is enough, else the one that explains most."""
    enough = [one for one in causes if one.share >= NAMED_FROM]
    if enough and enough[0].what == BlameKind.WORKERS:
        return enough[0]
    return max(causes, key=lambda one: one.share)


_Key = TypeVar("_Key", bound=Hashable)
_AS_RECORDED = np.int8(Durations.ACTUAL), np.int8(Durations.IDEAL)
"""Durations inside and outside of a mask."""


@published(
    "source total by_kind by_stage by_dp_rank cause=cause.what",
    cause="What explains at least 80% of it.",
)
@dataclass(frozen=True)
class Slowdown:
    """What stragglers cost a job; ratios are mean step times over that of the ideal job.

    In the ideal job every operation takes as long as its kind does on average: computations the
    mean, communication the median without waiting.
    """

    source: str
    """The table of operations."""
    operations: int
    """Operations in the steps that were used."""
    steps: int
    """Complete steps; means are over these."""
    dp: int
    """Data-parallel ranks."""
    stages: int
    """Pipeline stages."""
    step: StepSeconds
    """Mean length of a step: measured, replayed without gaps, ideal."""
    total: float
    """S: `step.replayed` over `step.ideal`."""
    by_step: Mapping[int, float]
    """S of every step."""
    by_kind: Mapping[str, float]
    """S with only this kind of operation as recorded, the rest ideal; the largest first."""
    by_dp_rank: Mapping[int, float]
    """S with only this data-parallel rank as recorded; the largest first."""
    by_stage: Mapping[int, float]
    """S with only this pipeline stage as recorded; the largest first."""
    by_worker: Any
    """S of each worker (data-parallel rank, stage): the smaller of its rank's and its stage's."""
    ranks: Any
    """Global rank of each worker (data-parallel rank, stage); -1 where none was recorded."""
    pass_correlation: float | None
    """Correlation of forward with backward time over micro batches, median over stages; near 1 if
    some micro batches are longer than others. None without variation or micro-batch numbers."""
    causes: tuple[Blame, ...]
    """What could be the cause, each with its share of the lost seconds; the most specific first."""
    cause: Blame | None
    """The first that explains at least 80%; None if not `slow` or if none does."""
    collect: tuple[Collect, ...]
    """What to record next: to find why, or to find an explanation."""
    problems: tuple[Problem, ...]
    """Rows and steps that could not be used."""

    @property
    def wait_s(self) -> float:
        """Seconds of a step lost to stragglers."""
        return self.step.replayed - self.step.ideal

    @property
    def slow(self) -> bool:
        """Whether there is enough to explain: a recorded step 1.03 times the ideal or more."""
        return self.step.slow

    @property
    def unexplained(self) -> bool:
        """Slow without a cause that explains at least 80%."""
        return self.slow and self.cause is None


def slowdown_of(path: Path | str) -> Slowdown:
    """The slowdown of the job whose operations are in the table `path` (CSV, CSV.gz, Parquet)."""
    return slowdown_of_job(replayed_job(read_operations(path)), source=str(path))


def slowdown_of_job(job: JobOperations, *, source: str = "") -> Slowdown:
    """The slowdown of a job that was read already."""
    kinds = list(dict.fromkeys(one.kind.account for one in job.graph.operations))
    by_step = replay(job, (np.where(m, *_AS_RECORDED) for m in _parts(job, kinds)))
    if not by_step[1].all():
        raise InputError.of("has only operations that take no time", file=source)
    means = by_step.mean(axis=1)
    step = StepSeconds(float(job.measured_step_s.mean()), float(means[0]), float(means[1]))
    ratios = means[2:] / step.ideal
    of_kind, of_rank, of_stage = np.split(ratios, np.cumsum([len(kinds), len(job.dp_ranks)]))
    causes = applicable_causes(job, of_rank, of_stage, step)
    cause = named_cause(causes, step)
    correlation = _pass_correlation(job)
    return Slowdown(
        source=source,
        operations=job.actual_s.size,
        steps=len(job.steps),
        dp=len(job.dp_ranks),
        stages=job.stages,
        step=step,
        total=step.replayed / step.ideal,
        by_step=dict(zip(job.steps, (by_step[0] / by_step[1]).tolist(), strict=True)),
        by_kind=_largest_first(kinds, of_kind),
        by_dp_rank=_largest_first(job.dp_ranks, of_rank),
        by_stage=_largest_first(range(job.stages), of_stage),
        by_worker=np.minimum.outer(of_rank, of_stage),
        ranks=job.ranks,
        pass_correlation=correlation,
        causes=causes,
        cause=cause,
        collect=to_collect(cause, step, correlation, len(job.steps)),
        problems=job.problems,
    )


def _parts(job: JobOperations, kinds: Sequence[str]) -> Iterator[Any]:
    """Masks of everything, nothing, every kind, data-parallel rank and stage."""
    yield job.on()
    yield job.on(kinds=())
    for kind in kinds:
        yield job.on(kinds=_counted(kind))
    for rank in range(len(job.dp_ranks)):
        yield job.on(dp=rank)
    for stage in range(job.stages):
        yield job.on(stage=stage)


def _counted(account: str) -> tuple[OperationKind, ...]:
    return tuple(kind for kind in OperationKind if kind.account == account)


def _largest_first(keys: Sequence[_Key], values: Any) -> dict[_Key, float]:
    pairs = zip(keys, values.tolist(), strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def _pass_correlation(job: JobOperations) -> float | None:
    """Median over stages of the correlation of forward and backward time of a micro batch."""
    passes: dict[OperationKind, dict[tuple[int, int, int], int]] = {kind: {} for kind in COMPUTE}
    for index, one in enumerate(job.graph.operations):
        if one.kind in COMPUTE and one.microbatch >= 0:
            passes[one.kind][one.stage, one.chunk, one.microbatch] = index
    both = passes[OperationKind.FORWARD].keys() & passes[OperationKind.BACKWARD].keys()
    found = []
    for _, same_stage in groupby(sorted(both), key=itemgetter(0)):
        own = list(same_stage)
        forward, backward = (job.actual_s[[passes[kind][where] for where in own]].ravel() for kind in COMPUTE)
        if len(forward) >= 3 and forward.std() > 0 and backward.std() > 0:
            found.append(float(np.corrcoef(forward, backward)[0, 1]))
    return float(np.median(found)) if found else None
