"""A thousand ranks: `python bench/many_ranks.py TRACE.json.gz [--ranks 64 256 1024]`.

Makes the ranks out of one real trace, one of them 10% slow (see rank_copies.py), explains them by
a pool of processes with one rank in memory each, and prints verdict, rate and memory. "of decoding"
is the time of it all over that of as many processes which only unpack and decode the same files
with the fastest decoder of JSON that is installed (orjson, msgspec, json).
"""

import argparse
import gzip
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rank_copies import Copies
from syncwall.explain.traces.pool import summaries, trace_files
from syncwall.explain.traces.ranks import explain_ranks

_CHUNK = 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, default=None, help="for the copies; temporary")
    options = parser.parse_args()
    print("ranks   raw MB   read s   MB/s   compare s   of decoding   peak MiB   verdict")
    right = True
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            right &= _round(options.trace, ranks, options.workers, Path(folder))
    return 0 if right else 1


def _round(trace: Path, ranks: int, workers: int, folder: Path) -> bool:
    slow = ranks * 5 // 7
    size = _written(trace, ranks, slow, folder, workers)
    begun = time.perf_counter()
    found = summaries(trace_files(folder), workers=workers, progress=_progress)
    read_s = time.perf_counter() - begun
    verdict = explain_ranks(found.ranks)
    compare_s = time.perf_counter() - begun - read_s
    decoding_s = _decoding_s(trace_files(folder), workers)
    print(
        f"{ranks:5}   {size / 1e6:6.0f}   {read_s:6.1f}   {size / 1e6 / read_s:4.1f}   "
        f"{compare_s:9.2f}   {(read_s + compare_s) / decoding_s:11.2f}   "
        f"{found.peak_bytes / 2**20:8.0f}   {verdict.kind}: rank "
        f"{verdict.ranks} of {slow} expected, {verdict.lost_s * 1e3:.1f} ms of "
        f"{verdict.step_s * 1e3:.1f}, {verdict.explained:.0%} explained",
        flush=True,
    )
    return verdict.kind == "slow worker" and verdict.ranks == (slow,) and not found.problems


def _decoding_s(files: list[Path], workers: int) -> float:
    """Seconds in which as many processes unpack and decode all files, and do nothing with them."""
    begun = time.perf_counter()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(_decoded, files))
    return time.perf_counter() - begun


def _decoded(file: Path) -> int:
    name = next(one for one in ("orjson", "msgspec.json", "json") if _is_there(one))
    module = import_module(name)
    loads = module.decode if name == "msgspec.json" else module.loads
    return len(loads(gzip.decompress(file.read_bytes())))


def _is_there(name: str) -> bool:
    return find_spec(name.partition(".")[0]) is not None


def _written(trace: Path, ranks: int, slow: int, folder: Path, workers: int) -> int:
    """Bytes of all traces before they are packed."""
    chunks = [range(a, min(a + _CHUNK, ranks)) for a in range(0, ranks, _CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        return sum(pool.map(partial(_some, trace, ranks, slow, folder), chunks))


def _some(trace: Path, ranks: int, slow: int, folder: Path, chosen: Any) -> int:
    copies = Copies.of(trace, ranks, slow)
    meetings = copies.meetings()
    return sum(copies.write(folder, rank, meetings) for rank in chosen)


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
