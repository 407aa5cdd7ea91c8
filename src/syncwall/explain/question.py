"""`syncwall.explain`: what files say, as Python asks for it.

Holds `explain`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from syncwall.catalogue import Folders, takes_catalogue
from syncwall.describe import Cluster, Run, lookup
from syncwall.explain.answer import Explanation
from syncwall.explain.answer import explain as answer
from syncwall.explain.readers import FilesRequest
from syncwall.explain.traces.rank_comparison import RanksVerdict

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

    `paths` are profiler traces, NCCL logs, nccl-tests outputs, flight-recorder dumps, topologies
    and the like, or folders of them. `run`, described or in a file, is predicted and laid beside
    them; `against` are files of good days, to see what changed; `cluster` is what the hosts should
    be, else the likeliest. `workers` processes read traces, or the Ray cluster at `ray`; `store`
    keeps their events as Parquet. `progress` is told the share that is done, `so_far` what the
    first two ranks of more say.

    Examples:
        >>> import syncwall as sw
        >>> found = sw.explain("examples/explain/nccl.log")
        >>> found
        <Explanation of 1 NCCL log: bad>
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
    return answer(_paths(paths), question, against=_paths(against), progress=progress, so_far=so_far)


def _paths(given: Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]
