"""A profile of the steps that are measured: one file a rank, as PyTorch's profiler writes it.

Holds `profiled`, `loading` and `HOST_KEY`. Imported only where torch is installed.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function, schedule

from syncwall.measure.place import LOADER_DELAY
from syncwall.measure.team import Team

_LOADING = "enumerate(DataLoader)#measure"
"""Begins as the names that PyTorch's own loaders give their part of a trace."""
_MOST_STEPS = 50
HOST_KEY = "syncwall_host"
"""Key of the trace for the name of the host, which hosts of a lab do not have in the kernel."""


@contextmanager
def profiled(
    team: Team, directory: str | None, warm_up: int, steps: int
) -> Iterator[Callable[[], None]]:
    """Lends what is to be called after each step; writes `rank<n>.json.gz` into `directory`.

    Without a directory nothing is recorded, and the call does nothing.
    """
    if directory is None:
        yield lambda: None
        return
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    plan = schedule(
        wait=max(warm_up - 1, 0), warmup=min(warm_up, 1), active=min(steps, _MOST_STEPS), repeat=1
    )
    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if team.device.type == "cuda" else []
    with profile(
        activities=activities,
        schedule=plan,
        on_trace_ready=lambda done: _write(done, folder, team),
        record_shapes=True,  # the sizes of Gloo's collectives are written nowhere else
    ) as recorder:

        def step_is_done() -> None:
            recorder.step()
            recorder.add_metadata(HOST_KEY, team.hosts[team.rank])  # forgotten before it records

        yield step_is_done


def _write(recorder: Any, folder: Path, team: Team) -> None:
    recorder.export_chrome_trace(str(folder / f"rank{team.rank}.json.gz"))


@contextmanager
def loading() -> Iterator[None]:
    """The part of a step in which a data loader would deliver a batch."""
    with record_function(_LOADING):
        delay_s = os.environ.get(LOADER_DELAY)
        if delay_s:
            time.sleep(float(delay_s))
        yield
