"""Repeated stretches of a recorded program: the layers of a model, its micro batches.

Holds `folded`, which cuts a list of calls into `FoldedBlock`s, and `task_value`, by which two tasks
are the same. Calls repeat if name, task, stream, phase and waits do; module, source line and
tensors may differ from round to round.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.work.block import AnyTask
from syncwall.work.operations import Collective, Transfer
from syncwall.work.program import Call

_LEAST_SAVED: Final = 16
"""Calls that a repetition must save: shorter ones only cut a list into crumbs."""
_MOST_PERIODS: Final = 128


@dataclass(frozen=True, slots=True)
class FoldedBlock:
    """`length` calls from number `start` on, `rounds` times one after the other."""

    start: int
    length: int
    rounds: int = 1

    @property
    def end(self) -> int:
        """The number of the first call behind it."""
        return self.start + self.length * self.rounds


def folded(calls: Sequence[Call]) -> tuple[FoldedBlock, ...]:
    """Blocks that together are all calls, in their order; what repeats nothing has one round.

    The repetition that saves most calls is taken first, then that before and behind it.
    """
    numbers: dict[Hashable, int] = {}
    keys = np.array(
        [numbers.setdefault(_key(call, at), len(numbers)) for at, call in enumerate(calls)], int
    )
    found, todo = [], [(0, len(calls))] if calls else []
    while todo:
        start, end = todo.pop()
        best = _best(keys[start:end], start)
        if best is None:
            found.append(FoldedBlock(start, end - start))
            continue
        found.append(best)
        todo += [part for part in ((start, best.start), (best.end, end)) if part[0] < part[1]]
    return tuple(sorted(found, key=lambda block: block.start))


def task_value(task: AnyTask | None) -> Hashable:
    """What is equal for equal tasks; a `Group` is equal to itself alone."""
    if not isinstance(task, Collective | Transfer):
        return task
    group = task.group
    rest = tuple(getattr(task, one.name) for one in fields(task) if one.name != "group")
    return type(task), rest, group.axis, group.ranks, group.stride


def _key(call: Call, at: int) -> Hashable:
    waits = tuple(at - other for other in call.after)
    return call.name, task_value(call.what), call.stream, call.phase, call.host_waits, waits


def _best(keys: NDArray[Any], start: int) -> FoldedBlock | None:
    """The repetition within `keys` that saves most calls; None if none saves enough."""
    best, most = None, _LEAST_SAVED - 1
    for period in _periods(keys):
        if len(keys) - period <= most:
            continue
        at, run = _longest_run(keys[period:] == keys[:-period])
        rounds = run // period + 1
        if (rounds - 1) * period > most:
            best, most = FoldedBlock(start + at, period, rounds), (rounds - 1) * period
    return best


def _periods(keys: NDArray[Any]) -> list[int]:
    """Distances from a call to the next of its kind: the most frequent ones, short ones first.

    What a layer does once comes again after just one period.
    """
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    counted = Counter(np.diff(order)[again].tolist())
    return sorted(period for period, _ in counted.most_common(_MOST_PERIODS))


def _longest_run(same: NDArray[Any]) -> tuple[int, int]:
    """Where the longest run of True begins, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    at = int(np.argmax(lengths))
    return int(edges[2 * at]), int(lengths[at])
