"""A program that starts its ranks by itself would have them do the work that is to be recorded."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import multiprocessing

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(_: State) -> Iterator[None]:
    """`spawn` is refused."""
    need(multiprocessing, "spawn")

    def spawn(*_: Any, **__: Any) -> None:
        raise RuntimeError(
            "torch.multiprocessing.spawn starts ranks: write the script as torchrun starts it, one "
            "process a rank, with RANK and WORLD_SIZE from the environment"
        )

    with replaced(multiprocessing, spawn=spawn):
        yield
