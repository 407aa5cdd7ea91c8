"""What hooks on modules tell: where a call comes from, and how much a step trains on.

Holds `Places` (phase, module and source line; in the backward pass a call belongs to the module and
the line of the forward call whose autograd node runs), `Batch` and `data_ranks`. Samples are the
first dimension of what the model that is trained is called with, tokens its elements if they are
whole numbers in rows. Ranks of tensor and context parallelism and pipelines work on the same samples, all
others on samples of their own.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from syncwall.capture.kernels import tensors
from syncwall.capture.user_program import shown_file
from syncwall.problems import InputError
from syncwall.work.block import StepPhase
from syncwall.work.operations import Collective, CoreAttention
from syncwall.work.program import NOWHERE, Call, SourceLocation

_ACCUMULATES = "torch::autograd::AccumulateGrad"


class Places:
    """Follows modules and autograd nodes."""

    def __init__(self) -> None:
        self.chunk: int | None = None
        """The micro batch that a pipeline's schedule works on."""
        self.steps = 0
        """Ends of steps so far."""
        self._passes = 0
        self.finishing = 0
        """More than 0 inside of an optimizer."""
        self.backward = 0
        """More than 0 while autograd's engine runs."""
        self._names: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()
        self._stack: list[tuple[torch.nn.Module, bool]] = []
        self._forward: dict[int, SourceLocation] = {}
        self._last = NOWHERE
        self._had_backward = False
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        """Take the hooks out again."""
        for hook in self._hooks:
            hook.remove()

    def now(self) -> tuple[StepPhase, SourceLocation]:
        """Phase and place of a call that is issued now."""
        if self.finishing:
            return StepPhase.FINISH, SourceLocation("", _source())
        if not self.backward:
            return StepPhase.FORWARD, self._here()
        self._had_backward = True
        node = torch._C._current_autograd_node()
        if self._stack and self._stack[-1][1]:
            return StepPhase.RECOMPUTE, self._here()
        if node is not None and torch.is_grad_enabled():
            return StepPhase.RECOMPUTE, self._here()
        if node is not None and node.name() != _ACCUMULATES:
            self._last = self._forward.get(node._sequence_nr(), self._last)
        return StepPhase.BACKWARD, self._last

    def node(self) -> int:
        """Number of the autograd node: of the one made now, in backward of the one that runs."""
        node = torch._C._current_autograd_node()
        if node is None or (self._stack and self._stack[-1][1]):
            return int(torch.autograd._get_sequence_nr() - 1)
        return int(node._sequence_nr())

    @property
    def micro_batch(self) -> int:
        """Which one of the step it is; of gradient accumulation, backward passes are counted."""
        return self._passes if self.chunk is None else self.chunk

    def new_step(self) -> None:
        """Micro batches are counted from 0 again."""
        self.steps += 1
        self._passes = 0
        self._had_backward = False

    def name(self, module: torch.nn.Module) -> str:
        """As `named_modules` of the outermost module has it."""
        return self._names.get(module, "")

    def owners(self) -> dict[int, str]:
        """The module of each parameter, by the parameter's identity."""
        return {
            id(parameter): name
            for module, name in self._names.items()
            for parameter in module._parameters.values()
        }

    def _here(self) -> SourceLocation:
        """Of a call of the forward pass; its autograd node is remembered with it."""
        place = SourceLocation(self._module(), _source())
        self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, place)
        return place

    def _module(self) -> str:
        return self._names.get(self._stack[-1][0], "") if self._stack else ""

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        in_backward = self.backward > 0
        if module not in self._names:
            prefix = self._module()
            for name, part in module.named_modules(prefix=prefix):
                self._names.setdefault(part, name)
        if not in_backward and not self._stack and self._had_backward:
            self._had_backward = False
            self._passes += 1
        self._stack.append((module, in_backward))

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        while self._stack:
            if self._stack.pop()[0] is module:
                return


def _source() -> str:
    """The innermost line that is neither PyTorch's, nor ours, nor of an installed package."""
    frame = sys._getframe(3)
    while frame is not None:
        name = _shown(frame.f_code.co_filename)
        if name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


@cache
def _shown(file: str) -> str:
    """A file of the user's from here on, or its name alone: recordings are handed on."""
    path = Path(shown_file(file))
    return path.name if path.is_absolute() else str(path) if path.name else ""


_SAME_SAMPLES: Final = ("tp", "cp")
_METRIC_BYTES: Final = 64
_ROWS: Final = 2
_WHOLE: Final = (torch.int64, torch.int32)


@dataclass(frozen=True)
class ModelInput:
    """What an outermost module was called with."""

    module: torch.nn.Module
    micro_batch: int
    shape: tuple[int, ...]
    is_whole: bool

    @property
    def trained(self) -> int:
        """Parameters that learn from it."""
        return sum(one.numel() for one in self.module.parameters() if one.requires_grad)


class Batch:
    """Remembers what goes into outermost modules, from the first step on."""

    def __init__(self, micro_batch: Callable[[], int], recorded: Callable[[], tuple[int, int]]) -> None:
        self.parameters = 0.0
        self.begun: tuple[int, int] | None = None
        """What `recorded` said when a model was called first."""
        self._recorded = recorded
        self.inputs: list[ModelInput] = []
        self._micro_batch = micro_batch
        self._depth = 0
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        """Take the hooks out again."""
        for hook in self._hooks:
            hook.remove()

    @property
    def is_inside(self) -> bool:
        """A module is being called."""
        return self._depth > 0

    @contextmanager
    def not_counted(self) -> Iterator[None]:
        """What goes into modules meanwhile are no samples, but what others made of them."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def trains(self, parameters: Iterable[torch.Tensor]) -> None:
        """An optimizer has these parameters; of several, the one with the most counts."""
        self.parameters = max(self.parameters, float(sum(one.numel() for one in parameters)))

    def samples_and_tokens(self, begin: int, end: int, calls: Iterable[Call]) -> tuple[float, float]:
        """Of the inputs `begin` to `end`: those of the model that is trained, one a micro batch.

        Whole numbers in rows are tokens; so is a single row that attention takes as
        one sequence. Losses, frozen encoders and second calls with the same samples are no further ones.
        InputError if the model was given nothing.
        """
        given = self.inputs[begin:end]
        most = max((one.trained for one in given), default=0)
        model = next((one.module for one in given if one.trained == most), None)
        first: dict[int, ModelInput] = {}
        for one in given:
            if one.module is model:
                first.setdefault(one.micro_batch, one)
        empty = next((one for one in first.values() if not prod(one.shape)), None)
        if empty is not None:
            raise InputError.of(
                f"{type(empty.module).__name__} was called with an empty batch of shape {empty.shape}: "
                "its size comes from values that a recording does not have; make the batch of random "
                "numbers, or with numpy"
            )
        lengths = {call.what.q_len for call in calls if isinstance(call.what, CoreAttention)}
        whole = [one.shape for one in first.values() if one.is_whole]
        rows = [(1, *row) if len(row) == 1 and row[0] in lengths else row for row in whole]
        samples = sum(one.shape[0] for one in first.values() if not one.is_whole) + sum(
            row[0] for row in rows
        )
        return float(samples), float(sum(prod(row) for row in rows if len(row) == _ROWS))

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        self._depth += 1
        if self._depth > 1 or torch._C._current_autograd_node() is not None or not torch.is_grad_enabled():
            return
        by_name = sys._getframe(1).f_locals.get("kwargs")  # which hooks of all modules do not get
        first = _batch([one for one in tensors((inputs, by_name)) if one.ndim])
        if first is not None:
            self.begun = self.begun or self._recorded()
            is_whole = first.dtype in _WHOLE
            self.inputs.append(ModelInput(module, self._micro_batch(), tuple(first.shape), is_whole))

    def _leave(self, *_: Any) -> None:
        self._depth = max(self._depth - 1, 0)


def _batch(given: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The first tensor, unless that has a number a sample, as labels, and a later one has a row."""
    if not given:
        return None
    first = given[0]
    rows = (one for one in given if one.ndim > 1 and one.shape[0] == first.shape[0])
    return next(rows, first) if first.ndim == 1 else first


def data_ranks(calls: Iterable[Call], pipelines: int) -> float:
    """Ranks with samples of their own among the first stages of so many pipelines.

    A group without a name that modules exchange activations in, as DTensor does, is one of tensor
    parallelism.
    """
    sizes: dict[str, float] = {}
    for call in calls:
        if not isinstance(call.what, Collective):
            continue
        sent, axis = call.what, call.what.axis
        if axis in _SAME_SAMPLES or (axis == "other" and _moves_activations(call, sent)):
            sizes[axis] = max(sizes.get(axis, 1.0), float(sent.group.ranks))
    return pipelines / prod(sizes.values(), start=1.0)


def _moves_activations(call: Call, sent: Collective) -> bool:
    """As DTensor does; single numbers are metrics."""
    is_functional = call.name.startswith("_c10d_functional")
    return is_functional and call.phase is StepPhase.FORWARD and bool(sent.bytes > _METRIC_BYTES)
