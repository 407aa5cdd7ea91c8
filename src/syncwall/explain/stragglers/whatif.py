"""A recorded job replayed with other durations.

Holds `JobOperations`, operations as arrays over operation, step and data-parallel rank with their
graph; `replay`, which gives the seconds of every step for any choice of durations; `Durations`,
what can be chosen; and `job_of`, a job from a table of operations: complete steps are found and
sorted into arrays, waiting is taken out of communication, and ideal durations are computed.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np

from syncwall.explain.stragglers.job_graph import JobGraph, job_graph
from syncwall.problems import InputError, Problem
from syncwall.read.operations import COMPUTE, OperationKind, Operations, WorkerOperation

_MOST_AT_ONCE = 4_000_000
"""Times held during a replay; more choices are replayed one part after the other (32 MB)."""
MOST_STAGES, MOST_DP_RANKS = 256, 8192
"""Each is replayed by itself, so that the time grows with their number times that of operations."""


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
class JobOperations:
    """Operations of all complete steps, as arrays (operation, step, data-parallel rank)."""

    graph: JobGraph
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

    @cached_property
    def _stage_of(self) -> Any:
        return np.array([one.stage for one in self.graph.operations])

    def on(
        self,
        *,
        kinds: Collection[OperationKind] | None = None,
        stage: int | None = None,
        dp: int | None = None,
    ) -> Any:
        """Mask (operation, data-parallel rank) of some operations; all without arguments.

        `dp` counts from 0 in the order of `dp_ranks`.
        """
        own = np.full(len(self.graph.operations), True)
        if kinds is not None:
            own &= [one.kind in kinds for one in self.graph.operations]
        if stage is not None:
            own &= self._stage_of == stage
        ranks = np.full(len(self.dp_ranks), dp is None)
        if dp is not None:
            ranks[dp] = True
        return own[:, None] & ranks


def replay(job: JobOperations, choices: Iterable[Any]) -> Any:
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


def _replay(job: JobOperations, choices: Any) -> Any:
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


def _chosen(job: JobOperations, index: int, choice: Any) -> Any:
    """Durations of one operation (choice, step, data-parallel rank)."""
    flat = np.where(choice == Durations.STAGE, job.stage_s[index], job.ideal_s[index])
    actual = (choice == Durations.ACTUAL)[:, None, :]
    return np.where(actual, job.actual_s[index], flat[:, None, :])


NEGATIVE_TRANSFER_S = 1e-2
"""Clocks of two workers may differ by this much (the artifact's value): shorter negative transfers
stay as they are, so that their median is unbiased, longer ones count as zero."""
_KINDS = tuple(OperationKind)


def job_of(table: Operations) -> JobOperations:
    """The complete steps of `table` and the graph of their operations."""
    rows, steps, problems = _complete_steps(table)
    dp_ranks, dp = np.unique(table.dp_rank[rows], return_inverse=True)
    stages = int(table.stage[rows].max()) + 1
    _check_size(table, stages, len(dp_ranks))
    shape = (-1, len(steps), len(dp_ranks))
    order = np.lexsort((dp, table.step[rows], *_identity(table, rows)))
    rows = rows[order]
    start_s = table.start_s[rows].reshape(shape)
    end_s = start_s + table.duration_s[rows].reshape(shape)
    template = rows.reshape(shape)[:, 0, 0]
    operations = [_operation(table, row) for row in template]
    graph = job_graph(operations, file=table.source)
    actual_s = _own_durations(graph, start_s, end_s)
    ideal_s, stage_s = _ideal_durations(operations, actual_s)
    ranks = np.full((len(dp_ranks), stages), -1)
    ranks[np.searchsorted(dp_ranks, table.dp_rank[rows]), table.stage[rows]] = table.rank[rows]
    return JobOperations(
        graph=graph,
        steps=tuple(int(step) for step in steps),
        dp_ranks=tuple(int(rank) for rank in dp_ranks),
        stages=stages,
        ranks=ranks,
        start_s=start_s,
        end_s=end_s,
        actual_s=actual_s,
        ideal_s=ideal_s,
        stage_s=stage_s,
        problems=(*table.problems, *problems),
    )


def _check_size(table: Operations, stages: int, dp_ranks: int) -> None:
    """More than any job has is damage, or would take too long."""
    for count, most, what in (
        (stages, MOST_STAGES, "pipeline stages"),
        (dp_ranks, MOST_DP_RANKS, "data-parallel ranks"),
    ):
        if count > most:
            message = f"has operations of {count:,} {what}; at most {most:,} can be replayed"
            raise InputError.of(message, file=table.source)


def _identity(table: Operations, rows: Any) -> tuple[Any, Any, Any]:
    """What an operation is apart from step and data-parallel rank."""
    return table.sequence[rows], table.stage[rows], table.kind[rows]


def _complete_steps(table: Operations) -> tuple[Any, Any, list[Problem]]:
    """Rows of the steps that have every operation on every data-parallel rank exactly once."""
    everything = np.arange(len(table))
    key = _numbered(*_identity(table, everything), table.dp_rank)
    steps, step = np.unique(table.step, return_inverse=True)
    order = np.lexsort((key, step))
    bounds = np.searchsorted(step[order], np.arange(len(steps) + 1))
    content = [key[order[a:b]].tobytes() for a, b in pairwise(bounds)]
    counts = Counter(content)
    usual = max(counts, key=lambda one: (counts[one], len(one)))  # a damaged step has fewer rows
    kept = np.array([one == usual for one in content])
    rows = everything[kept[step]]
    _check_ranks(table, rows, int(kept.sum()))
    problems = []
    if not kept.all():
        left = ", ".join(str(number) for number in steps[~kept][:5])
        message = (
            f"{int((~kept).sum())} of {len(steps)} steps left out, their operations differ: {left}"
        )
        problems.append(Problem(table.source, 0, 0, message))
    return rows, steps[kept], problems


def _check_ranks(table: Operations, rows: Any, steps: int) -> None:
    """Every data-parallel rank must hold the same operations."""
    ranks = len(np.unique(table.dp_rank[rows]))
    names = _numbered(*_identity(table, rows))
    if (int(names.max()) + 1) * ranks * steps != len(rows) or _doubled(table, rows):
        message = (
            "data-parallel ranks hold different operations in a step: record all of the workers"
        )
        raise InputError.of(message, file=table.source)


def _doubled(table: Operations, rows: Any) -> bool:
    """Whether an operation is there twice."""
    key = _numbered(*_identity(table, rows), table.dp_rank[rows], table.step[rows])
    return int(key.max()) + 1 < len(rows)


def _numbered(*columns: Any) -> Any:
    """A number for every different combination of values, from 0 without gaps."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        _, number = np.unique(number * len(values) + place, return_inverse=True)
    return number


def _operation(table: Operations, row: int) -> WorkerOperation:
    start_s = float(table.start_s[row])
    return WorkerOperation(
        kind=_KINDS[table.kind[row]],
        stage=int(table.stage[row]),
        sequence=int(table.sequence[row]),
        chunk=int(table.chunk[row]),
        global_chunk=int(table.global_chunk[row]),
        microbatch=int(table.microbatch[row]),
        start_s=start_s,
        end_s=start_s + float(table.duration_s[row]),
    )


def _own_durations(graph: JobGraph, start_s: Any, end_s: Any) -> Any:
    """Durations without the wait for the last of the group to arrive."""
    own = end_s - start_s
    for members in graph.order:
        shared = graph.shared[members[0]]
        if len(members) == 1 and not shared:
            continue
        arrived = start_s[list(members)].max(axis=0)
        if shared:
            arrived = arrived.max(axis=1, keepdims=True)
        for index in members:
            own[index] = end_s[index] - arrived
    return np.where(own <= -NEGATIVE_TRANSFER_S, 0.0, own)


def _ideal_durations(operations: list[WorkerOperation], actual_s: Any) -> tuple[Any, Any]:
    """Of every operation, over all stages and over its own stage."""
    kinds = np.array([one.kind for one in operations])
    stages = np.array([one.stage for one in operations])
    ideal_s = np.empty(len(operations))
    for kind in set(kinds):
        own = kinds == kind
        middle = np.mean if OperationKind(kind).is_computation else np.median
        ideal_s[own] = middle(actual_s[own])
    stage_s = ideal_s.copy()
    for kind in COMPUTE:
        of_kind = kinds == kind
        for stage in set(stages[of_kind]):
            own = of_kind & (stages == stage)
            stage_s[own] = actual_s[own].mean()
    return ideal_s, stage_s
