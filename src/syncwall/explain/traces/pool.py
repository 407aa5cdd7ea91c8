"""Many traces, one rank in memory of each worker.

Holds `Summaries`, `summaries` and `trace_files`: over processes of this machine, or over a Ray
cluster. `store_events` and `stored_events`: events of ranks as Parquet, to be asked in SQL later;
written by DuckDB (extra `[store]`). One file a rank, `rank<n>.parquet`: rank, step, name, category,
start_ns (time of day), duration_ns, thread, stream, correlation, and of collectives their kind,
group and bytes.
"""

import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from syncwall.explain.traces.rank_summary import RankSummary, rank_summary
from syncwall.problems import InputError, Problem
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
            "number": np.arange(count), "name": trace.name, "category": trace.category,
            "step": step, "start_ns": trace.base_ns + trace.start_ns,
            "duration_ns": trace.duration_ns, "thread": trace.thread, "stream": trace.stream,
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
    }  # fmt: skip


def _listed(column: str, texts: list[str]) -> dict[str, Any]:
    return {"number": np.arange(len(texts)), column: np.array(texts, dtype=object)}


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InputError.of('DuckDB is not installed: pip install "syncwall[store]"') from None
    return duckdb


Progress = Callable[[int, int], None]
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
    progress: Progress = lambda done, total: None,
    ray: str | None = None,
    store: Path | None = None,
    days: bool = False,
    first: Callable[[Sequence[RankSummary]], None] = lambda some: None,
) -> Summaries:
    """Read all traces, each by one of `workers` processes (one a processor if None).

    With `ray`, the address of a cluster or "auto", its workers read: files must be where they are.
    With `store`, each worker also keeps its rank's events there, as Parquet. A rank may be there
    once only, unless these are several `days`. `first` is told the first two ranks of more: what
    they say need not wait for the others.
    """
    work = partial(_summary, store=store)
    names = [str(path) for path in paths]
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


def _summary(name: str, store: Path | None = None) -> _Done:
    """One file, in whatever process."""
    from syncwall.read.kineto import read_trace

    try:
        trace = read_trace(Path(name))
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
        running = {
            pool.submit(work, name) for _, name in zip(range(2 * count), waiting, strict=False)
        }
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
        raise InputError.of('Ray is not installed: pip install "syncwall[ray]"') from None
    if not ray.is_initialized():
        try:
            _answers(address)
            ray.init(address=address, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError.of(f"no Ray cluster at {address}: {error}") from None
    remote: Any = ray.remote(_summary)
    store = work.keywords["store"]
    waiting = iter(names)
    slots = 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    running = [remote.remote(name, store) for _, name in zip(range(slots), waiting, strict=False)]
    while running:
        ready, running = ray.wait(running, num_returns=1)
        name = next(waiting, None)
        if name is not None:
            running.append(remote.remote(name, store))
        yield ray.get(ready[0])


def _answers(address: str) -> None:
    """Raise OSError if nobody listens at host:port: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in address:
        socket.create_connection((host, int(port)), timeout=5.0).close()
