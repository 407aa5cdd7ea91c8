"""Running a training step on fake tensors and writing down what a rank would do.

Holds `recording`, a context in which PyTorch runs without a GPU and without other ranks, and
`Recording`, which becomes a `Program`. The second step is kept: the first one allocates the
optimizer's state, rebuilds buckets and works out shapes; it is taken of programs that make no other.
`StepMark` (the end of an optimizer's step), `window` and `rank_program` cut it out of all that was
recorded.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from syncwall.capture.fake_devices import DeviceMode
from syncwall.capture.patching import applied
from syncwall.capture.places import Batch, Places, data_ranks
from syncwall.capture.recorded_operations import OperationMode
from syncwall.capture.shims import TABLES
from syncwall.capture.shims.parallel import padding
from syncwall.capture.state import RecordingState
from syncwall.capture.storages import Storages
from syncwall.capture.tape import Tape, TapeStreams
from syncwall.capture.versions import supported_or_advice
from syncwall.problems import InputError
from syncwall.work.block import StepPhase
from syncwall.work.program import Call, NoteKind, Program, RankProgram

_BACKWARD = (StepPhase.BACKWARD, StepPhase.RECOMPUTE)


@dataclass(frozen=True)
class StepMark:
    """How much was recorded when an optimizer had made its step."""

    calls: int
    events: int
    by: int
    """Which optimizer it was."""
    inputs: int = 0
    """What models had been called with."""


def window(marks: Sequence[StepMark]) -> tuple[StepMark, StepMark] | None:
    """Begin and end of the second step; None while it is not complete.

    A step with several optimizers ends with the last one before the first comes again.
    """
    again = next((i for i, mark in enumerate(marks[1:], 1) if mark.by == marks[0].by), None)
    if again is None or len(marks) < 2 * again:
        return None
    return marks[again - 1], marks[2 * again - 1]


def rank_program(state: RecordingState, begin: StepMark, end: StepMark) -> RankProgram:
    """What was recorded between two marks."""
    calls = _finished(state.tape.calls[begin.calls : end.calls])
    numbers = {
        number: i
        for i, number in enumerate(dict.fromkeys(n for call in calls for n in (*call.reads, *call.writes)))
    }
    outlive = state.storages.alive_at(begin.events) | state.storages.alive_at(end.events)
    kept = (outlive | _saved(calls)) & numbers.keys()
    return RankProgram(
        state.rank,
        1,
        tuple(_renumbered(call, begin.calls, numbers) for call in calls),
        tuple(state.storages.bytes[number] for number in numbers),
        state.storages.held(begin.events, end.events),
        frozenset(numbers[number] for number in kept),
        tuple((numbers[number], unit) for number, unit in state.buffers.items() if number in numbers),
    )


def _finished(calls: list[Call]) -> list[Call]:
    """What comes after the last backward pass belongs to the end of the step."""
    last = max((i for i, call in enumerate(calls) if call.phase in _BACKWARD), default=-1)
    return [replace(call, phase=StepPhase.FINISH) if i > last >= 0 else call for i, call in enumerate(calls)]


def _saved(calls: list[Call]) -> set[int]:
    """Tensors that the forward pass writes and the backward pass reads."""
    written = {n for call in calls if call.phase is StepPhase.FORWARD for n in call.writes}
    return written & {n for call in calls if call.phase in _BACKWARD for n in call.reads}


def _renumbered(call: Call, first: int, numbers: dict[int, int]) -> Call:
    """With calls and tensors counted from the start of the step."""
    return replace(
        call,
        after=tuple(number - first for number in call.after if number >= first),
        reads=tuple(numbers[number] for number in call.reads),
        writes=tuple(numbers[number] for number in call.writes),
    )


_ONLY = "a second step: this first one makes what others only use, such as optimizer states"


class Recorded(BaseException):
    """Two steps are complete; a script that was told to stop is left through this."""


class Recording:
    """What a program does, from the first operation on."""

    def __init__(self, state: RecordingState) -> None:
        self.state = state
        self.stop_after = False
        """Leave the program through `Recorded` when its second step is complete."""
        self._marks: list[StepMark] = []
        self._explicit = False

    @property
    def compiled(self) -> bool:
        """Whether the program asks for `torch.compile`."""
        return self.state.compiled

    @property
    def is_complete(self) -> bool:
        """Whether two steps have ended."""
        return window(self._marks) is not None

    @property
    def pipeline_ranks(self) -> tuple[int, ...]:
        """Ranks of the pipeline that this one belongs to, in the order of stages; else empty."""
        return self.state.pipeline

    def step(self) -> None:
        """Mark the end of a step; optimizers do so by themselves."""
        if not self._explicit:
            self._marks.clear()
        self._explicit = True
        self._mark(None)

    def program(self) -> Program:
        """The second step, or the only one from its first model on; InputError if there was none."""
        found = window(self._marks) or self._only_step()
        if found is None:
            raise InputError.of(
                f"{len(self._marks)} optimizer steps were made: two are needed, the second is recorded"
            )
        state, (begin, end) = self.state, found
        rank = rank_program(state, begin, end)
        notes = (*state.tape.notes_between(begin.calls, end.calls), *padding(state))
        samples, tokens = state.batch.samples_and_tokens(begin.inputs, end.inputs, rank)
        ranks = data_ranks(rank, state.world_size // max(len(state.pipeline), 1))
        return Program(
            state.world_size,
            (replace(rank, alike=state.world_size),),
            torch=torch.__version__,
            samples=samples * ranks,
            tokens=tokens * ranks,
            parameters=state.batch.parameters,
            notes=notes,
            compiled=state.compiled,
        )

    def _only_step(self) -> tuple[StepMark, StepMark] | None:
        """Of a program that makes one step and ends, as examples do."""
        begun = self.state.batch.begun
        if len(self._marks) != 1 or begun is None:
            return None
        (end,) = self._marks
        self.state.tape.note(NoteKind.NOT_RECORDED, _ONLY)
        return StepMark(*begun, end.by), end

    def _after_optimizer(self, optimizer: object) -> None:
        if not self._explicit:
            self._mark(optimizer)

    def _mark(self, by: object) -> None:
        if self.is_complete:
            return
        state = self.state
        self._marks.append(
            StepMark(len(state.tape.calls), len(state.storages.events), id(by), len(state.batch.inputs))
        )
        state.places.new_step()
        if self.is_complete:
            state.tape.pauses += 1
            if self.stop_after:
                raise Recorded


@contextmanager
def recording(
    world_size: int,
    *,
    rank: int = 0,
    ranks_per_node: int = 8,
    handed_on: Mapping[int, Any] = MappingProxyType({}),
) -> Iterator[Recording]:
    """Record what `rank` of `world_size` does; PyTorch is as it was afterwards.

    The program finds what torchrun would set for that rank, with so many ranks on each node.
    `handed_on` has the tensors that pipeline stages send, as recordings of other ranks found them.
    """
    supported_or_advice()
    state = _state(world_size, rank, ranks_per_node)
    state.handed_on.update(handed_on)
    result = Recording(state)
    state.after_step = result._after_optimizer
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        stack.callback(state.places.close)
        stack.callback(state.batch.close)
        stack.callback(state.storages.close)
        stack.enter_context(applied(TABLES, state))
        stack.enter_context(state.fake)
        stack.enter_context(state.mode)
        state.devices = stack.enter_context(DeviceMode(state))
        yield result


def _state(world_size: int, rank: int, ranks_per_node: int) -> RecordingState:
    tape, places, storages = Tape(), Places(), Storages()
    streams = TapeStreams(tape)
    mode = OperationMode(tape, places, storages, rank)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    batch = Batch(lambda: places.micro_batch, lambda: (len(tape.calls), len(storages.events)))
    told = world_size, rank, ranks_per_node
    state = RecordingState(*told, tape, places, storages, streams, fake, mode, batch)
    streams.host_waits = state.host_waits
    return state
