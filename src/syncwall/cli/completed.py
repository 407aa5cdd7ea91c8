"""A job played through while somebody watches.

Holds `completed`.
"""

import os
from typing import TYPE_CHECKING, Final

from syncwall.cli.progress import bar

if TYPE_CHECKING:
    from syncwall.answer import Prediction
    from syncwall.describe import Job
    from syncwall.job.changes import Change
    from syncwall.job.completion import Completion

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
