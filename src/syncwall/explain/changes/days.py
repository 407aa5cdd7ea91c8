"""Good days, and the day that is asked about, as steps of ranks.

Holds `Day`, `day_of` and `read_days`. A day is a job that was traced once; files of the same ranks
in several directories are several days.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.explain.traces.job_traces import JobTraces, explain_traces, job_of
from syncwall.explain.traces.pool import summaries
from syncwall.explain.traces.rank_summary import KINDS, RankSummary
from syncwall.problems import InputError

OWN: Final = tuple(kind for kind in KINDS if kind != "communication")
"""What a rank does itself."""


@dataclass(frozen=True)
class Day:
    """S steps of N ranks."""

    name: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    numbers: Any
    """(S,): of the steps."""
    step_s: Any
    """(S,): median over ranks."""
    own_s: Any
    """(S, N, len(OWN))"""
    wait_s: Any
    """(S, N): in collectives, for other ranks; 0 of one rank alone."""
    transfer_s: Any
    """(S, N): in collectives, exposed, while data moved."""
    job: JobTraces


def day_of(job: JobTraces, name: str) -> Day:
    """The steps that all ranks of `job` recorded."""
    ranks = job.summaries
    numbers = ranks[0].step_numbers
    for one in ranks[1:]:
        numbers = np.intersect1d(numbers, one.step_numbers)
    rows = [np.flatnonzero(np.isin(one.step_numbers, numbers)) for one in ranks]
    own = np.stack([one.own_s[row] for one, row in zip(ranks, rows, strict=True)], axis=1)
    steps = np.stack([one.step_s[row] for one, row in zip(ranks, rows, strict=True)], axis=1)
    talking = own[:, :, KINDS.index("communication")]
    wait = np.zeros_like(talking)
    if job.verdict is not None:
        wait = np.minimum(job.verdict.skew.wait_s, talking)
    return Day(
        name, tuple(one.rank for one in ranks), tuple(one.host or "" for one in ranks),
        np.sort(numbers), np.median(steps, axis=1), own[:, :, [KINDS.index(k) for k in OWN]],
        wait, talking - wait, job,
    )  # fmt: skip


def read_days(
    paths: Sequence[Path], *, shown: int | None, workers: int | None = None, ray: str | None = None
) -> tuple[Day, ...]:
    """Each day among the traces at `paths`, with the ledger of the rank `shown`."""
    if len(paths) == 1:
        return (day_of(explain_traces(paths), paths[0].name),)
    read = summaries(paths, workers=workers, ray=ray, days=True)
    if not read.ranks:
        raise InputError(read.problems)
    groups: dict[Path, list[RankSummary]] = {}
    for one in read.ranks:
        groups.setdefault(Path(one.source).parent, []).append(one)
    if len({one.rank for one in read.ranks}) == len(read.ranks):
        groups = {paths[0].parent: list(read.ranks)}
    found = []
    for folder, ranks in sorted(groups.items()):
        if len({one.rank for one in ranks}) < len(ranks):
            message = "holds a rank twice: give each day a directory of its own"
            raise InputError.of(message, file=str(folder))
        found.append(day_of(job_of(ranks, shown=shown), folder.name))
    return tuple(found)
