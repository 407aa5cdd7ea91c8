"""From a table of operations to a job that can be replayed.

Holds `job_of`: complete steps are found and sorted into arrays, waiting is taken out of
communication, and ideal durations are computed.
"""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from syncwall.explain.job_graph import Graph, job_graph
from syncwall.explain.whatif import Job
from syncwall.problems import InputError, Problem
from syncwall.read.operation_kinds import COMPUTE, Kind
from syncwall.read.operations import Operation, Operations

NEGATIVE_TRANSFER_S = 1e-2
"""Clocks of two workers may differ by this much (the artifact's value): shorter negative transfers
stay as they are, so that their median is unbiased, longer ones count as zero."""
_KINDS = tuple(Kind)


def job_of(table: Operations) -> Job:
    """The complete steps of `table` and the graph of their operations."""
    rows, steps, problems = _complete_steps(table)
    dp_ranks, dp = np.unique(table.dp_rank[rows], return_inverse=True)
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
    stages = max(one.stage for one in operations) + 1
    ranks = np.full((len(dp_ranks), stages), -1)
    ranks[np.searchsorted(dp_ranks, table.dp_rank[rows]), table.stage[rows]] = table.rank[rows]
    return Job(
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
        said = f"{int((~kept).sum())} of {len(steps)} steps left out, other operations: {left}"
        problems.append(Problem(table.source, 0, 0, said))
    return rows, steps[kept], problems


def _check_ranks(table: Operations, rows: Any, steps: int) -> None:
    """Every data-parallel rank must hold the same operations."""
    ranks = len(np.unique(table.dp_rank[rows]))
    names = _numbered(*_identity(table, rows))
    if (int(names.max()) + 1) * ranks * steps != len(rows) or _doubled(table, rows):
        said = "data-parallel ranks hold different operations in a step: record all of the workers"
        raise InputError.of(said, file=table.source)


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


def _operation(table: Operations, row: int) -> Operation:
    start_s = float(table.start_s[row])
    return Operation(
        kind=_KINDS[table.kind[row]],
        stage=int(table.stage[row]),
        sequence=int(table.sequence[row]),
        chunk=int(table.chunk[row]),
        global_chunk=int(table.global_chunk[row]),
        microbatch=int(table.microbatch[row]),
        start_s=start_s,
        end_s=start_s + float(table.duration_s[row]),
    )


def _own_durations(graph: Graph, start_s: Any, end_s: Any) -> Any:
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


def _ideal_durations(operations: list[Operation], actual_s: Any) -> tuple[Any, Any]:
    """Of every operation, over all stages and over its own stage."""
    kinds = np.array([one.kind for one in operations])
    stages = np.array([one.stage for one in operations])
    ideal_s = np.empty(len(operations))
    for kind in set(kinds):
        own = kinds == kind
        middle = np.mean if Kind(kind).is_computation else np.median
        ideal_s[own] = middle(actual_s[own])
    stage_s = ideal_s.copy()
    for kind in COMPUTE:
        for stage in set(stages[kinds == kind]):
            own = (kinds == kind) & (stages == stage)
            stage_s[own] = actual_s[own].mean()
    return ideal_s, stage_s
