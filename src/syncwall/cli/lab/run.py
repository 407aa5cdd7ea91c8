"""`syncwall lab run`: an experiment on hosts that exist only while it runs.

Holds `run`.
"""

import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.problems import visible

if TYPE_CHECKING:
    from syncwall.lab.run import LabRecord


def run(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    /,
    out: Output = OutputFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="HxW")] = (),
    predict: bool = False,
    keep_logs: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    quiet: bool = False,
) -> int:
    """Run an experiment for real: make its hosts, run its jobs, remove all; needs root.

    Exit code 0 if every job ended well, 1 if one failed or Ctrl-C ended the run.

    Args:
        file: The experiment (YAML).
        out: Where the answer goes.
        only: Only these places, such as 2x2.
        predict: First measure device and collectives in each lab, predict every step from that,
            and compare.
        keep_logs: Keep what the workers print in this directory.
        quiet: Do not repeat what rank 0 prints.
    """
    from syncwall.cli.progress import status
    from syncwall.lab.experiment import read_experiment
    from syncwall.lab.run import result_of, run_experiment
    from syncwall.records import plain
    from syncwall.show.views.lab import lab_view

    out.check()
    experiment = read_experiment(file)
    records: list[LabRecord] = []
    complete = False
    try:
        with (
            status("lab") as progress,
            closing(
                run_experiment(
                    experiment, only=only, predict=predict, logs=keep_logs, progress=progress
                )
            ) as found,
        ):
            for record in found:
                records.append(record)
                _print(record, sys.stderr if out.prints_json else sys.stdout, quiet=quiet)
        complete = True
    except KeyboardInterrupt:
        print("interrupted; the hosts are removed", file=sys.stderr)
    result = result_of(experiment, records, complete=complete)
    out.write_data("lab run", partial(lab_view, result), partial(plain, result))
    return 0 if complete and all(record.ok for record in records) else 1


def _print(record: "LabRecord", stream: TextIO, *, quiet: bool) -> None:
    """What happened, while the others still run."""
    faults = "" if record.ok else f": FAILED, {record.message}"
    lines = [f"== {record.topology.label}, {record.job.label} ({record.seconds:.1f} s){faults}"]
    if record.link is not None:
        back = record.link.backward_bytes_per_s or 0.0
        forward = record.link.forward_bytes_per_s
        lines.append(
            f"   iperf3, both ways at once: {forward * 8e-6:.0f} and {back * 8e-6:.0f} Mb/s"
        )
    if record.output and not quiet:
        lines.append(record.output.rstrip())
    print(visible("\n".join(lines)), file=stream, flush=True)
