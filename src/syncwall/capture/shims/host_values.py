"""Values that only real data would give: `.item()`, `bool(tensor)`, `nonzero`.

The host would wait for the device to know them. It gets a placeholder, and the wait is noted.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State

_USUALLY_TRUE: Final = ("aten::all", "aten::isfinite", "aten::eq", "aten::mul")
"""What makes a truth value that usual runs find true: everything is finite (a
product of two truths), nothing overflows."""
_USUALLY_ZERO: Final = "aten::_amp_foreach_non_finite_check_and_unscale_"


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Placeholders wherever the recorder's mode meets a question about values."""
    listed = need(FakeTensor, "tolist")

    def tolist(self: FakeTensor) -> Any:
        if self.constant is not None:
            return listed(self)
        return self.numpy().tolist()

    with replaced(state.mode, answers=_Answers(state)), replaced(FakeTensor, tolist=tolist):
        yield


class _Answers:
    """Called with each operation before it runs; NotImplemented lets it run."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.values: dict[int, float] = {}
        self.known: dict[str, Callable[..., Any]] = {
            "aten::_local_scalar_dense": self._item,
            "aten::allclose": lambda *_, **__: self._waited("aten.allclose", True),
            "aten::equal": lambda *_: self._waited("aten.equal", True),
            "aten::is_nonzero": lambda *_: self._waited("aten.is_nonzero", True),
            "aten::nonzero": self._nonzero,
            "aten::masked_select": self._masked_select,
            "aten::_unique2": self._unique,
            "aten::unique_dim": self._unique,
            "aten::unique_consecutive": self._unique,
            "aten::repeat_interleave": self._repeat_interleave,
            "aten::bincount": self._bincount,
        }

    def __call__(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name
        answer = self.known.get(name)
        if answer is not None:
            return answer(*args, **kwargs)
        if name == _USUALLY_ZERO and isinstance(args[1], FakeTensor):
            self.values[self.state.storages.number(args[1])] = 0.0
        if name == "aten::index" and any(_is_mask(x) for x in args[1] if x is not None):
            return self._index(func, args)
        return NotImplemented

    def _item(self, tensor: torch.Tensor) -> Any:
        if not isinstance(tensor, FakeTensor) or tensor.constant is not None:
            return NotImplemented
        number = self.state.storages.number(tensor)
        value = self.values.get(number, 1.0)
        if number not in self.state.storages.host and not self.state.places.finishing:
            self._waited("Tensor.item", value)
        if tensor.dtype == torch.bool:
            return self.state.mode.truths.get(number) in _USUALLY_TRUE
        return value if tensor.dtype.is_floating_point else int(value)

    def _waited(self, name: str, value: Any) -> Any:
        """The host waits for what it asks about."""
        self.state.host_waits(name, self.state.tape.queued())
        self.state.made_up(name)
        return value

    def _nonzero(self, tensor: torch.Tensor) -> torch.Tensor:
        self._waited("aten.nonzero", None)
        return tensor.new_empty((tensor.numel(), tensor.dim()), dtype=torch.int64)

    def _masked_select(self, tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        self._waited("aten.masked_select", None)
        return tensor.new_empty((torch.broadcast_shapes(tensor.shape, mask.shape).numel(),))

    def _unique(self, tensor: torch.Tensor, *_: object, **__: object) -> Any:
        self._waited("aten.unique", None)
        counts = tensor.new_empty((tensor.numel(),), dtype=torch.int64)
        return tensor.new_empty((tensor.numel(),)), tensor.new_empty(
            tensor.shape, dtype=torch.int64
        ), counts  # fmt: skip

    def _repeat_interleave(self, repeats: torch.Tensor, output_size: int | None = None) -> Any:
        if output_size is not None or repeats.numel() == 0:
            return NotImplemented
        self._waited("aten.repeat_interleave", None)
        return repeats.new_empty((repeats.numel(),), dtype=torch.int64)

    def _bincount(self, tensor: torch.Tensor, weights: Any = None, minlength: int = 0) -> Any:
        self._waited("aten.bincount", None)
        return tensor.new_empty((max(minlength, 1),), dtype=torch.int64)

    def _index(self, func: Any, args: Any) -> Any:
        """A mask picks all: nobody knows how many it would pick."""
        self._waited("aten.index with a mask", None)
        tensor, indices = args
        new: list[torch.Tensor | None] = []
        for index in indices:
            if index is None:
                new.append(None)
            elif _is_mask(index):
                picked = tensor.new_empty((index.numel(),), dtype=torch.int64)
                new.extend([picked] * index.dim())
            else:
                new.append(index)
        return func(tensor, new)


def _is_mask(index: torch.Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)
