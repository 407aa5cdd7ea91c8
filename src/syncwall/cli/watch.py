"""`syncwall watch`: runs a command and watches what trains in it.

Holds `watch`.
"""

import os
import shlex
import sys
from typing import Annotated

from syncwall.ask.question import Argument, LocalFolder
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.cli.watch_flags import OutletFlags
from syncwall.problems import InputError


class Watch(Command):
    """Run a command and watch its training: syncwall watch -- torchrun --nproc-per-node 8 train.py.

    Findings are told on standard error while it runs: a dead, stopped or hung rank, a straggler, a
    slow-down, steps slower than predicted. At the end comes the ledger of a step. The code of
    the training stays as it is, and so do its results; the exit code is that of the command.
    """

    expect: Annotated[str | None, Argument("WORDS")] = None
    """What steps are compared with: a run file or, as one text, words of `predict`: "run.yaml
    --known-run measured.yaml", "step.work.json.gz --cluster NAME"; or the JSON of an earlier
    `syncwall watch`."""
    events: Annotated[str | None, Argument("FILE")] = None
    """Append findings, windows of steps and changes of ranks here as JSON lines, while they happen;
    - for standard output."""
    arguments: Annotated[str, Argument("TEXT")] = ""
    """The command as one text, the same as behind --."""
    attach: bool = False
    """Show a run that is watched already, the latest of yours on this machine; once if the output
    is no terminal."""
    folder: LocalFolder | None = None
    """With --attach: the folder of another one (SYNCWALL_WATCH_FOLDER of its ranks)."""
    told: Annotated[OutletFlags, Argument(inline=True, group="outlet")] = OutletFlags()
    """Who is told while it trains."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the summary goes."""

    def run(self) -> int:
        """The exit code."""
        if sys.platform != "linux":
            raise InputError.of("training is watched on Linux: pidfd and /proc are needed")
        from syncwall.show.records.watch import WatchedRun
        from syncwall.show.watch import watch_view
        from syncwall.watch.command import run_watched

        self.out.check()
        if self.attach:
            from syncwall.cli.watch_attached import attached

            return attached(self.folder, self.out)
        command = _command(self.arguments)
        os.environ.update(self.told.variables())  # the agent is a process of its own
        found = run_watched(command, expect=_checked(self.expect), events=self.events or "")
        if (summary := found.summary) is not None:
            self.out.write_data(
                "watch",
                lambda: watch_view(summary, found.command, found.code),
                lambda: WatchedRun(summary, found.command, found.code),
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
