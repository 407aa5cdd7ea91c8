"""The second step, cut out of all that was recorded.

Holds `Mark` (the end of an optimizer's step), `window` and `rank_program`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syncwall.capture.state import State
from syncwall.work.block import Phase
from syncwall.work.program import Call, RankProgram

_BACKWARD = (Phase.BACKWARD, Phase.RECOMPUTE)


@dataclass(frozen=True)
class Mark:
    """How much was recorded when an optimizer had made its step."""

    calls: int
    events: int
    by: int
    """Which optimizer it was."""
    samples: float = 0.0
    tokens: float = 0.0


def window(marks: Sequence[Mark]) -> tuple[Mark, Mark] | None:
    """Begin and end of the second step; None while it is not complete.

    A step with several optimizers ends with the last one before the first comes again.
    """
    again = next((i for i, mark in enumerate(marks[1:], 1) if mark.by == marks[0].by), None)
    if again is None or len(marks) < 2 * again:
        return None
    return marks[again - 1], marks[2 * again - 1]


def rank_program(state: State, begin: Mark, end: Mark) -> RankProgram:
    """What was recorded between two marks."""
    calls = _finished(state.tape.calls[begin.calls : end.calls])
    numbers = {
        number: i for i, number in enumerate(
            dict.fromkeys(n for call in calls for n in (*call.reads, *call.writes))
        )
    }  # fmt: skip
    outlive = state.storages.alive_at(begin.events) | state.storages.alive_at(end.events)
    kept = (outlive | _saved(calls)) & numbers.keys()
    return RankProgram(
        state.rank, 1, tuple(_renumbered(call, begin.calls, numbers) for call in calls),
        tuple(state.storages.bytes[number] for number in numbers),
        state.storages.held(begin.events, end.events),
        frozenset(numbers[number] for number in kept),
        tuple((numbers[number], unit) for number, unit in state.buffers.items()
              if number in numbers),
    )  # fmt: skip


def _finished(calls: list[Call]) -> list[Call]:
    """What comes after the last backward pass belongs to the end of the step."""
    last = max((i for i, call in enumerate(calls) if call.phase in _BACKWARD), default=-1)
    return [
        replace(call, phase=Phase.FINISH) if i > last >= 0 else call for i, call in enumerate(calls)
    ]


def _saved(calls: list[Call]) -> set[int]:
    """Tensors that the forward pass writes and the backward pass reads."""
    written = {n for call in calls if call.phase is Phase.FORWARD for n in call.writes}
    return written & {n for call in calls if call.phase in _BACKWARD for n in call.reads}


def _renumbered(call: Call, first: int, numbers: dict[int, int]) -> Call:
    """With calls and tensors counted from the start of the step."""
    return replace(
        call,
        after=tuple(number - first for number in call.after if number >= first),
        reads=tuple(numbers[number] for number in call.reads),
        writes=tuple(numbers[number] for number in call.writes),
    )
