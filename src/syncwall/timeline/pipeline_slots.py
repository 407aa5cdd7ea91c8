"""A pipeline in time: which rank works on which micro batch, and when.

Holds `Slot`, `played`, `bubble_of` and `most_kept`. Every pass starts when its rank is free and
what it needs has ended and been handed over; the order on a rank is fixed
(`timeline.pipeline_orders`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from syncwall.timeline.pipeline_orders import Order, Pass

Which = Literal["forward", "backward", "input", "weight"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One pass of one micro batch on one rank; `backward` is both kinds of gradients at once."""

    rank: int
    which: Which
    stage: int
    micro: int
    way: int
    start_s: float
    end_s: float


def played(
    orders: Sequence[Order], seconds: Callable[[int, Pass], float], handover_s: float = 0.0
) -> list[Slot]:
    """Slots of all ranks, in the order in which they start; `seconds` of a pass on a rank.

    Passes that run together are written one after the other, and all end for others with the last.
    """
    ranks = {one: rank for rank, order in enumerate(orders) for each in order for one in each}
    last = max(one.stage for one in ranks)
    ended: dict[Pass, float] = {}
    free, at = [0.0] * len(orders), [0] * len(orders)
    found: list[Slot] = []
    while any(at[rank] < len(order) for rank, order in enumerate(orders)):
        before = len(found)
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                together = order[at[rank]]
                needed = [n for one in together for n in _needs(one, last) if n not in together]
                if any(one not in ended for one in needed):
                    break
                ready = (ended[one] + handover_s * (ranks[one] != rank) for one in needed)
                slots = list(_slots(rank, together, max([free[rank], *ready]), seconds))
                free[rank] = slots[-1].end_s
                ended |= dict.fromkeys(together, free[rank])
                found += slots
                at[rank] += 1
        assert len(found) > before, "passes that wait for each other"
    return sorted(found, key=lambda slot: (slot.start_s, slot.rank))


def bubble_of(slots: Sequence[Slot], rank: int) -> float:
    """Seconds in which `rank` has nothing to do before the last one has ended."""
    busy_s = sum(slot.end_s - slot.start_s for slot in slots if slot.rank == rank)
    return max(slot.end_s for slot in slots) - busy_s


def most_kept(order: Order) -> int:
    """Passes whose activations a rank keeps at the same time, until their weight gradients."""
    kept = found = 0
    for together in order:
        for one in together:
            kept += {"forward": 1, "input": 0, "weight": -1}[one.kind]
            found = max(found, kept)
    return found


def _needs(one: Pass, last: int) -> list[Pass]:
    if one.kind == "forward":
        return [one._replace(stage=one.stage - 1)] if one.stage else []
    if one.kind == "weight":
        return [one._replace(kind="input")]
    own = one._replace(kind="forward")
    return [own] if one.stage == last else [own, one._replace(stage=one.stage + 1)]


def _slots(
    rank: int, together: tuple[Pass, ...], start_s: float, seconds: Callable[[int, Pass], float]
) -> Iterator[Slot]:
    """Gradients of input and weights that come together are one slot."""
    whole = {one[1:] for one in together if one.kind == "weight"} & {
        one[1:] for one in together if one.kind == "input"
    }
    for one in together:
        if one.kind == "weight" and one[1:] in whole:
            continue
        end_s = start_s + seconds(rank, one)
        which: Which = one.kind
        if one[1:] in whole and one.kind == "input":
            which = "backward"
            end_s += seconds(rank, one._replace(kind="weight"))
        yield Slot(rank, which, one.stage, one.micro, one.way, start_s, end_s)
        start_s = end_s
