"""`syncwall lab run`: an experiment on hosts that exist only while it runs.

Holds `run`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from syncwall.lab.run import Record


def run(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    /,
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="HxW")] = (),
    predict: bool = False,
    keep_logs: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    quiet: bool = False,
) -> int:
    """Run an experiment for real: make its hosts, run its jobs, remove all; needs root.

    Exit code 0 if every job ended well, 1 if one failed or Ctrl-C ended the run.

    Args:
        file: The experiment (YAML).
        json: Write what was measured here.
        only: Only these places, such as 2x2.
        predict: First measure device and collectives in each lab, predict every step from that,
            and compare.
        keep_logs: Keep what the workers print in this directory.
        quiet: Do not repeat what rank 0 prints.
    """
    from syncwall.lab.comparison import compared
    from syncwall.lab.experiment import read_experiment
    from syncwall.lab.run import result_of, run_experiment
    from syncwall.show.headed import print_page
    from syncwall.show.lab import comparison_page

    experiment = read_experiment(file)
    records: list[Record] = []
    complete = False
    try:
        with (
            _status() as progress,
            closing(
                run_experiment(
                    experiment, only=only, predict=predict, logs=keep_logs, progress=progress
                )
            ) as found,
        ):
            for record in found:
                records.append(record)
                _print(record, quiet=quiet)
        complete = True
    except KeyboardInterrupt:
        print("interrupted; the hosts are removed", file=sys.stderr)
    if predict:
        print_page(comparison_page(compared(records)))
    if json is not None:
        result_of(experiment, records, complete=complete).write(json)
    return 0 if complete and all(record.ok for record in records) else 1


def _print(record: "Record", *, quiet: bool) -> None:
    faults = "" if record.ok else f": FAILED, {record.message}"
    print(f"== {record.topology.label}, {record.job.label} ({record.seconds:.1f} s){faults}")
    if record.link is not None:
        back = record.link.backward_bytes_per_s or 0.0
        forward = record.link.forward_bytes_per_s
        print(f"   iperf3, both ways at once: {forward * 8e-6:.0f} and {back * 8e-6:.0f} Mb/s")
    if record.output and not quiet:
        print(record.output.rstrip())
    sys.stdout.flush()


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """What is going on, on a terminal; nothing elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("starting") as status:
        yield status.update
