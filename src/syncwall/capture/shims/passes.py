"""Backward passes: what runs at the end of one, outside of all autograd nodes, belongs to it.

`Tensor.backward` is called with the mode that translates devices off: hooks need it on again.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch.autograd import graph
from torch.overrides import _get_current_function_mode_stack

from syncwall.capture.shims.patch import everywhere, need, replaced
from syncwall.capture.state import State


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """The recorder knows when the engine runs."""
    run = need(graph, "_engine_run_backward")

    def runs(*args: Any, **kwargs: Any) -> Any:
        state.places.backward += 1
        try:
            with replaced(state.mode, makes_on_host=False), _on(state):
                return run(*args, **kwargs)
        finally:
            state.places.backward -= 1

    with everywhere({run: runs}):
        yield


def _on(state: State) -> AbstractContextManager[Any]:
    """The mode that translates devices, unless it is on."""
    is_on = state.devices in _get_current_function_mode_stack()
    return nullcontext() if is_on or state.devices is None else state.devices
