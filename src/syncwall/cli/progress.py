"""How far a command has come, for whoever watches: on standard error, never in the answer.

Holds `bar` (shares that are done, `Lines` of them in a log) and `status` (what is going on).
`completed`: a job played through while somebody watches.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from syncwall.problems import visible

if TYPE_CHECKING:
    from syncwall.answer import Prediction
    from syncwall.describe import Job
    from syncwall.job.completion import Completion

_FIRST_LINE_S: Final = 2.0
_NEXT_LINE_S: Final = 5.0


class Lines:
    """A share that is done, as plain lines: the first after two seconds, then one every five."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.clock = what, clock
        self.started = clock()
        self.due = self.started + _FIRST_LINE_S

    def __call__(self, share: float) -> None:
        """Say, if it is time, which share is done and how long the rest will take."""
        now = self.clock()
        if now < self.due:
            return
        self.due = now + _NEXT_LINE_S
        left_s = (now - self.started) * (1.0 / share - 1.0) if share > 0.0 else 0.0
        left = f"{left_s:.0f} s" if left_s < 100.0 else f"{left_s / 60.0:.0f} min"
        _say(self.what, f"{share:.0%}, about {left} left" if share > 0.0 else "0%")


def _say(what: str, said: str) -> None:
    print(visible(f"{what}: {said}"), file=sys.stderr, flush=True)


@contextmanager
def bar(what: str, *, hidden: bool = False) -> Iterator[Callable[[float], None]]:
    """Shows the share that is done; the work calls what this gives with it."""
    if hidden or not sys.stderr.isatty():
        yield (lambda share: None) if hidden else Lines(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=1.0)
        yield lambda share: shown.update(task, completed=share)


@contextmanager
def status(what: str) -> Iterator[Callable[[str], None]]:
    """Shows what is going on, where nobody knows the share; the work calls what this gives."""
    if not sys.stderr.isatty():
        yield lambda said: _say(what, said)
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as shown:
        yield lambda said: shown.update(visible(f"{what}: {said}"))


_FIRST: Final = 0.2
"""Share of the work that is the job itself; the rest are its changes."""
_SHARED_FROM: Final = 20_000
"""Simulations from which on it pays to start a process on every core."""


def completed(job: "Job", prediction: "Prediction") -> "Completion":
    """When `job` will be done, and what would change that; with a progress bar."""
    from syncwall.job.completion import changes, finish

    workers = os.cpu_count() or 1 if job.simulations >= _SHARED_FROM else 1
    with bar("simulating jobs") as show:
        completion = finish(
            job, prediction, progress=lambda share: show(_FIRST * share), workers=workers
        )
        found = changes(completion, lambda share: show(_FIRST + (1 - _FIRST) * share))
        vars(completion)["changes"] = found  # while somebody watches, not when they are asked for
    return completion
