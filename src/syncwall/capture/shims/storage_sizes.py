"""FSDP2 frees and takes the memory of unsharded parameters by resizing their storages."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """The recorder hears of each new size."""
    resize = need(torch.UntypedStorage, "resize_")

    def resize_(self: torch.UntypedStorage, size: int) -> Any:
        result = resize(self, size)
        state.storages.resized(self)
        return result

    with replaced(torch.UntypedStorage, resize_=resize_):
        yield
