"""Which operation of a training step waits for which.

Holds `WorkerOperation`, `JobGraph` and `job_graph`, which derives the graph of a pipeline-parallel
job from the order of operations on one data-parallel rank. Data-parallel ranks and steps share it.

Source of the rules: Lin et al., "Understanding Stragglers in Large Model Training Using What-if
Analysis" (OSDI 2025) and its artifact ByteDance-Seed/StragglerAnalysis; see
docs/explanation/stragglers.md for each rule.

`Pairing`, `StageTransfer` and `stage_transfers`: which computation a pipeline transfer belongs to,
and which transfer at the other end. Recorders may write sends and receives that were never started
(before the first or after the last computation, or beyond the ends of the model); those belong to
no pair.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from syncwall.problems import InputError
from syncwall.read.operations import COMPUTE, TRANSFERS, OperationKind, WorkerOperation

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
            raise InputError.of(
                f"has operations of {stages} stages but none of {number}", file=file
            )
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
            raise InputError.of(
                f"{what} has {len(members)} ends, not a send and a receive", file=file
            )
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
