"""Profiler traces of one job: read by many workers, what holds its ranks up, and their steps.

One file a rank, `rank<n>.parquet`: rank, step, name, category, start_ns (time of day), duration_ns,
thread, stream, correlation, and of collectives their kind, group and bytes.

A rank's own time is its step without collectives that nothing hides: in these it may wait for
others. Times of several ranks are brought onto one clock through the collectives.
"""

import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.explain.traces.matching import Clocks, MatchedCollectives, aligned, matched
from syncwall.explain.traces.rank import KINDS, RankLedger, RankSummary, rank_ledger, rank_summary
from syncwall.explain.traces.rank_comparison import RanksVerdict, explain_ranks
from syncwall.problems import InputError, Problem
from syncwall.read.kineto import ranks_by_order, read_trace
from syncwall.read.trace import Category, Trace

_SELECT = """
    SELECT ?::INTEGER AS rank, NULLIF(e.step, -1)::INTEGER AS step, n.name AS name,
           c.category AS category, e.start_ns, e.duration_ns, e.thread, e.stream, e.correlation,
           k.kind AS kind, k.process_group AS process_group, k.bytes AS bytes
    FROM events e JOIN names n ON n.number = e.name JOIN categories c ON c.number = e.category
    LEFT JOIN collectives k ON k.number = e.number
    ORDER BY e.start_ns, e.number
"""


def store_events(trace: Trace, folder: Path) -> Path:
    """Write the events of `trace`; the file that was written."""
    duckdb = _duckdb()
    if trace.rank is None:
        raise InputError.of("does not say which rank it is from", file=trace.source)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank{trace.rank}.parquet"
    with duckdb.connect() as base:
        for name, columns in _tables(trace).items():
            base.register(name, columns)
        base.sql(_SELECT, params=[trace.rank]).write_parquet(str(path), compression="zstd")
    return path


def stored_events(folder: Path) -> Any:
    """All ranks in `folder` as one DuckDB relation: `stored_events(d).filter("rank = 3").df()`."""
    duckdb = _duckdb()
    if not any(folder.glob("rank*.parquet")):
        raise InputError.of("holds no rank<n>.parquet", file=str(folder))
    return duckdb.connect().read_parquet(str(folder / "rank*.parquet"))


def _tables(trace: Trace) -> dict[str, dict[str, Any]]:
    count = len(trace)
    starts = np.array([step.start_ns for step in trace.steps], dtype=np.int64)
    ends = np.array([step.end_ns for step in trace.steps], dtype=np.int64)
    numbers = np.array([step.number for step in trace.steps], dtype=np.int64)
    place = np.searchsorted(starts, trace.start_ns, side="right") - 1
    step = np.full(count, -1)
    inside = place >= 0
    inside[inside] = trace.start_ns[inside] < ends[place[inside]]
    step[inside] = numbers[place[inside]]
    known = list(trace.collectives.values())
    return {
        "events": {
            "number": np.arange(count),
            "name": trace.name,
            "category": trace.category,
            "step": step,
            "start_ns": trace.base_ns + trace.start_ns,
            "duration_ns": trace.duration_ns,
            "thread": trace.thread,
            "stream": trace.stream,
            "correlation": trace.correlation,
        },
        "names": _listed("name", trace.names),
        "categories": _listed("category", [one.name.lower() for one in Category]),
        "collectives": {
            "number": np.array(list(trace.collectives), dtype=np.int64),
            "kind": np.array([one.kind for one in known], dtype=object),
            "process_group": np.array([one.group or "" for one in known], dtype=object),
            "bytes": np.array([np.nan if one.bytes is None else one.bytes for one in known]),
        },
    }


def _listed(column: str, texts: list[str]) -> dict[str, Any]:
    return {"number": np.arange(len(texts)), column: np.array(texts, dtype=object)}


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InputError.of("DuckDB is not installed: pip install duckdb") from None
    return duckdb


FilesProgress = Callable[[int, int], None]
"""Is told how many of how many files are done."""
_ENDINGS = (".json", ".json.gz")
_FEW = 2
"""Files that are not worth new processes."""
_FIRST = 2
"""Ranks that can be compared with each other."""


@dataclass(frozen=True)
class Summaries:
    """What was read of many files."""

    ranks: tuple[RankSummary, ...]
    """In order of their rank."""
    problems: tuple[Problem, ...]
    """Files that could not be read, and parts of files."""
    peak_bytes: int
    """Most memory that a worker has had."""


@dataclass(frozen=True)
class _Done:
    summary: RankSummary | None
    problems: tuple[Problem, ...]
    peak_bytes: int


_Work = partial[_Done]


def trace_files(directory: Path) -> list[Path]:
    """Files in `directory` that may be traces, by name."""
    found = sorted(path for path in directory.iterdir() if path.name.endswith(_ENDINGS))
    if not found:
        raise InputError.of("holds no .json or .json.gz", file=str(directory))
    return found


def summaries(  # noqa: PLR0913 - how traces may be read
    paths: Sequence[Path],
    *,
    workers: int | None = None,
    progress: FilesProgress = lambda done, total: None,
    ray: str | None = None,
    store: Path | None = None,
    days: bool = False,
    first: Callable[[Sequence[RankSummary]], None] = lambda some: None,
) -> Summaries:
    """Read all traces, each by one of `workers` processes (one a processor if None).

    With `ray`, the address of a cluster or "auto", its workers read: files must be where they are.
    With `store`, each worker also keeps its rank's events there, as Parquet. A rank may be there
    once only, unless these are several `days`; a trace that does not say its rank, in a file whose name
    does not either, has that of its place among the files. `first` is told the first two ranks of more: what
    they say need not wait for the others.
    """
    names = [str(path) for path in paths]
    work = partial(_summary, store=store, ranks={} if days else ranks_by_order(names))
    count = min(workers or os.cpu_count() or 1, len(names))
    if ray is not None:
        results = _on_ray(work, names, ray)
    elif count <= 1 or len(names) <= _FEW:
        results = map(work, names)
    else:
        results = _in_processes(work, names, count)
    done: list[_Done] = []
    for one in results:
        done.append(one)
        progress(len(done), len(names))
        if len(done) == _FIRST < len(names):
            first([one.summary for one in done if one.summary])
    ranks = sorted((one.summary for one in done if one.summary), key=lambda one: one.rank)
    return Summaries(
        ranks=tuple(ranks) if days else _each_once(ranks),
        problems=tuple(sorted(problem for one in done for problem in one.problems)),
        peak_bytes=max((one.peak_bytes for one in done), default=0),
    )


def _each_once(ranks: Sequence[RankSummary]) -> tuple[RankSummary, ...]:
    seen: dict[int, str] = {}
    for one in ranks:
        if one.rank in seen:
            also = f"is from rank {one.rank}, like {seen[one.rank]}: give each rank once"
            raise InputError.of(also, file=one.source)
        seen[one.rank] = one.source
    return tuple(ranks)


def _summary(name: str, store: Path | None, ranks: dict[str, int]) -> _Done:
    """One file, in whatever process; `ranks` are for files that say none."""
    try:
        trace = read_trace(Path(name))
        if trace.rank is None and name in ranks:
            trace = replace(trace, rank=ranks[name], rank_from="order")
        if store is not None:
            store_events(trace, store)
        return _Done(rank_summary(trace), trace.problems, _peak_bytes())
    except InputError as error:
        return _Done(None, error.problems, _peak_bytes())
    except OSError as error:
        problem = Problem(name, 0, 0, error.strerror or str(error))
        return _Done(None, (problem,), _peak_bytes())


def _peak_bytes() -> int:
    """Most memory that this process has had; `getrusage` would count the one it was started by."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _in_processes(work: _Work, names: Sequence[str], count: int) -> Iterator[_Done]:
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        waiting = iter(names)
        running = {pool.submit(work, name) for _, name in zip(range(2 * count), waiting, strict=False)}
        while running:
            first = next(as_completed(running))
            running.remove(first)
            name = next(waiting, None)
            if name is not None:
                running.add(pool.submit(work, name))
            yield first.result()


def _on_ray(work: _Work, names: Sequence[str], address: str) -> Iterator[_Done]:
    try:
        import ray
    except ImportError:
        raise InputError.of("Ray is not installed: pip install ray") from None
    if not ray.is_initialized():
        try:
            _answers(address)
            ray.init(address=address, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError.of(f"no Ray cluster at {address}: {error}") from None
    remote: Any = ray.remote(_summary)
    waiting = iter(names)
    slots = 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    running = [remote.remote(name, **work.keywords) for _, name in zip(range(slots), waiting, strict=False)]
    while running:
        ready, running = ray.wait(running, num_returns=1)
        name = next(waiting, None)
        if name is not None:
            running.append(remote.remote(name, **work.keywords))
        yield ray.get(ready[0])


def _answers(address: str) -> None:
    """Raise OSError if nobody listens at host:port: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in address:
        socket.create_connection((host, int(port)), timeout=5.0).close()


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

    @property
    def ranks_from(self) -> str:
        """What ranks were taken from that traces do not say; empty if all say it."""
        known = {one.rank_from for one in self.summaries if self.ranks}
        return "order of the files" if "order" in known else "names of the files" if "name" in known else ""


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
        paths,
        workers=workers,
        ray=ray,
        store=store,
        progress=lambda done, total: progress(done / total),
        first=first,
    )
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
        found,
        files=len(ranks),
        ranks=tuple(own),
        rank=shown,
        verdict=verdict,
        summaries=tuple(sorted(ranks, key=lambda one: one.rank)),
    )


def _alone(path: Path) -> JobTraces:
    trace: Trace = read_trace(path)
    return replace(_of_trace(trace), summaries=(rank_summary(replace(trace, rank=trace.rank or 0)),))


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
    total = np.bincount(trace.name[own][inside], trace.duration_ns[own][inside], minlength=len(trace.names))
    found_s = total / 1e9 / len(found.steps)
    return {trace.names[n]: float(found_s[n]) for n in np.flatnonzero(found_s)}


LANES: Final = 8
"""Ranks whose step is drawn in time, at most."""


@dataclass(frozen=True)
class Meeting:
    """One collective on one rank; seconds since the step began on the first rank."""

    kind: str
    start_s: float
    arrived_s: float
    """When the last of its ranks had come: until then this one waits."""
    end_s: float


@dataclass(frozen=True)
class RankStep:
    """One step of one rank."""

    rank: int
    start_s: float
    end_s: float
    meetings: tuple[Meeting, ...]


@dataclass(frozen=True)
class RankSteps:
    """R ranks, S steps that all of them have."""

    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    own_s: Any
    """(R, S)"""
    step: int | None
    """The step that `lanes` show: the one of median length."""
    lanes: tuple[RankStep, ...]


def rank_steps(summaries: Sequence[RankSummary], blamed: Sequence[int]) -> RankSteps | None:
    """What is comparable of the ranks, those that are `blamed` always among the lanes."""
    common = set.intersection(*(set(one.step_numbers.tolist()) for one in summaries))
    steps = tuple(sorted(int(number) for number in common))
    if len(summaries) < 2 or not steps:
        return None
    waits = KINDS.index("communication")
    own, whole = [], []
    for one in summaries:
        place = np.searchsorted(one.step_numbers, steps)
        own.append(one.step_s[place] - one.own_s[place, waits])
        whole.append(one.step_s[place])
    length_s = np.median(np.array(whole), axis=0)
    typical = steps[int(np.argsort(length_s)[len(steps) // 2])]
    return RankSteps(
        ranks=tuple(one.rank for one in summaries),
        steps=steps,
        own_s=np.array(own),
        step=typical,
        lanes=_lanes(_chosen(summaries, blamed), typical),
    )


def _chosen(summaries: Sequence[RankSummary], blamed: Sequence[int]) -> list[RankSummary]:
    """Those that are blamed, and others spread over the job."""
    first = [one for one in summaries if one.rank in set(blamed)][: LANES // 2]
    others = [one for one in summaries if one not in first]
    room = LANES - len(first)
    spread = np.linspace(0, len(others) - 1, min(room, len(others))).round().astype(int)
    return sorted([*first, *(others[n] for n in spread)], key=lambda one: one.rank)


def _lanes(summaries: Sequence[RankSummary], step: int) -> tuple[RankStep, ...]:
    blocks = matched(summaries)
    if not blocks:
        return ()
    clocks = aligned(blocks, len(summaries))
    origin_ns = min(int(one.start_ns[0]) for one in summaries if len(one.start_ns))
    bounds = [_bounds(one, step, origin_ns, clocks, n) for n, one in enumerate(summaries)]
    first_s = min(start for start, _ in bounds)
    meetings = _meetings(blocks, clocks, step, first_s, len(summaries))
    return tuple(
        RankStep(one.rank, start - first_s, end - first_s, tuple(found))
        for one, (start, end), found in zip(summaries, bounds, meetings, strict=True)
    )


def _bounds(one: RankSummary, step: int, origin_ns: int, clocks: Clocks, index: int) -> tuple[float, float]:
    """Begin and end of a step of a rank, on the common clock."""
    place = int(np.searchsorted(one.step_numbers, step))
    start_s = (int(one.step_start_ns[place]) - origin_ns) / 1e9
    start_s -= float(clocks.offset_s[index] + clocks.drift[index] * start_s)
    return start_s, start_s + float(one.step_s[place])


def _meetings(
    blocks: Sequence[MatchedCollectives], clocks: Clocks, step: int, first_s: float, ranks: int
) -> list[list[Meeting]]:
    """By rank, the collectives of a step."""
    found: list[list[Meeting]] = [[] for _ in range(ranks)]
    for block in blocks:
        rows = np.flatnonzero(block.step == step)
        if not len(rows):
            continue
        start_s, end_s = clocks.start_s(block)[rows] - first_s, clocks.end_s(block)[rows] - first_s
        arrived_s = np.nanmax(start_s, axis=1)
        for column, rank in enumerate(block.ranks.tolist()):
            for row in np.flatnonzero(np.isfinite(start_s[:, column])):
                begin, end = float(start_s[row, column]), float(end_s[row, column])
                arrived = begin if block.sends else min(max(float(arrived_s[row]), begin), end)
                found[rank].append(Meeting(block.kinds[rows[row]], begin, arrived, end))
    return found
