"""A recorded job replayed with other durations.

Holds `Job`, operations as arrays over operation, step and data-parallel rank with their graph;
`replay`, which gives the seconds of every step for any choice of durations; and `Durations`, what
can be chosen.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Any

import numpy as np

from syncwall.explain.job_graph import Graph
from syncwall.problems import Problem
from syncwall.read.operation_kinds import Kind

_MOST_AT_ONCE = 4_000_000
"""Times held during a replay; more choices are replayed one part after the other (32 MB)."""


class Durations(IntEnum):
    """Which duration an operation gets in a replay."""

    IDEAL = 0
    """That of its kind over all workers, steps and micro batches: the mean of computations, the
    median of communication."""
    ACTUAL = 1
    """Its own; communication without the wait for the last to arrive."""
    STAGE = 2
    """As IDEAL, but computations get the mean of their kind on their stage."""


@dataclass(frozen=True)
class Job:
    """Operations of all complete steps, as arrays (operation, step, data-parallel rank)."""

    graph: Graph
    steps: tuple[int, ...]
    dp_ranks: tuple[int, ...]
    stages: int
    ranks: Any
    """Global rank of each worker (data-parallel rank, stage)."""
    start_s: Any
    end_s: Any
    actual_s: Any
    """Own duration of each operation; of communication from the last arrival on."""
    ideal_s: Any
    """Of each operation (one number each)."""
    stage_s: Any
    """The same with the computations of each stage for themselves."""
    problems: tuple[Problem, ...]

    @property
    def measured_step_s(self) -> Any:
        """From the first start to the last end of every step."""
        return self.end_s.max(axis=(0, 2)) - self.start_s.min(axis=(0, 2))

    def on(
        self,
        *,
        kinds: Collection[Kind] | None = None,
        stage: int | None = None,
        dp: int | None = None,
    ) -> Any:
        """Mask (operation, data-parallel rank) of some operations; all without arguments.

        `dp` counts from 0 in the order of `dp_ranks`.
        """
        own = np.array([
            (kinds is None or one.kind in kinds) and (stage is None or one.stage == stage)
            for one in self.graph.operations
        ])  # fmt: skip
        ranks = np.full(len(self.dp_ranks), dp is None)
        if dp is not None:
            ranks[dp] = True
        return own[:, None] & ranks


def replay(job: Job, choices: Iterable[Any]) -> Any:
    """Seconds of each step under each of the `choices`: an array (choice, step).

    A choice holds a `Durations` for every (operation, data-parallel rank). Operations start as soon
    as all they wait for has ended; communication starts with its last partner.
    """
    at_once = max(1, _MOST_AT_ONCE // job.actual_s.size)
    remaining = iter(choices)
    parts = []
    while some := list(islice(remaining, at_once)):
        parts.append(_replay(job, np.stack(some)))
    return np.concatenate(parts)


def _replay(job: Job, choices: Any) -> Any:
    shape = (len(choices), len(job.steps), len(job.dp_ranks))
    zero = np.zeros(shape)
    last = zero
    ends: dict[int, Any] = {}
    for members in job.graph.order:
        begun = zero
        for index in members:
            for earlier in job.graph.before[index]:
                begun = np.maximum(begun, ends[earlier])
        if job.graph.shared[members[0]]:
            begun = begun.max(axis=2, keepdims=True)
        for index in members:
            ends[index] = begun + _chosen(job, index, choices[:, index])
            last = np.maximum(last, ends[index])
    return last.max(axis=2)


def _chosen(job: Job, index: int, choice: Any) -> Any:
    """Durations of one operation (choice, step, data-parallel rank)."""
    flat = np.where(choice == Durations.STAGE, job.stage_s[index], job.ideal_s[index])
    actual = (choice == Durations.ACTUAL)[:, None, :]
    return np.where(actual, job.actual_s[index], flat[:, None, :])
