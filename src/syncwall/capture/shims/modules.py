"""`Module.to` swaps fake parameters for others, and refuses to if anything weakly refers to them.

Fake tensors are referred to by their own mode: what they hold is swapped without asking.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(_: State) -> Iterator[None]:
    """Weak references do not stop a swap."""
    swap = need(torch.utils, "swap_tensors")
    need(torch._C, "_swap_tensor_impl")

    def swap_anyway(first: torch.Tensor, second: torch.Tensor) -> None:
        try:
            swap(first, second)
        except RuntimeError:
            first.__class__, second.__class__ = second.__class__, first.__class__
            first.__dict__, second.__dict__ = second.__dict__, first.__dict__
            torch._C._swap_tensor_impl(first, second)

    with replaced(torch.utils, swap_tensors=swap_anyway):
        yield
