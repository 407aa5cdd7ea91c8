"""How far a command has come, for whoever watches.

Holds `bar`. `completed`: a job played through while somebody watches.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from syncwall.answer import Prediction
    from syncwall.describe import Job
    from syncwall.job.changes import Change
    from syncwall.job.completion import Completion


@contextmanager
def bar(what: str, *, hidden: bool = False) -> Iterator[Callable[[float], None]]:
    """A progress bar on a terminal, fed with the share that is done; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), TimeRemainingColumn())
    hidden = hidden or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task("", total=1.0)
        yield lambda share: shown.update(task, completed=share)


_FIRST: Final = 0.2
"""Share of the work that is the job itself; the rest are its changes."""
_SHARED_FROM: Final = 20_000
"""Simulations from which on it pays to start a process on every core."""


def completed(job: "Job", prediction: "Prediction") -> "tuple[Completion, list[Change]]":
    """When `job` will be done, and what would change that; with a progress bar."""
    from syncwall.job.changes import changes
    from syncwall.job.completion import finish

    workers = os.cpu_count() or 1 if job.simulations >= _SHARED_FROM else 1
    with bar("simulating jobs") as show:
        completion = finish(
            job, prediction, progress=lambda share: show(_FIRST * share), workers=workers
        )
        found = changes(completion, lambda share: show(_FIRST + (1 - _FIRST) * share))
    return completion, found
