"""`syncwall explain`: why a run is slow, from the files people already have.

Holds `explain`.
"""

import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.problems import InputError, visible

if TYPE_CHECKING:
    from syncwall.explain.traces.ranks import RanksVerdict

_LONG_S: Final = 1.0


def explain(  # noqa: PLR0913, PLR0917 - the flags of the verb
    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = (),
    /,
    run: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    against: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE")] = (),
    cluster: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None,
    store: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    out: Output = OutputFlags(),  # noqa: B008 - a dataclass of defaults, never changed
) -> int:
    """Explain what files say: verdict, why, next.

    Exit code 1 if something is wrong: a hang, a straggler, a slow benchmark, a costly setting.

    Args:
        files: Profiler traces (Kineto), execution traces, NCCL logs, nccl-tests outputs,
            iperf3 and ib_write_bw, results of measure, flight-recorder dumps, topologies (NCCL XML,
            nvidia-smi topo -m, lstopo), ibnetdiscover, nsys stats, operation tables; or directories
            of them, also mixed.
        run: A run file: predicted and measured stand side by side, and findings are priced.
        against: Files of a good day, or a folder of good days: what changed since?
        cluster: What the hosts should be, by catalogue name; else the likeliest.
        workers: Processes that read traces; one a processor if not given.
        ray: Address of a Ray cluster that reads them, or auto.
        store: Keep the events of all traces here as Parquet, for DuckDB and the like.
        catalogue: Look in this directory first (clusters/NAME.yaml, ...).
        out: Where the answer goes.
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import bar
    from syncwall.describe.overrides import run_with
    from syncwall.explain.question import explain as answer

    if not files:
        raise InputError.of("name files or directories: syncwall explain traces/ nccl.log topo.txt")
    out.check()
    with searched_first(catalogue), bar("reading") as progress:
        whole = run_with(run, {}) if run is not None else None
        found = answer(
            files, run=whole, against=against, cluster=cluster, workers=workers, ray=ray,
            store=store, progress=progress, so_far=_SoFar(),
        )  # fmt: skip
    out.write(found)
    return 1 if found.is_bad else 0


class _SoFar:
    """Says what the first ranks show, where all of them take a while."""

    def __init__(self) -> None:
        self._began_s = monotonic()

    def __call__(self, verdict: "RanksVerdict") -> None:
        """One line on standard error."""
        from syncwall.show.words.explanation import ranks_verdict

        if monotonic() - self._began_s > _LONG_S:
            said = f"so far, from the first ranks: {ranks_verdict(verdict)}"
            print(visible(said), file=sys.stderr, flush=True)
