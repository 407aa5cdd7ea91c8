"""`torch.compile` leaves functions as they are: the recorder sees their operations one by one.

That the program asked for it is remembered: what would be fused is for the price to say.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Nothing is compiled."""
    need(torch, "compile")

    def compiles(model: Any = None, **_: Any) -> Any:
        state.compiled = True
        return model if model is not None else lambda function: function

    def compiles_module(self: torch.nn.Module, *_: Any, **__: Any) -> None:
        state.compiled = True

    with (
        replaced(torch, compile=compiles),
        replaced(torch.nn.Module, compile=compiles_module),
        torch.compiler.set_stance("force_eager"),
    ):
        yield
