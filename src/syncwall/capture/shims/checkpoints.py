"""Tensors without data cannot be saved: checkpoints are left out, and noted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed import checkpoint

from syncwall.capture.shims.patch import everywhere, need
from syncwall.capture.state import State
from syncwall.work.program import NoteKind


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Saving does nothing, whoever saves."""

    def instead(name: str) -> Callable[..., None]:
        def save(*_: Any, **__: Any) -> None:
            if not state.tape.pauses:
                state.tape.note(NoteKind.NOT_RECORDED, name, state.places.now()[1])

        return save

    saves = {
        need(torch, "save"): instead("torch.save"),
        need(checkpoint, "save"): instead("torch.distributed.checkpoint.save"),
        need(checkpoint, "async_save"): instead("torch.distributed.checkpoint.async_save"),
    }
    with everywhere(saves):
        yield
