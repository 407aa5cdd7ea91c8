"""`copy.deepcopy` of a tensor gives its copy the storage of a real one, which no fake tensor takes.

Copies of weights (an average of them) and of the states of metrics are made in this way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import FakeTensor

from syncwall.capture.shims.data_loaders import real
from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(_: State) -> Iterator[None]:
    """A fake tensor is cloned, a real one copied for real."""
    copied = need(torch.Tensor, "__deepcopy__")

    def __deepcopy__(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:  # noqa: N807
        if id(self) not in memo and isinstance(self, FakeTensor) and self.is_leaf:
            memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        with real():
            found: torch.Tensor = copied(self, memo)  # whatever is in `memo` already
        return found

    with replaced(torch.Tensor, __deepcopy__=__deepcopy__):
        yield
