"""Which computation a pipeline transfer belongs to, and which transfer at the other end.

Holds `Pairing`, `Transfer` and `stage_transfers`. Recorders may write sends and receives that were
never started (before the first or after the last computation, or beyond the ends of the model);
those belong to no pair.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncwall.read.operation_kinds import Kind
from syncwall.read.operations import Operation

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
class Transfer:
    """A send or receive and the computation it serves; all are indices of operations."""

    transfer: int
    computation: int
    previous: int | None
    """The computation of the same direction before `computation`."""
    pairing: Pairing | None
    """None if there is nobody at the other end."""


def stage_transfers(
    operations: Sequence[Operation],
    transfers: Sequence[int],
    computations: Sequence[int],
    kind: Kind,
    place: tuple[int, int],
) -> Iterator[Transfer]:
    """Transfers of one `kind` on one stage; `place` is the stage and the number of stages.

    `transfers` and `computations` (of the same direction) are in order of their start.
    """
    if not computations:
        return
    stage, stages = place
    started = [index for index in transfers if _was_started(operations, index, computations, kind)]
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
        yield Transfer(index, computations[position], previous, pairing)


def _was_started(
    operations: Sequence[Operation], index: int, computations: Sequence[int], kind: Kind
) -> bool:
    """Whether a transfer lies where a computation can use it."""
    if kind.is_send:
        first_end_s = min(operations[one].end_s for one in computations)
        return operations[index].end_s >= first_end_s - CLOCK_SLACK_S
    last_start_s = max(operations[one].start_s for one in computations)
    return operations[index].start_s <= last_start_s + CLOCK_SLACK_S
