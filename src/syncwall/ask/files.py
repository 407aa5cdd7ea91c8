"""`explain` and `validate`: what files say of runs.

Holds `ExplainQuestion` and `ValidateQuestion`.
"""

from typing import TYPE_CHECKING, Annotated, Any

from syncwall.ask.question import (
    Argument,
    Count,
    LocalFile,
    LocalFolder,
    Progress,
    Question,
    quiet,
)
from syncwall.catalogue import catalogue_overlay, directories
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.explain.answer import Explanation
    from syncwall.validate.accuracy_report import Report


class ExplainQuestion(Question):
    """Explain what files say: verdict, why, next.

    Exit code 0 if all is healthy, 1 if something is wrong (a hang, a straggler, a slow benchmark, a
    costly setting), 3 if that cannot be told.
    """

    verb = "explain"
    working = "reading"

    files: Annotated[tuple[LocalFile, ...], Argument("FILE", positional=True)] = ()
    """Profiler traces (Kineto), execution traces, NCCL logs, nccl-tests outputs, iperf3 and
    ib_write_bw, results of measure, flight-recorder dumps, CUDA memory snapshots, topologies (NCCL
    XML, nvidia-smi topo -m, lstopo), ibnetdiscover, nsys stats, operation tables, logs of jobs and
    hosts that failed (time-outs, out of memory, tracebacks, Xid, Slurm, Kubernetes), ibstat, dcgmi
    diag, nvidia-smi; or directories of them, also mixed. - is standard input: paste a text and end it."""
    run: Annotated[LocalFile | None, Argument("FILE")] = None
    """A run file: predicted and measured stand side by side, and findings are priced."""
    against: tuple[LocalFile, ...] = ()
    """Files of a good day, or a folder of good days: what changed since?"""
    cluster: Annotated[str | None, Argument("NAME")] = None
    """What the hosts should be, by catalogue name; else the likeliest."""
    workers: Count | None = None
    """Processes that read traces; one a processor if not given."""
    ray: Annotated[str | None, Argument("ADDRESS")] = None
    """Address of a Ray cluster that reads them, or auto."""
    store: Annotated[LocalFolder | None, Argument("DIR", group="output")] = None
    """Keep the events of all traces here as Parquet, for DuckDB and the like."""
    catalogue: LocalFolder | None = None
    """Look in this directory first (clusters/NAME.yaml, ...)."""
    so_far: Annotated[Any, Argument(hidden=True)] = None
    """Is told what the first two ranks of more say."""

    def answer(self, progress: Progress = quiet) -> "Explanation":
        """What the files say."""
        from syncwall.describe.stated import StatedRun
        from syncwall.explain.question import explain

        if not self.files:
            raise InputError.of(
                "name files or directories: syncwall explain traces/ nccl.log topo.txt, or - to paste"
            )
        with catalogue_overlay(self.catalogue):
            run = StatedRun.of_file(self.run).run() if self.run is not None else None
            return explain(
                self.files,
                run=run,
                against=self.against,
                cluster=self.cluster,
                workers=self.workers,
                ray=self.ray,
                store=self.store,
                progress=progress,
                so_far=self.so_far or (lambda _: None),
            )


class ValidateQuestion(Question):
    """Compare predictions with measured runs: errors by source, accelerator, scale, parallelism."""

    verb = "validate"
    working = "predicting runs"

    path: Annotated[LocalFile | None, Argument("PATH", positional=True)] = None
    """A table of runs (CSV), a run file with the key `measured`, or a directory of them; the
    built-in tables if left out."""
    against: LocalFile | None = None
    """Other predictions (CSV: id and columns such as calculon_step_s), side by side."""
    catalogue: LocalFolder | None = None
    """Look in this directory first (devices/NAME.yaml, ...)."""

    def answer(self, progress: Progress = quiet) -> "Report":
        """Every run predicted, beside its measurement."""
        from syncwall.validate.accuracy_report import validate

        with catalogue_overlay(self.catalogue):
            directories()  # a wrong one is an error, not a reason to skip every row
            return validate(self.path, self.against, progress)
