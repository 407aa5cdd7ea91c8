"""How much a step trains on: samples, tokens and parameters.

Holds `Batch` and `data_ranks`. Samples are the first dimension of what the outermost module is
called with, tokens its elements if they are whole numbers in rows. Ranks of tensor and context
parallelism and pipelines work on the same samples, all others on samples of their own.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, Final

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from syncwall.capture.traffic import tensors
from syncwall.work.operations import Collective
from syncwall.work.program import Call

_SAME_SAMPLES: Final = ("tp", "cp")
_ROWS: Final = 2
_WHOLE: Final = (torch.int64, torch.int32)


class Batch:
    """Counts what goes into the outermost module, from the first step on."""

    def __init__(self) -> None:
        self.samples = self.tokens = self.parameters = 0.0
        self._depth = 0
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        """Take the hooks out again."""
        for hook in self._hooks:
            hook.remove()

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

    def _enter(self, _: torch.nn.Module, inputs: Any) -> None:
        self._depth += 1
        if self._depth > 1 or torch._C._current_autograd_node() is not None:
            return
        by_name = sys._getframe(1).f_locals.get("kwargs")  # which hooks of all modules do not get
        first = next((one for one in tensors((inputs, by_name)) if one.ndim), None)
        if first is None:
            return
        self.samples += float(first.shape[0])
        if first.dtype in _WHOLE and first.ndim == _ROWS:
            self.tokens += float(first.numel())

    def _leave(self, *_: Any) -> None:
        self._depth = max(self._depth - 1, 0)


def data_ranks(calls: Iterable[Call], pipelines: int) -> float:
    """Ranks with samples of their own among the first stages of so many pipelines."""
    sizes: dict[str, float] = {}
    for call in calls:
        if isinstance(call.what, Collective) and call.what.axis in _SAME_SAMPLES:
            ranks = float(call.what.group.ranks)
            sizes[call.what.axis] = max(sizes.get(call.what.axis, 1.0), ranks)
    return pipelines / prod(sizes.values(), start=1.0)
