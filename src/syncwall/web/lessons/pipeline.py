"""A pipeline pass by pass: what each rank does, in which order and when, by schedule.

Holds `Pass`, `Order`, `orders` and `least_micro_batches`; `Slot`, `played`, `bubble_of` and
`most_kept`. Orders are those of the papers and of the programs that run them: 1F1B as in
PipeDream-flush, interleaved as in Megatron (Narayanan 2021), ZB-H1 (Qi 2023), DualPipe and
DualPipeV as in deepseek-ai/DualPipe. ZB-2p and ZB-V, which their authors leave to a search, have
none here. Every pass starts when its rank is free and what it needs has ended and been handed over.
`timeline.step` has formulas for the time that a rank stands still, which are tested with it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from syncwall.describe.layout import Schedule

Kind = Literal["forward", "input", "weight"]


class Pass(NamedTuple):
    """One pass of one micro batch through one stage."""

    kind: Kind
    """Forward, gradient of the input, gradient of the weights; the last two are backward."""
    stage: int
    """Position along the way of a micro batch: virtual stages are stages of their own."""
    micro: int
    way: int = 0
    """DualPipe: 0 for micro batches from the first rank on, 1 for those from the last."""


Order = list[tuple[Pass, ...]]
"""What a rank does; passes in one tuple run together."""
_PAIRED: Final = (Schedule.DUALPIPE, Schedule.DUALPIPE_V)


def pipeline_orders(schedule: Schedule, ranks: int, micro: int, virtual: int = 1) -> list[Order] | None:
    """The order of every rank; None where there is none for this schedule and these numbers."""
    if micro < least_micro_batches(schedule, ranks):
        return None
    if schedule == Schedule.INTERLEAVED:
        return [_interleaved(r, ranks, micro, virtual) for r in range(ranks)]
    if schedule in _PAIRED:
        return [_Paired(schedule, rank, ranks, micro).order for rank in range(ranks)]
    plain = {
        Schedule.GPIPE: _gpipe,
        Schedule.ONE_F_ONE_B: _one_forward_one_backward,
        Schedule.ZERO_BUBBLE: _zero_bubble,
    }.get(schedule)
    return [plain(rank, ranks, micro) for rank in range(ranks)] if plain else None


def least_micro_batches(schedule: Schedule, ranks: int) -> int:
    """Micro batches that a schedule needs; more come in multiples of `ranks`, or of 2, or any."""
    return {Schedule.INTERLEAVED: ranks, **dict.fromkeys(_PAIRED, 2 * ranks)}.get(schedule, 1)


def _both(one: Pass) -> tuple[Pass, ...]:
    """A whole backward pass."""
    return one._replace(kind="input"), one._replace(kind="weight")


def _gpipe(rank: int, ranks: int, micro: int) -> Order:
    passes = [Pass("forward", rank, m) for m in range(micro)]
    return [*((one,) for one in passes), *map(_both, passes)]


def _one_forward_one_backward(rank: int, ranks: int, micro: int) -> Order:
    ahead = min(ranks - rank - 1, micro)
    order: Order = [(Pass("forward", rank, m),) for m in range(ahead)]
    for m in range(micro):
        if m + ahead < micro:
            order.append((Pass("forward", rank, m + ahead),))
        order.append(_both(Pass("input", rank, m)))
    return order


def _zero_bubble(rank: int, ranks: int, micro: int) -> Order:
    """1F1B in which rank r does the weight gradient of a micro batch r micro batches later."""
    order: Order = []
    for together in _one_forward_one_backward(rank, ranks, micro):
        order.append(together[:1])
        late = together[0].micro - rank
        if together[0].kind == "input" and late >= 0:
            order.append((Pass("weight", rank, late),))
    return order + [(Pass("weight", rank, m),) for m in range(max(micro - rank, 0), micro)]


def _interleaved(rank: int, ranks: int, micro: int, virtual: int) -> Order:
    """`ranks` micro batches through each virtual stage in turn."""
    total = micro * virtual

    def unit(index: int, kind: Kind) -> tuple[Pass, ...]:
        group, within = divmod(index, ranks * virtual)
        chunk, place = divmod(within, ranks)
        chunk = chunk if kind == "forward" else virtual - 1 - chunk
        one = Pass(kind, chunk * ranks + rank, group * ranks + place)
        return (one,) if kind == "forward" else _both(one)

    ahead = min((ranks - rank - 1) * 2 + (virtual - 1) * ranks, total)
    order = [unit(i, "forward") for i in range(ahead)]
    for i in range(total - ahead):
        order += [unit(i + ahead, "forward"), unit(i, "input")]
    return order + [unit(i, "input") for i in range(total - ahead, total)]


class _Paired:
    """The eight steps of `dualpipe.py` and `dualpipev.py`: forward and backward passes in pairs.

    `side` 0 and 1 are the two ways of a micro batch in DualPipe, seen from the nearer end, and the
    two virtual stages of a rank in DualPipeV.
    """

    def __init__(self, schedule: Schedule, rank: int, ranks: int, micro: int) -> None:
        self.order: Order = []
        self._rank, self._ranks = rank, ranks
        self._dual = schedule == Schedule.DUALPIPE
        self._next = {(kind, side): 0 for kind in ("forward", "input") for side in (0, 1)}
        self._waiting: list[Pass] = []
        turn = ranks // 2 if self._dual else ranks  # ranks on the way to where both sides meet
        mine = min(rank, ranks - 1 - rank) if self._dual else rank
        after = turn - mine - 1
        self._fill(mine, after)
        self._steady((micro // 2 if self._dual else micro) - 2 * turn + mine + 1, after)
        self._drain(mine, after)

    def _fill(self, mine: int, after: int) -> None:
        for _ in range(2 * after):
            self.order.append(self._forward(0))
        for _ in range(mine + 1):
            self.order += [self._forward(0), self._forward(1)]
        for _ in range(after):
            self._input_only(1)
            self._weight()
            self.order.append(self._forward(1))

    def _steady(self, pairs: int, after: int) -> None:
        for i in range(pairs):
            if i == 0 and after == 0:
                self.order += [self._forward(0), self._backward(1)]
            else:
                self.order.append(self._forward(0) + self._backward(1))
            self.order.append(self._forward(1) + self._backward(0))

    def _drain(self, mine: int, after: int) -> None:
        for _ in range(after):
            self.order += [self._backward(1), self._forward(1) + self._backward(0)]
        for i in range(2 * (mine + 1)):
            side = 1 - i % 2
            if i > mine:  # weight gradients of the second half fill what follows
                self._input_only(side)
            else:
                self.order.append(self._backward(side))
        for _ in range(after):
            self._weight()
            self._input_only(0)
        while self._waiting:
            self._weight()

    def _pass(self, kind: Kind, side: int) -> Pass:
        number = self._next[kind, side]
        self._next[kind, side] += 1
        if not self._dual:
            return Pass(kind, 2 * self._ranks - 1 - self._rank if side else self._rank, number)
        way = side ^ (self._rank >= self._ranks // 2)
        return Pass(kind, self._ranks - 1 - self._rank if way else self._rank, number, way)

    def _forward(self, side: int) -> tuple[Pass, ...]:
        return (self._pass("forward", side),)

    def _backward(self, side: int) -> tuple[Pass, ...]:
        return _both(self._pass("input", side))

    def _input_only(self, side: int) -> None:
        one = self._pass("input", side)
        self.order.append((one,))
        self._waiting.append(one._replace(kind="weight"))

    def _weight(self) -> None:
        self.order.append((self._waiting.pop(0),))


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


def pipeline_slots(
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
