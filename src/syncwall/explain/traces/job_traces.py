"""Profiler traces of one job: what holds its ranks up, and the ledger of one of them.

Holds `JobTraces` and `explain_traces`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from syncwall.explain.traces.pool import summaries
from syncwall.explain.traces.rank_ledger import RankLedger, rank_ledger
from syncwall.explain.traces.rank_steps import RankSteps, rank_steps
from syncwall.explain.traces.ranks import RanksVerdict, explain_ranks
from syncwall.problems import InputError, Problem
from syncwall.read.kineto import read_trace
from syncwall.read.trace import Trace

Progress = Callable[[float], None]


@dataclass(frozen=True)
class JobTraces:
    """What the traces of one job say."""

    files: int
    ranks: tuple[int, ...]
    """Ranks of which there is a trace."""
    world_size: int | None
    rank: int | None
    """The rank whose ledger is shown: the one to blame, or the first."""
    ledger: RankLedger
    device: str | None
    verdict: RanksVerdict | None
    """None for one rank alone, which cannot be compared."""
    peak_bytes: int
    """Most memory that a worker has had."""
    problems: tuple[Problem, ...] = ()
    """What could not be read."""
    steps: RankSteps | None = None
    """The ranks beside each other, if there are several."""


def explain_traces(
    paths: Sequence[Path],
    *,
    link_bytes_per_s: float | None = None,
    workers: int | None = None,
    ray: str | None = None,
    store: Path | None = None,
    progress: Progress = lambda share: None,
) -> JobTraces:
    """What the traces at `paths`, of ranks of one job, say; one of them is in memory at a time.

    With `store`, the events of every rank are also kept in that directory, as Parquet.
    """
    if len(paths) == 1 and store is None:
        return _alone(paths[0])
    read = summaries(
        paths, workers=workers, ray=ray, store=store,
        progress=lambda done, total: progress(done / total),
    )  # fmt: skip
    if not read.ranks:
        raise InputError(read.problems)
    verdict = explain_ranks(read.ranks, link_bytes_per_s=link_bytes_per_s)
    shown = verdict.ranks[0] if verdict.ranks else read.ranks[0].rank
    source = next(one.source for one in read.ranks if one.rank == shown)
    trace = read_trace(source)
    return JobTraces(
        files=len(paths),
        ranks=tuple(one.rank for one in read.ranks),
        world_size=trace.world_size,
        rank=shown,
        ledger=rank_ledger(trace),
        device=trace.device,
        verdict=verdict,
        peak_bytes=read.peak_bytes,
        problems=read.problems,
        steps=rank_steps(read.ranks, verdict.ranks),
    )


def _alone(path: Path) -> JobTraces:
    trace: Trace = read_trace(path)
    return JobTraces(
        files=1,
        ranks=() if trace.rank is None else (trace.rank,),
        world_size=trace.world_size,
        rank=trace.rank,
        ledger=rank_ledger(trace),
        device=trace.device,
        verdict=None,
        peak_bytes=0,
        problems=trace.problems,
    )
