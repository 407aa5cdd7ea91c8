"""Running a training step on fake tensors and writing down what a rank would do.

Holds `recording`, a context in which PyTorch runs without a GPU and without other ranks,
and `Recording`, which becomes a `Program`. The second step is kept: the first one
allocates the optimizer's state, rebuilds buckets and works out shapes.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from syncwall.capture.batch import data_ranks
from syncwall.capture.devices import DeviceMode
from syncwall.capture.operations import OperationMode
from syncwall.capture.patching import applied
from syncwall.capture.places import Places
from syncwall.capture.shims import TABLES
from syncwall.capture.shims.parallel import padding
from syncwall.capture.state import State
from syncwall.capture.storages import Storages
from syncwall.capture.streams import Streams
from syncwall.capture.tape import Tape
from syncwall.capture.window import Mark, rank_program, window
from syncwall.problems import InputError
from syncwall.work.program import Program

_SUPPORTED = ("2.13",)


class Recorded(BaseException):
    """Two steps are complete; a script that was told to stop is left through this."""


class Recording:
    """What a program does, from the first operation on."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.stop_after = False
        """Leave the program through `Recorded` when its second step is complete."""
        self._marks: list[Mark] = []
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
        """The second step; InputError if there was none."""
        found = window(self._marks)
        if found is None:
            raise InputError.of(
                f"{len(self._marks)} optimizer steps were made: two are needed, the second is "
                "recorded"
            )
        state, (begin, end) = self.state, found
        rank = rank_program(state, begin, end)
        notes = (*state.tape.notes_between(begin.calls, end.calls), *padding(state))
        ranks = data_ranks(rank, state.world_size // max(len(state.pipeline), 1))
        return Program(
            state.world_size, (replace(rank, alike=state.world_size),), torch=torch.__version__,
            samples=(end.samples - begin.samples) * ranks,
            tokens=(end.tokens - begin.tokens) * ranks, parameters=state.batch.parameters,
            notes=notes, compiled=state.compiled,
        )  # fmt: skip

    def _after_optimizer(self, optimizer: object) -> None:
        if not self._explicit:
            self._mark(optimizer)

    def _mark(self, by: object) -> None:
        if self.is_complete:
            return
        state = self.state
        batch = state.batch
        self._marks.append(
            Mark(len(state.tape.calls), len(state.storages.events), id(by), batch.samples,
                 batch.tokens)
        )  # fmt: skip
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
    if not torch.__version__.startswith(_SUPPORTED):
        raise InputError.of(
            f"PyTorch {torch.__version__} is not supported for recording: install "
            f"{' or '.join(_SUPPORTED)}"
        )
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


def _state(world_size: int, rank: int, ranks_per_node: int) -> State:
    tape, places, storages = Tape(), Places(), Storages()
    streams = Streams(tape)
    mode = OperationMode(tape, places, storages, rank)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    state = State(world_size, rank, ranks_per_node, tape, places, storages, streams, fake, mode)
    streams.host_waits = state.host_waits
    return state
