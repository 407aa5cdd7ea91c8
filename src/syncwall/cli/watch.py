"""`syncwall watch`: runs a command and watches what trains in it.

Holds `watch`.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.cli.watch_flags import OutletFlags, Outlets
from syncwall.problems import InputError


def watch(  # noqa: PLR0913, PLR0917 - the flags of the verb
    expect: Annotated[str | None, tyro.conf.arg(metavar="WORDS")] = None,
    events: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    arguments: Annotated[str, tyro.conf.arg(metavar="TEXT")] = "",
    attach: bool = False,
    folder: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    told: Outlets = OutletFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    out: Output = OutputFlags(),  # noqa: B008
) -> int:
    """Run a command and watch its training: syncwall watch -- torchrun --nproc-per-node 8 train.py.

    Findings are told on standard error while it runs: a dead, stopped or hung rank, a straggler, a
    slow-down, steps slower than predicted. At the end comes the ledger of a step. The code of
    the training stays as it is, and so do its results; the exit code is that of the command.

    Args:
        expect: What steps are compared with: a run file or, as one text, words of `predict`:
            "run.yaml --known-run measured.yaml", "step.work.json.gz --cluster NAME"; or the JSON
            of an earlier `syncwall watch`.
        events: Append findings, windows of steps and changes of ranks here as JSON lines, while
            they happen; - for standard output.
        arguments: The command as one text, the same as behind --.
        attach: Show a run that is watched already, the latest of yours on this machine; once if
            the output is no terminal.
        folder: With --attach: the folder of another one (SYNCWALL_WATCH_FOLDER of its ranks).
        told: Who is told while it trains.
        out: Where the summary goes.
    """
    if sys.platform != "linux":
        raise InputError.of("training is watched on Linux: pidfd and /proc are needed")
    from syncwall.show.records.watch import watch_record
    from syncwall.show.views.watch import watch_view
    from syncwall.watch.command import run_watched

    out.check()
    if attach:
        from syncwall.cli.watch_attached import attached

        return attached(folder, out)
    command = _command(arguments)
    os.environ.update(told.variables())  # the agent is a process of its own
    found = run_watched(command, expect=_checked(expect), events=events or "")
    if (summary := found.summary) is not None:
        out.write(
            "watch",
            lambda: watch_view(summary, found.command, found.code),
            lambda: watch_record(summary, found.command, found.code),
        )
    return found.code


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError.of(f"--arguments: {error}") from None
    if not words:
        raise InputError.of("name a command behind --: syncwall watch -- torchrun train.py")
    return words


def _checked(expect: str | None) -> str:
    """Something that can be compared with, before an hour of training."""
    from syncwall.watch.expected import expectation
    from syncwall.watch.place import EXPECT

    words = expect or os.environ.get(EXPECT, "")
    if words:
        expectation(words)
    return words
