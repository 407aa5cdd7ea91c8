"""What is known of values that choose among experts, without knowing the values.

Holds `Routing` and `local`. Which expert a token takes is one of E (`topk`, `argmax`); a mask of one
expert (`one_hot`, `==`, `scatter_`) is true in one of E places. Tokens are taken to be routed evenly:
every expert gets its share, not all of them.
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from syncwall.capture.storages import Storages


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What a rank itself holds of a tensor."""
    while hasattr(tensor, "_local_tensor"):
        tensor = tensor._local_tensor
    return getattr(tensor, "elem", tensor)


class Routing:
    """Shares and counts, by the storage that has them."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._choices: dict[int, int] = {}
        self._shares: dict[int, float] = {}
        self._values: dict[int, float] = {}
        self.notices: dict[Any, Callable[..., None]] = {
            **dict.fromkeys((torch.topk, torch.Tensor.topk), self._topk),
            **dict.fromkeys((torch.argmax, torch.Tensor.argmax), self._argmax),
            torch.nn.functional.one_hot: self._one_hot,
            **dict.fromkeys((torch.eq, torch.Tensor.eq, torch.Tensor.__eq__), self._equal),
            **dict.fromkeys((torch.sum, torch.Tensor.sum), self._sum),
            **dict.fromkeys((torch.bincount, torch.Tensor.bincount), self._counts),
            **dict.fromkeys((torch.histc, torch.Tensor.histc), self._counts),
            torch.Tensor.scatter_: self._scatter,
            **dict.fromkeys(_KEEP, self._inherit),
        }
        """Functions after which more is known; called with what they made and what they were given."""

    def choices(self, tensor: Any) -> int | None:
        """Of how many an element is one; None if it chooses nothing."""
        return self._choices.get(self._number(tensor))

    def share(self, tensor: Any) -> float | None:
        """Of elements that are true, or 1; None if nobody knows."""
        return self._shares.get(self._number(tensor))

    def value(self, tensor: Any, otherwise: float = 1.0) -> float:
        """What stands for each element."""
        return self._values.get(self._number(tensor), otherwise)

    def is_zero(self, tensor: torch.Tensor) -> None:
        """A count that usual runs find to be zero."""
        self._values[self._storages.number(local(tensor))] = 0.0

    def _number(self, tensor: Any) -> int:
        found = self._storages.known(local(tensor))
        return -1 if found is None else found

    def _set(self, table: dict[int, Any], tensor: torch.Tensor, value: float) -> None:
        table[self._storages.number(local(tensor))] = value

    def _topk(self, made: Any, tensor: Any, k: int, dim: int = -1, *_: Any, **__: Any) -> None:
        if tensor.ndim and tensor.shape[dim] > 1:
            self._set(self._choices, made[1], tensor.shape[dim])

    def _argmax(self, made: Any, tensor: Any, dim: int | None = None, *_: Any, **__: Any) -> None:
        if dim is not None and tensor.ndim and tensor.shape[dim] > 1:
            self._set(self._choices, made, tensor.shape[dim])

    def _one_hot(self, made: Any, *_: Any, **__: Any) -> None:
        self._set(self._shares, made, 1.0 / max(made.shape[-1], 1))

    def _equal(self, made: Any, *given: Any, **_: Any) -> None:
        choices = [self.choices(one) or 0 for one in given if isinstance(one, torch.Tensor)]
        if isinstance(made, torch.Tensor) and max(choices, default=0):
            self._set(self._shares, made, 1.0 / max(choices))

    def _scatter(self, made: Any, tensor: Any, dim: int, index: Any, *_: Any, **__: Any) -> None:
        if self.choices(index) and tensor.numel():
            self._set(self._shares, made, min(index.numel() / tensor.numel(), 1.0))

    def _sum(self, made: Any, tensor: Any, *_: Any, **__: Any) -> None:
        share = self.share(tensor)
        if share is not None and made.numel():
            self._set(self._values, made, share * tensor.numel() / made.numel())

    def _counts(self, made: Any, tensor: Any, *_: Any, **__: Any) -> None:
        if self.choices(tensor) and made.numel():
            self._set(self._values, made, tensor.numel() / made.numel())

    def _inherit(self, made: Any, tensor: Any, *_: Any, **__: Any) -> None:
        """What a part or a copy holds is as likely as in the whole."""
        number = self._number(tensor)
        if isinstance(made, torch.Tensor):
            for known in (self._choices, self._shares, self._values):
                if number in known:
                    self._set(known, made, known[number])


_KEEP: Final = (
    torch.Tensor.__getitem__,
    torch.Tensor.to,
    torch.Tensor.long,
    torch.Tensor.int,
    torch.Tensor.bool,
    torch.Tensor.clone,
    torch.Tensor.contiguous,
    torch.Tensor.reshape,
    torch.Tensor.flatten,
    torch.Tensor.cpu,
    torch.Tensor.detach,
)
