"""`syncwall.explain`: what files say, as Python asks for it.

Holds `explain`.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from syncwall.catalogue import Folders, takes_catalogue
from syncwall.describe import Cluster, Run, lookup
from syncwall.explain.answer import STANDARD_INPUT, Explanation
from syncwall.explain.answer import explain as answer
from syncwall.explain.readers import FilesRequest
from syncwall.explain.traces.rank_comparison import RanksVerdict
from syncwall.problems import InputError

Paths = str | Path | Sequence[str | Path]


@takes_catalogue
def explain(  # noqa: PLR0913 - what may be asked of files
    paths: Paths,
    *,
    run: Run | str | Path | None = None,
    against: Paths = (),
    cluster: Cluster | str | None = None,
    workers: int | None = None,
    ray: str | None = None,
    store: str | Path | None = None,
    progress: Callable[[float], None] = lambda share: None,
    so_far: Callable[[RanksVerdict], None] = lambda verdict: None,
    catalogue: Folders = None,
) -> Explanation:
    """What files that people have say: verdict, why, next.

    `paths` are profiler traces, NCCL logs, nccl-tests outputs, flight-recorder dumps, topologies,
    logs of jobs that failed and the like, or folders of them; "-" is standard input. `run`,
    described or in a file, is predicted and laid beside them; `against` are files of good days, to
    see what changed; `cluster` is what the hosts should be, else the likeliest. `workers` processes
    read traces, or the Ray cluster at `ray`; `store` keeps their events as Parquet. `progress` is
    told the share that is done, `so_far` what the first two ranks of more say.

    Examples:
        >>> import syncwall as sw
        >>> found = sw.explain("examples/explain/nccl.log")
        >>> found
        <Explanation of 1 NCCL log: wrong>
        >>> found.findings[0].what
        'NCCL_IB_DISABLE=1'
    """
    question = FilesRequest(
        run=lookup.run(run) if isinstance(run, str | Path) else run,
        machine=lookup.cluster(cluster) if isinstance(cluster, str) else cluster,
        workers=workers,
        ray=ray,
        store=None if store is None else Path(store),
    )
    with _pasted(_paths(paths)) as (given, pasted):
        question = replace(question, pasted=Path(pasted) if pasted else None)
        found = answer(given, question, against=_paths(against), progress=progress, so_far=so_far)
        return replace(found, pasted=pasted)


def _paths(given: Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]


_MOST_BYTES: Final = 256 << 20


@contextmanager
def _pasted(paths: list[Path]) -> Iterator[tuple[list[Path], str]]:
    """`paths` with what standard input holds in place of "-", and the file that holds it."""
    if all(str(path) != STANDARD_INPUT for path in paths):
        yield paths, ""
        return
    with TemporaryDirectory() as directory:
        pasted = Path(directory, "standard-input")
        raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise InputError.of("is larger than 256 MiB: write it to a file", file=STANDARD_INPUT)
        pasted.write_bytes(raw)
        try:
            yield [pasted if str(path) == STANDARD_INPUT else path for path in paths], str(pasted)
        except InputError as error:
            name = str(pasted)
            problems = (replace(one, file=one.file.replace(name, STANDARD_INPUT)) for one in error.problems)
            raise InputError(problems) from None
