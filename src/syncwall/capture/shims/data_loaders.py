"""Data are loaded for real: samplers and data sets read thousands of values from small tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any

from torch._subclasses import FakeTensor
from torch.overrides import _len_torch_function_stack, _pop_mode_temporarily
from torch.utils import data
from torch.utils._python_dispatch import _disable_current_modes

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State
from syncwall.capture.traffic import tensors

_OF_WORKERS = (
    "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "timeout",
    "multiprocessing_context", "worker_init_fn",
)  # fmt: skip


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Iterating over a loader leaves the fake mode; workers and pinned memory are not needed."""
    loader = need(data, "DataLoader")
    made = need(loader, "__init__")
    iterates = need(loader, "__iter__")

    takes = signature(made)

    @wraps(made)  # Lightning makes loaders anew, with the arguments that it finds there
    def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = takes.bind(*args, **kwargs)
        for name in _OF_WORKERS:
            given.arguments.pop(name, None)
        with real():
            made(*given.args, **given.kwargs)

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        with real():
            batches = iterates(self)
        while True:
            try:
                with real():
                    batch = next(batches)
            except StopIteration:
                return
            for tensor in tensors(batch):
                if isinstance(tensor, FakeTensor):  # of a data set made while recording
                    state.storages.host.add(state.storages.number(tensor))
            yield batch

    with replaced(loader, __init__=__init__, __iter__=__iter__):
        yield


@contextmanager
def real() -> Iterator[None]:
    """Outside of all modes."""
    with _disable_current_modes():
        if _len_torch_function_stack():
            with _pop_mode_temporarily():
                yield
        else:
            yield
