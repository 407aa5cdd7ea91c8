"""Pipelines executed pass by pass, as an oracle for the formulas of `timeline.schedules`.

Every rank has a fixed order of passes; each pass starts when its rank is free and what it needs has
ended. `F` is a forward pass, `B` the gradient of the input, `W` that of the weights.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Pass(NamedTuple):
    kind: str
    stage: int
    """Position along the way of a micro batch: chunks are stages of their own."""
    micro: int
    way: int = 0
    """DualPipe: 0 for micro batches from the first rank on, 1 for those from the last."""


Order = list[tuple[Pass, ...]]
"""What a rank does; passes in one tuple run together, one after the other."""


def makespan(
    orders: Sequence[Order], stages: int, seconds: Callable[[int, Pass], float]
) -> tuple[float, list[float]]:
    """When the last rank has ended, and how long each was busy."""
    ended: dict[Pass, float] = {}
    free, busy = [0.0] * len(orders), [0.0] * len(orders)
    at = [0] * len(orders)
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                together = order[at[rank]]
                needed = [n for one in together for n in needs(one, stages) if n not in together]
                if any(one not in ended for one in needed):
                    break
                start = max([free[rank], *(ended[one] for one in needed)])
                took = sum(seconds(rank, one) for one in together)
                for one in together:
                    ended[one] = start + took
                free[rank], busy[rank] = start + took, busy[rank] + took
                at[rank] += 1
                moved = True
    assert all(a == len(order) for a, order in zip(at, orders, strict=True)), "a deadlock"
    return max(free), busy


def needs(one: Pass, stages: int) -> list[Pass]:
    if one.kind == "F":
        return [one._replace(stage=one.stage - 1)] if one.stage else []
    if one.kind == "W":
        return [one._replace(kind="B")]
    own = one._replace(kind="F")
    return [own] if one.stage == stages - 1 else [own, one._replace(stage=one.stage + 1)]


def gpipe(ranks: int, micro: int) -> list[Order]:
    return [
        [
            *((Pass("F", r, m),) for m in range(micro)),
            *((Pass("B", r, m), Pass("W", r, m)) for m in range(micro)),
        ]
        for r in range(ranks)
    ]


def zb_h1(ranks: int, micro: int) -> list[Order]:
    """1F1B in which rank r does the weight gradient of a micro batch r micro batches later."""
    found = []
    for r in range(ranks):
        ahead = min(ranks - r - 1, micro)
        order: Order = [(Pass("F", r, m),) for m in range(ahead)]
        for m in range(micro):
            if m + ahead < micro:
                order.append((Pass("F", r, m + ahead),))
            order.append((Pass("B", r, m),))
            if m - r >= 0:
                order.append((Pass("W", r, m - r),))
        order += [(Pass("W", r, m),) for m in range(max(micro - r, 0), micro)]
        found.append(order)
    return found


def interleaved(ranks: int, micro: int, chunks: int) -> list[Order]:
    """Megatron's order: `ranks` micro batches through each chunk in turn."""
    total = micro * chunks

    def unit(rank: int, index: int, kind: str) -> tuple[Pass, ...]:
        group, within = divmod(index, ranks * chunks)
        chunk, place = divmod(within, ranks)
        chunk = chunk if kind == "F" else chunks - 1 - chunk
        one = Pass(kind, chunk * ranks + rank, group * ranks + place)
        return (one,) if kind == "F" else (one, one._replace(kind="W"))

    found = []
    for r in range(ranks):
        ahead = min((ranks - r - 1) * 2 + (chunks - 1) * ranks, total)
        order = [unit(r, i, "F") for i in range(ahead)]
        for i in range(total - ahead):
            order += [unit(r, i + ahead, "F"), unit(r, i, "B")]
        order += [unit(r, i, "B") for i in range(total - ahead, total)]
        found.append(order)
    return found


def dualpipe(ranks: int, micro: int) -> list[Order]:
    """The eight steps of deepseek-ai/DualPipe, `dualpipe.py`."""
    return [_DualRank(rank, ranks, micro // 2).order for rank in range(ranks)]


class _DualRank:
    def __init__(self, rank: int, ranks: int, micro: int) -> None:
        self.order: Order = []
        self._rank, self._ranks = rank, ranks
        self._second = rank >= ranks // 2
        self._next = {(kind, way): 0 for kind in "FB" for way in (0, 1)}
        self._waiting: list[Pass] = []
        half, mine = ranks // 2, min(rank, ranks - 1 - rank)
        middle = mine == half - 1
        for _ in range((half - mine - 1) * 2):
            self._do(self._f(0))
        for _ in range(mine + 1):
            self._do(self._f(0))
            self._do(self._f(1))
        for _ in range(half - mine - 1):
            self._late(1)
            self._w()
            self._do(self._f(1))
        for i in range(micro - ranks + mine + 1):
            if i == 0 and middle:
                self._do(self._f(0))
                self._do(self._b(1))
            else:
                self._do(self._f(0) + self._b(1))
            self._do(self._f(1) + self._b(0))
        for _ in range(half - mine - 1):
            self._do(self._b(1))
            self._do(self._f(1) + self._b(0))
        late = False
        for i in range(mine + 1):
            late = late or (i == (mine + 1) // 2 and mine % 2 == 1)
            self._late(1) if late else self._do(self._b(1))
            late = late or (i == (mine + 1) // 2 and mine % 2 == 0)
            self._late(0) if late else self._do(self._b(0))
        for _ in range(half - mine - 1):
            self._w()
            self._late(0)
        while self._waiting:
            self._w()

    def _do(self, passes: tuple[Pass, ...]) -> None:
        self.order.append(passes)

    def _pass(self, kind: str, way: int) -> Pass:
        number = self._next[kind, way]
        self._next[kind, way] += 1
        way = way ^ self._second
        stage = self._rank if way == 0 else self._ranks - 1 - self._rank
        return Pass(kind, stage, number, way)

    def _f(self, way: int) -> tuple[Pass, ...]:
        return (self._pass("F", way),)

    def _b(self, way: int) -> tuple[Pass, ...]:
        one = self._pass("B", way)
        return (one, one._replace(kind="W"))

    def _late(self, way: int) -> None:
        one = self._pass("B", way)
        self._do((one,))
        self._waiting.append(one._replace(kind="W"))

    def _w(self) -> None:
        self._do((self._waiting.pop(0),))
