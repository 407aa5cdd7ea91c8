"""Profiler traces of one job: what holds its ranks up, and the ledger of one of them.

Holds `JobTraces`, `explain_traces` and `job_of`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from syncwall.explain.traces.pool import summaries
from syncwall.explain.traces.rank_ledger import RankLedger, rank_ledger
from syncwall.explain.traces.rank_summary import RankSummary, rank_summary
from syncwall.explain.traces.ranks import RanksVerdict, explain_ranks
from syncwall.problems import InputError, Problem
from syncwall.read.kineto import read_trace
from syncwall.read.trace import Category, Trace

Progress = Callable[[float], None]
SoFar = Callable[[RanksVerdict], None]
_ENDS = ("start_ns", "end_ns")


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
    summaries: tuple[RankSummary, ...] = ()
    """Each rank, step by step."""
    names_s: dict[str, float] = field(default_factory=dict)
    """Of the rank that is shown, seconds of a mean step by name of kernel, or of operator where the
    trace has no device."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What its trace says of versions and the backend."""


def explain_traces(  # noqa: PLR0913 - how traces may be read
    paths: Sequence[Path],
    *,
    link_bytes_per_s: float | None = None,
    workers: int | None = None,
    ray: str | None = None,
    store: Path | None = None,
    progress: Progress = lambda share: None,
    so_far: SoFar = lambda verdict: None,
) -> JobTraces:
    """What the traces at `paths`, of ranks of one job, say; one of them is in memory at a time.

    With `store`, the events of every rank are also kept in that directory, as Parquet. `so_far` is
    told what the first two ranks of more say.
    """

    def first(some: Sequence[RankSummary]) -> None:
        with suppress(InputError):  # they have nothing in common
            so_far(explain_ranks(some, link_bytes_per_s=link_bytes_per_s))

    if len(paths) == 1 and store is None:
        return _alone(paths[0])
    read = summaries(
        paths, workers=workers, ray=ray, store=store,
        progress=lambda done, total: progress(done / total), first=first,
    )  # fmt: skip
    if not read.ranks:
        raise InputError(read.problems)
    found = job_of(read.ranks, link_bytes_per_s=link_bytes_per_s)
    return replace(found, files=len(paths), peak_bytes=read.peak_bytes, problems=read.problems)


def job_of(
    ranks: Sequence[RankSummary], *, shown: int | None = None, link_bytes_per_s: float | None = None
) -> JobTraces:
    """What the ranks of one job say; the ledger is that of `shown`, else of the one to blame."""
    verdict = explain_ranks(ranks, link_bytes_per_s=link_bytes_per_s)
    own = {one.rank: one for one in ranks}
    if shown not in own:
        shown = verdict.ranks[0] if verdict.ranks else ranks[0].rank
    trace = read_trace(own[shown].source)
    found = _of_trace(trace)
    return replace(
        found, files=len(ranks), ranks=tuple(own), rank=shown, verdict=verdict,
        summaries=tuple(sorted(ranks, key=lambda one: one.rank)),
    )  # fmt: skip


def _alone(path: Path) -> JobTraces:
    trace: Trace = read_trace(path)
    return replace(
        _of_trace(trace), summaries=(rank_summary(replace(trace, rank=trace.rank or 0)),)
    )


def _of_trace(trace: Trace) -> JobTraces:
    ledger = rank_ledger(trace)
    return JobTraces(
        files=1,
        ranks=() if trace.rank is None else (trace.rank,),
        world_size=trace.world_size,
        rank=trace.rank,
        ledger=ledger,
        device=trace.device,
        verdict=None,
        peak_bytes=0,
        problems=trace.problems,
        names_s=_by_name(trace, ledger),
        facts=trace.facts,
    )


def _by_name(trace: Trace, found: RankLedger) -> dict[str, float]:
    """Seconds of a mean step by name, of all that began in one."""
    kinds = (Category.KERNEL, Category.COPY) if found.on_device else (Category.OPERATOR,)
    own = np.isin(trace.category, kinds)
    own[list(trace.collectives)] = False
    begun = trace.start_ns[own]
    starts, ends = (np.array([getattr(one, end) for one in found.steps]) for end in _ENDS)
    place = np.clip(np.searchsorted(starts, begun, side="right") - 1, 0, None)
    inside = (begun >= starts[place]) & (begun < ends[place])
    total = np.bincount(
        trace.name[own][inside], trace.duration_ns[own][inside], minlength=len(trace.names)
    )
    found_s = total / 1e9 / len(found.steps)
    return {trace.names[n]: float(found_s[n]) for n in np.flatnonzero(found_s)}
