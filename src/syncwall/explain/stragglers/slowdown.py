"""How much a job loses to its stragglers, and to which.

Holds `Slowdown` and `slowdown_of`, which answers from a table of operations. Definitions follow
Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025);
formulas in docs/explanation/stragglers.md.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from syncwall.explain.stragglers.causes import (
    Blame,
    Collect,
    StepSeconds,
    causes_of,
    named_cause,
    to_collect,
)
from syncwall.explain.stragglers.whatif import Durations, JobOperations, job_of, replay
from syncwall.problems import InputError, Problem
from syncwall.public import published
from syncwall.read.operations import COMPUTE, OperationKind, read_operations

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
    def host_gap_s(self) -> float:
        """Seconds of a step in which nothing that was recorded holds an operation back."""
        return self.step.measured - self.step.replayed

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
    return slowdown_of_job(job_of(read_operations(path)), source=str(path))


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
    causes = causes_of(job, of_rank, of_stage, step)
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
        forward, backward = (
            job.actual_s[[passes[kind][where] for where in own]].ravel() for kind in COMPUTE
        )
        if len(forward) >= 3 and forward.std() > 0 and backward.std() > 0:
            found.append(float(np.corrcoef(forward, backward)[0, 1]))
    return float(np.median(found)) if found else None
