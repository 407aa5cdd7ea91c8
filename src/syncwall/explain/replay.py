"""A recorded job replayed with other durations, and which operation waits for which.

Data-parallel ranks and steps share it.

Source of the rules: Lin et al., "Understanding Stragglers in Large Model Training Using What-if
Analysis" (OSDI 2025) and its artifact ByteDance-Seed/StragglerAnalysis; see
docs/explanation/stragglers.md for each rule.

Recorders may write sends and receives that were never started (before the first or after the last
computation, or beyond the ends of the model); those belong to no pair.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np

from syncwall.problems import InputError, Problem
from syncwall.read.pipeline_operations import COMPUTE, TRANSFERS, OperationKind, Operations, WorkerOperation

CLOCK_SLACK_S = 5e-5
"""Two times closer than this count as equal (the artifact's value)."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """The send and the receive with the same pairing are one transfer."""

    direction: str
    """forward or backward."""
    sender: int
    """Stage that sends."""
    number: int
    """Counted per direction and sender within the step."""


@dataclass(frozen=True, slots=True)
class StageTransfer:
    """A send or receive and the computation it serves; all are indices of operations."""

    transfer: int
    computation: int
    previous: int | None
    """The computation of the same direction before `computation`."""
    pairing: Pairing | None
    """None if there is nobody at the other end."""


def stage_transfers(
    operations: Sequence[WorkerOperation],
    transfers: Sequence[int],
    computations: Sequence[int],
    kind: OperationKind,
    place: tuple[int, int],
) -> Iterator[StageTransfer]:
    """Transfers of one `kind` on one stage; `place` is the stage and the number of stages.

    `transfers` and `computations` (of the same direction) are in order of their start.
    """
    if not computations:
        return
    stage, stages = place
    started = _started(operations, transfers, computations, kind)
    # The first receive of the model's first chunk may be missing: nobody sends it.
    skipped = 1 if not kind.is_send and len(started) == len(computations) - 1 else 0
    chunks = stages * (1 + max(operations[index].chunk for index in computations))
    step = 1 if kind.is_send == kind.is_forward else -1
    sender = stage if kind.is_send else (stage + step) % stages
    number = 0
    for position, index in enumerate(started[: len(computations) - skipped], start=skipped):
        peer_chunk = operations[computations[position]].global_chunk + step
        pairing = None
        if 0 <= peer_chunk < chunks:
            pairing = Pairing("forward" if kind.is_forward else "backward", sender, number)
            number += 1
        previous = computations[position - 1] if position else None
        yield StageTransfer(index, computations[position], previous, pairing)


def _started(
    operations: Sequence[WorkerOperation],
    transfers: Sequence[int],
    computations: Sequence[int],
    kind: OperationKind,
) -> list[int]:
    """The transfers that lie where a computation can use them."""
    if kind.is_send:
        from_s = min(operations[one].end_s for one in computations) - CLOCK_SLACK_S
        return [index for index in transfers if operations[index].end_s >= from_s]
    until_s = max(operations[one].start_s for one in computations) + CLOCK_SLACK_S
    return [index for index in transfers if operations[index].start_s <= until_s]


_SHARED = {
    OperationKind.PARAMETERS,
    OperationKind.GRADIENTS,
    OperationKind.SEPARATE_GRADIENTS,
    OperationKind.CLIP,
}
"""Operations for which all data-parallel ranks wait for each other."""
_DATA_PARALLEL = {OperationKind.PARAMETERS, OperationKind.GRADIENTS}


@dataclass(frozen=True)
class JobGraph:
    """Operations of one step and one data-parallel rank, and what each waits for."""

    operations: tuple[WorkerOperation, ...]
    before: tuple[tuple[int, ...], ...]
    """Of each operation: those that end before it starts."""
    order: tuple[tuple[int, ...], ...]
    """Operations that transfer together, in an order in which they can be replayed."""
    shared: tuple[bool, ...]
    """Of each operation: whether all data-parallel ranks take part in it."""


@dataclass
class _Draft:
    """A graph while it is drawn."""

    before: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, earlier: int, later: int) -> None:
        self.before[later].append(earlier)

    def chain(self, operations: Iterable[int], after: Sequence[int] = ()) -> None:
        """Each operation waits for the one before it, the first for all of `after`."""
        last = list(after)
        for index in operations:
            for earlier in last:
                self.add(earlier, index)
            last = [index]


class _Stage:
    """Operations of one pipeline stage in order of their start."""

    def __init__(self, operations: Sequence[WorkerOperation], own: Sequence[int]) -> None:
        self.operations = operations
        self.own = sorted(
            own, key=lambda i: (operations[i].start_s, operations[i].sequence, operations[i].kind)
        )

    def of(self, *kinds: OperationKind) -> list[int]:
        return [index for index in self.own if self.operations[index].kind in kinds]

    def by_chunk(self, kind: OperationKind) -> dict[int, list[int]]:
        """Operations of one kind on each model chunk."""
        found: dict[int, list[int]] = defaultdict(list)
        for index in self.of(kind):
            found[self.operations[index].chunk].append(index)
        return found

    def last(self, indices: Sequence[int]) -> list[int]:
        """The one that ends last, as a list that may be empty."""
        return [max(indices, key=lambda i: self.operations[i].end_s)] if indices else []


def job_graph(operations: Sequence[WorkerOperation], *, file: str = "") -> JobGraph:
    """Graph of the `operations` of one step on the workers of one data-parallel rank."""
    stages = max(one.stage for one in operations) + 1
    draft = _Draft()
    pairs: dict[Pairing, list[int]] = defaultdict(list)
    members: dict[int, list[int]] = defaultdict(list)
    for index, one in enumerate(operations):
        members[one.stage].append(index)
    for number in range(stages):
        stage = _Stage(operations, members[number])
        if not stage.own:
            raise InputError.of(f"has operations of {stages} stages but none of {number}", file=file)
        draft.chain(stage.of(*COMPUTE))
        _transfers(draft, stage, number, stages, pairs)
        _parameters(draft, stage)
        _end_of_step(draft, stage)
    groups = _groups(operations, pairs, file)
    before = tuple(tuple(draft.before[index]) for index in range(len(operations)))
    return JobGraph(
        operations=tuple(operations),
        before=before,
        order=_order(before, groups, file),
        shared=tuple(one.kind in _SHARED for one in operations),
    )


def _transfers(
    draft: _Draft, stage: _Stage, number: int, stages: int, pairs: dict[Pairing, list[int]]
) -> None:
    """Sends follow their computation, computations follow what they receive."""
    for kind in TRANSFERS:
        own = stage.of(kind)
        draft.chain(own)
        computations = stage.of(kind.computation)
        found = stage_transfers(stage.operations, own, computations, kind, (number, stages))
        for one in found:
            if kind.is_send:
                draft.add(one.computation, one.transfer)
            else:
                draft.add(one.transfer, one.computation)
                if one.previous is not None:
                    draft.add(one.previous, one.transfer)
            if one.pairing is not None:
                pairs[one.pairing].append(one.transfer)
    compute = stage.of(*COMPUTE)
    kinds = [stage.operations[index].kind for index in compute]
    first = kinds.index(OperationKind.BACKWARD) if OperationKind.BACKWARD in kinds else 0
    if first >= 2:  # the warm-up is over one forward pass before the first backward pass
        for kind in (OperationKind.BACKWARD_RECEIVE, OperationKind.BACKWARD_SEND):
            for index in stage.of(kind)[:1]:
                draft.add(compute[first - 2], index)


def _parameters(draft: _Draft, stage: _Stage) -> None:
    """The first forward pass of a model chunk waits for the last gathering of its parameters."""
    draft.chain(stage.of(*_DATA_PARALLEL))
    last = {stage.operations[index].chunk: index for index in stage.of(OperationKind.PARAMETERS)}
    for chunk, forward in stage.by_chunk(OperationKind.FORWARD).items():
        if chunk in last:
            draft.add(last[chunk], forward[0])


def _end_of_step(draft: _Draft, stage: _Stage) -> None:
    """Gradients are reduced, clipped and applied after the last computation."""
    collection = stage.of(OperationKind.GARBAGE_COLLECTION)
    draft.chain(collection, after=stage.last(stage.of(*COMPUTE)))
    after = collection[-1:] or stage.last(stage.of(*COMPUTE))
    reductions = stage.of(OperationKind.GRADIENTS)
    overlapped = bool(stage.of(OperationKind.SEPARATE_GRADIENTS))
    if overlapped:
        _overlapped_reductions(draft, stage, reductions)
        after = [*reductions[-1:], *after]
    tail = [
        *stage.of(OperationKind.NORM_GRADIENTS),
        *stage.of(OperationKind.EMBEDDING_GRADIENTS),
        *(stage.of(OperationKind.SEPARATE_GRADIENTS) if overlapped else reductions),
        *stage.of(OperationKind.CLIP),
        *stage.of(OperationKind.OPTIMIZER),
    ]
    draft.chain(tail, after=after)


def _overlapped_reductions(draft: _Draft, stage: _Stage, reductions: Sequence[int]) -> None:
    """The first reduction of a chunk waits for the last backward pass of that chunk."""
    backward = stage.by_chunk(OperationKind.BACKWARD)
    for index in reductions:
        last = stage.last(backward.pop(stage.operations[index].chunk, ()))
        draft.chain([index], after=last)


def _groups(
    operations: Sequence[WorkerOperation], pairs: dict[Pairing, list[int]], file: str
) -> list[tuple[int, ...]]:
    """Operations that can only transfer once all of the group have started."""
    together: list[tuple[int, ...]] = []
    for pairing, members in pairs.items():
        if len(members) != 2:
            what = f"{pairing.direction} transfer {pairing.number} from stage {pairing.sender}"
            raise InputError.of(f"{what} has {len(members)} ends, not a send and a receive", file=file)
        together.append(tuple(members))
    for kind in (OperationKind.EMBEDDING_GRADIENTS, OperationKind.CLIP):
        rounds: dict[int, list[int]] = defaultdict(list)
        for index, one in enumerate(operations):
            if one.kind == kind:
                rounds[one.sequence].append(index)
        together.extend(tuple(members) for members in rounds.values())
    grouped = {index for members in together for index in members}
    return [*together, *((index,) for index in range(len(operations)) if index not in grouped)]


def _order(
    before: Sequence[Sequence[int]], groups: Sequence[tuple[int, ...]], file: str
) -> tuple[tuple[int, ...], ...]:
    """Groups sorted so that each comes after all that its operations wait for."""
    group_of = {index: number for number, members in enumerate(groups) for index in members}
    later: dict[int, set[int]] = defaultdict(set)
    for index, earlier in enumerate(before):
        for one in earlier:
            later[group_of[one]].add(group_of[index])
    waits = [0] * len(groups)
    for following in later.values():
        for number in following:
            waits[number] += 1
    ready = deque(number for number, count in enumerate(waits) if not count)
    order = []
    while ready:
        number = ready.popleft()
        order.append(groups[number])
        for following_one in later[number]:
            waits[following_one] -= 1
            if not waits[following_one]:
                ready.append(following_one)
    if len(order) < len(groups):
        raise InputError.of("has operations that wait for each other in a cycle", file=file)
    return tuple(order)


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


def replayed_job(table: Operations) -> JobOperations:
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
        message = f"{int((~kept).sum())} of {len(steps)} steps left out, their operations differ: {left}"
        problems.append(Problem(table.source, 0, 0, message))
    return rows, steps[kept], problems


def _check_ranks(table: Operations, rows: Any, steps: int) -> None:
    """Every data-parallel rank must hold the same operations."""
    ranks = len(np.unique(table.dp_rank[rows]))
    names = _numbered(*_identity(table, rows))
    if (int(names.max()) + 1) * ranks * steps != len(rows) or _doubled(table, rows):
        message = "data-parallel ranks hold different operations in a step: record all of the workers"
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
