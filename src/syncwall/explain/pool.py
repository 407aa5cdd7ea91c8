"""Many traces, one rank in memory of each worker.

Holds `Summaries`, `summaries` and `trace_files`: over processes of this machine, or over a Ray
cluster.
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

from syncwall.explain.rank_summary import RankSummary, rank_summary
from syncwall.problems import InputError, Problem

Progress = Callable[[int, int], None]
"""Is told how many of how many files are done."""
_ENDINGS = (".json", ".json.gz")
_FEW = 2
"""Files that are not worth new processes."""


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


def summaries(
    paths: Sequence[Path],
    *,
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
    ray: str | None = None,
    store: Path | None = None,
) -> Summaries:
    """Read all traces, each by one of `workers` processes (one a processor if None).

    With `ray`, the address of a cluster or "auto", its workers read: files must be where they are.
    With `store`, each worker also keeps its rank's events there, as Parquet.
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
    ranks = sorted((one.summary for one in done if one.summary), key=lambda one: one.rank)
    return Summaries(
        ranks=_each_once(ranks),
        problems=tuple(sorted(problem for one in done for problem in one.problems)),
        peak_bytes=max((one.peak_bytes for one in done), default=0),
    )


def _each_once(ranks: Sequence[RankSummary]) -> tuple[RankSummary, ...]:
    seen: dict[int, str] = {}
    for one in ranks:
        if one.rank in seen:
            also = f"is of rank {one.rank}, as {seen[one.rank]} is: give each rank once"
            raise InputError.of(also, file=one.source)
        seen[one.rank] = one.source
    return tuple(ranks)


def _summary(name: str, store: Path | None = None) -> _Done:
    """One file, in whatever process."""
    from syncwall.explain.store import store_events
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
