"""Recording from Python: a function that does one training step, or the lines of a `with`.

Holds `capture`, `capturing` and `torch_or_advice`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from syncwall.problems import InputError
from syncwall.work.program import Program

if TYPE_CHECKING:
    from syncwall.capture.recorder import Recording

_STEPS = 2
"""Calls of a function; the first makes the optimizer's states, the second is recorded."""


def torch_or_advice() -> None:
    """InputError, with what to type, if PyTorch is not installed."""
    if find_spec("torch") is None:
        raise InputError.of('PyTorch is not installed: pip install "torch>=2.8,<2.16"')


def capture(step_fn: Callable[[], Any], *, world_size: int, rank: int = 0) -> Program:
    """One training step as rank `rank` of a job of `world_size` does it, without a GPU.

    `step_fn` does a whole step, its optimizer's included. It is called twice, and the second call
    is recorded. What it makes at its first call is made under the recording, as FSDP2 and DDP
    have to be: build the model in there, or use `capturing`.

    Example:
        >>> import syncwall as sw
        >>> def train_step() -> None: ...
        >>> program = sw.capture(train_step, world_size=1024)  # doctest: +SKIP
    """
    with capturing(world_size=world_size, rank=rank) as recording:
        for _ in range(_STEPS):
            step_fn()
    return recording.program()


@contextmanager
def capturing(*, world_size: int, rank: int = 0) -> "Iterator[Recording]":
    """Records what is done inside: build the model, train two steps, then ask for `.program()`.

    Tensors made inside have no data and take no memory, whatever their size.

    Example:
        >>> import syncwall as sw
        >>> def train(steps: int) -> None: ...
        >>> with sw.capturing(world_size=1024) as recording:  # doctest: +SKIP
        ...     train(steps=2)
        >>> program = recording.program()  # doctest: +SKIP
    """
    torch_or_advice()
    from syncwall.capture.recorder import recording

    with recording(world_size, rank=rank) as found:
        yield found
