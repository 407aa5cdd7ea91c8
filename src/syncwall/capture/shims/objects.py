"""Python objects that ranks send each other: every rank is taken to send what this one sends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed import distributed_c10d as c10d

from syncwall.capture.shims.patch import everywhere, need
from syncwall.capture.state import State


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """The host waits, and each rank gets its own object back."""

    def waits(name: str) -> None:
        state.host_waits(name, state.tape.everything())

    def all_gather_object(object_list: list[Any], obj: Any, *_: Any, **__: Any) -> None:
        waits("all_gather_object")
        object_list[:] = [obj] * len(object_list)

    def gather_object(obj: Any, object_gather_list: Any = None, *_: Any, **__: Any) -> None:
        waits("gather_object")
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def broadcast_object_list(*_: Any, **__: Any) -> None:
        waits("broadcast_object_list")

    functions: dict[Callable[..., Any], Callable[..., Any]] = {
        need(c10d, "all_gather_object"): all_gather_object,
        need(c10d, "gather_object"): gather_object,
        need(c10d, "broadcast_object_list"): broadcast_object_list,
    }
    with everywhere(functions):
        yield
