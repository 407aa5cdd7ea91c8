"""A pipeline in time: which stage works on which micro batch, one forward, one backward (1F1B).

Holds `Slot`, `one_forward_one_backward` and `bubble_of`. Every pass starts when its stage is free
and the neighbour has handed over; the order on a stage is fixed, as in PipeDream-flush (Narayanan
2021): first as many forward passes as there are stages behind, then one of each, then the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Pass = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One pass of one micro batch on one stage."""

    stage: int
    which: Pass
    micro: int
    start_s: float
    end_s: float


def one_forward_one_backward(
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    microbatches: int,
    handover_s: float = 0.0,
) -> list[Slot]:
    """Slots of `microbatches` through stages of these times, in the order in which they start."""
    stages = len(forward_s)
    orders = [order_of(stage, stages, microbatches) for stage in range(stages)]
    ended: dict[tuple[int, Pass, int], float] = {}
    free = [0.0] * stages
    found: list[Slot] = []
    while any(orders):
        for stage, order in enumerate(orders):
            while order:
                which, micro = order[0]
                ready_s = _ready(stage, which, micro, stages, ended, handover_s)
                if ready_s is None:
                    break
                start_s = max(free[stage], ready_s)
                end_s = start_s + (forward_s if which == "forward" else backward_s)[stage]
                ended[stage, which, micro] = free[stage] = end_s
                found.append(Slot(stage, which, micro, start_s, end_s))
                order.pop(0)
    return sorted(found, key=lambda slot: (slot.start_s, slot.stage))


def order_of(stage: int, stages: int, microbatches: int) -> list[tuple[Pass, int]]:
    """What a stage does, one after the other."""
    ahead = min(stages - stage - 1, microbatches)
    order: list[tuple[Pass, int]] = [("forward", micro) for micro in range(ahead)]
    for micro in range(microbatches):
        if micro + ahead < microbatches:
            order.append(("forward", micro + ahead))
        order.append(("backward", micro))
    return order


def bubble_of(slots: Sequence[Slot], stage: int) -> float:
    """Seconds in which `stage` has nothing to do before the last stage has ended."""
    busy_s = sum(slot.end_s - slot.start_s for slot in slots if slot.stage == stage)
    return max(slot.end_s for slot in slots) - busy_s


def _ready(
    stage: int,
    which: Pass,
    micro: int,
    stages: int,
    ended: dict[tuple[int, Pass, int], float],
    handover_s: float,
) -> float | None:
    """When what a pass needs is there; None if it is not known yet."""
    if which == "forward":
        if stage == 0:
            return 0.0
        before = ended.get((stage - 1, "forward", micro))
        return None if before is None else before + handover_s
    if stage == stages - 1:
        return ended.get((stage, "forward", micro))
    after = ended.get((stage + 1, "backward", micro))
    return None if after is None else after + handover_s
