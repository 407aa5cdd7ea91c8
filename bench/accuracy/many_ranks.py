"""A thousand ranks out of one real trace, one of them slow, and whether it is named."""

import gzip
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

from tests.explain.traces.rank_copies import Copies

from bench import Dir
from syncwall.explain.traces.pool import summaries, trace_files
from syncwall.explain.traces.ranks import explain_ranks

_CHUNK = 32


def ranks(trace: Dir, ranks: tuple[int, ...] = (64, 256, 1024), workers: int = 0) -> int:
    """Makes ranks out of one real TRACE.json.gz, one of them 10% slow; verdict, rate and memory.

    They are explained by a pool of processes with one rank in memory each. "of decoding" is the
    time of it all over that of as many processes which only unpack and decode the same files with
    the fastest decoder of JSON that is installed (orjson, msgspec, json).
    """
    print("ranks   raw MB   read s   MB/s   compare s   of decoding   peak MiB   verdict")
    right = True
    for count in ranks:
        with tempfile.TemporaryDirectory() as folder:
            right &= _round(trace, count, workers or os.cpu_count() or 1, Path(folder))
    return int(not right)


def _round(trace: Path, ranks: int, workers: int, folder: Path) -> bool:
    slow = ranks * 5 // 7
    chunks = [range(a, min(a + _CHUNK, ranks)) for a in range(0, ranks, _CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        size = sum(pool.map(partial(_written, trace, ranks, slow, folder), chunks))
    begun = time.perf_counter()
    found = summaries(trace_files(folder), workers=workers)
    read_s = time.perf_counter() - begun
    verdict = explain_ranks(found.ranks)
    compare_s = time.perf_counter() - begun - read_s
    begun = time.perf_counter()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(_decoded, trace_files(folder)))
    share = (read_s + compare_s) / (time.perf_counter() - begun)
    print(
        f"{ranks:5}   {size / 1e6:6.0f}   {read_s:6.1f}   {size / 1e6 / read_s:4.1f}   "
        f"{compare_s:9.2f}   {share:11.2f}   {found.peak_bytes / 2**20:8.0f}   {verdict.kind}: "
        f"rank {verdict.ranks} of {slow} expected, {verdict.lost_s * 1e3:.1f} ms of "
        f"{verdict.step_s * 1e3:.1f}, {verdict.explained:.0%} explained",
        flush=True,
    )
    return verdict.kind == "slow worker" and verdict.ranks == (slow,) and not found.problems


def _written(trace: Path, ranks: int, slow: int, folder: Path, chosen: range) -> int:
    """Bytes of some traces before they are packed."""
    copies = Copies.of(trace, ranks, slow)
    meetings = copies.meetings()
    return sum(copies.write(folder, rank, meetings) for rank in chosen)


def _decoded(file: Path) -> int:
    names = ("orjson", "msgspec.json", "json")
    module = import_module(next(one for one in names if find_spec(one.partition(".")[0])))
    loads = getattr(module, "loads", None) or module.decode
    return len(loads(gzip.decompress(file.read_bytes())))
