"""`syncwall watch`: runs a command and watches what trains in it, or a run that is watched
already.
"""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from syncwall.ask.question import Argument, LocalFile, LocalFolder, Share
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.describe.base import Description
from syncwall.problems import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from syncwall.watch.baseline import Baseline

_EVERY_S: Final = 1.0
_FAIL_ABOVE: Final = 0.05
"""A change that a step of 25 windows shows, on a machine that does nothing else."""


def attached(folder: Path | None, out: Output) -> int:
    """Show a run until Ctrl-C, or once if nobody looks at a terminal."""
    from rich.console import Console

    from syncwall.show.records.watch import LiveRun
    from syncwall.show.watch import live_view
    from syncwall.watch.summary import read_snapshot

    home = _home(folder)
    console = Console()
    if out.json_file is None and out.html is None and out.markdown is None and console.is_terminal:
        return _followed(home, console)
    found = read_snapshot(home)
    status = found.status()
    out.write_data("watch live", lambda: live_view(found, status), lambda: LiveRun(found, status))
    return 0


def _home(folder: Path | None) -> Path:
    from syncwall.watch.summary import watched_here

    if folder is not None:
        return folder
    homes = watched_here()
    if not homes:
        raise InputError.of("no run of yours is watched on this machine")
    return homes[0]


def _followed(home: Path, console: "Console") -> int:
    from rich.console import Group
    from rich.live import Live

    from syncwall.show.watch import live_view
    from syncwall.show.write.terminal import rendered
    from syncwall.watch.job_state import JobState, JobStatus
    from syncwall.watch.summary import read_snapshot

    found = read_snapshot(home)
    status = found.status()
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        try:
            while True:
                view = live_view(found, status)
                lines = list(rendered(view, console.width))[: console.height - 1]
                screen.update(Group(*lines), refresh=True)
                time.sleep(_EVERY_S)
                found = read_snapshot(home)
                status = found.status()
        except KeyboardInterrupt:
            pass
        except InputError:
            status = JobStatus(JobState.ENDED, "the run is over, and its folder gone", is_current=False)
    console.print(Group(*rendered(live_view(found, status), console.width)))
    return 0


class OutletFlags(Description):
    """Who is told of a run while it trains."""

    prometheus: Annotated[str | None, Argument("ADDRESS")] = None
    """Answer Prometheus at this address and port, such as 127.0.0.1:9464; another than this
    machine's own needs SYNCWALL_TOKEN in the environment."""
    otlp: Annotated[str | None, Argument("URL")] = None
    """Send metrics to an OpenTelemetry collector, such as http://127.0.0.1:4318/v1/metrics."""
    webhook: Annotated[str | None, Argument("URL")] = None
    """Post every finding here as JSON."""
    alert: Annotated[str | None, Argument("COMMAND")] = None
    """Run this for every finding, with JSON on its standard input."""
    to: Annotated[tuple[str, ...], Argument("TRACKER")] = ()
    """Log figures and findings to wandb, mlflow or tensorboard[:DIR], by the agent; packages and
    accounts are theirs."""
    life: LocalFile | None = None
    """Append the life of the job here: goodput over all its starts."""
    steps: Annotated[int | None, Argument("N")] = None
    """Steps of the whole job: with --life, when it will be done."""

    def variables(self) -> dict[str, str]:
        """What the agent reads; InputError for what it could not do."""
        from syncwall.watch import exporters
        from syncwall.watch.trackers import checked_tracker

        if self.prometheus:
            exporters.checked_address(self.prometheus, os.environ.get(exporters.TOKEN, ""))
        if self.webhook:
            exporters.checked_webhook(self.webhook)
        for word in self.to:
            checked_tracker(word)
        if self.life is not None and not self.life.absolute().parent.is_dir():
            raise InputError.of(f"--life: there is no folder {self.life.absolute().parent}")
        if self.steps is not None and self.life is None:
            raise InputError.of("--steps says when the job will be done only with --life FILE")
        given = {
            exporters.PROMETHEUS: self.prometheus,
            exporters.OTLP: self.otlp,
            exporters.WEBHOOK: self.webhook,
            exporters.ALERT: self.alert,
            exporters.TO: shlex.join(self.to) or None,
            exporters.LIFE: None if self.life is None else str(self.life.absolute()),
            exporters.STEPS: None if self.steps is None else str(self.steps),
        }
        stated = {name: value for name, value in given.items() if value is not None}
        return {**stated, exporters.SINCE: str(time.time())}


class WatchCommand(Command):
    """Run a command and watch its training: syncwall watch -- torchrun --nproc-per-node 8 train.py.

    Findings are told on standard error while it runs: a dead, stopped or hung rank, a straggler, a
    slow-down, steps slower than predicted. At the end comes the ledger of a step. The code of
    the training stays as it is, and so do its results; the exit code is that of the command.
    """

    expect: Annotated[str | None, Argument("WORDS")] = None
    """What steps are compared with: a run file or, as one text, words of `predict`: "run.yaml
    --known-run measured.yaml", "step.work.json.gz --cluster NAME"; or the JSON of an earlier
    `syncwall watch`."""
    baseline: LocalFile | None = None
    """The JSON of an earlier `syncwall watch`, with which the run is compared at its end: exit code
    0 if its step is not too long, 1 if it is, 3 if they are not comparable; that of a command which
    fails goes before."""
    fail_above: Share | None = None
    """With --baseline: the share by which a step may be longer, 5% if not given."""
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
        from syncwall.watch.baseline import Outcome, compared
        from syncwall.watch.command import run_watched

        self.out.check()
        if self.attach:
            return attached(self.folder, self.out)
        command = _command(self.arguments)
        before = self._baseline()
        os.environ.update(self.told.variables())  # the agent is a process of its own
        found = run_watched(command, expect=_checked(self.expect), events=self.events or "")
        if (summary := found.summary) is None:
            return found.code or (Outcome.NOT_COMPARABLE.exit_code if before is not None else 0)
        limit = _FAIL_ABOVE if self.fail_above is None else self.fail_above
        beside = None
        if before is not None:
            beside = compared(summary.usual, summary.world, summary.findings, before, limit)
        self.out.write_data(
            "watch",
            lambda: watch_view(summary, found.command, found.code, beside),
            lambda: WatchedRun(summary, found.command, found.code, beside),
        )
        return found.code or (beside.outcome.exit_code if beside else 0)

    def _baseline(self) -> "Baseline | None":
        """Read before an hour of training."""
        from syncwall.watch.baseline import read_baseline

        if self.baseline is not None:
            return read_baseline(self.baseline)
        if self.fail_above is not None:
            raise InputError.of("--fail-above is about --baseline FILE")
        return None


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
