"""Numbers that all elements of a tensor are known to be, though nothing else has values here.

All that is computed is taken to be finite: checks for overflow find none. `generate` of transformers
ends when `unfinished & ~(ended | too_long)` has no one left: that the last of them is true
everywhere is all that a recording needs to know.
"""

import operator
from collections.abc import Callable, Sequence
from math import isinf
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor

from syncwall.capture.kernels import tensors
from syncwall.capture.storages import Storages

_WHOLE: Final = (torch.bool, torch.uint8, torch.int32, torch.int64)
_MAKE: Final = {
    **dict.fromkeys(("aten::isnan", "aten::isinf"), 0),
    "aten::isfinite": 1,
    **dict.fromkeys(("aten::ones", "aten::ones_like", "aten::new_ones"), 1),
    **dict.fromkeys(("aten::zeros", "aten::zeros_like", "aten::new_zeros", "aten::zero"), 0),
}
_FILL: Final = {"aten::full": 1, "aten::full_like": 1, "aten::new_full": 2, "aten::fill": 1}
"""Where the number is among the arguments."""
_KEEP: Final = frozenset(
    f"aten::{one}" for one in ("clone", "_to_copy", "copy", "max", "min", "amax", "amin", "all", "any", "cat")
)
_NOT: Final = ("aten::bitwise_not", "aten::logical_not")
_AND: Final = ("aten::bitwise_and", "aten::logical_and", "aten::mul")
_OR: Final = ("aten::bitwise_or", "aten::logical_or")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    f"aten::{one}": getattr(operator, one) for one in ("eq", "ne", "lt", "le", "gt", "ge")
}


class Constants:
    """The number of each storage of whole numbers, or of a single one, whose elements are all the same."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._known: dict[int, int] = {}

    def value(self, tensor: torch.Tensor) -> int | None:
        """What all elements are; None if nobody knows."""
        number = self._storages.known(tensor) if isinstance(tensor, FakeTensor) else None
        return None if number is None else self._known.get(number)

    def notice(self, name: str, args: Sequence[Any], written: Sequence[torch.Tensor]) -> None:
        """Remember what an operation makes, and forget what it overwrites."""
        numbers = {self._storages.number(one): one for one in written if isinstance(one, FakeTensor)}
        for number, one in numbers.items():
            if one.dtype in _WHOLE or one.numel() == 1:
                size = one.numel() * one.element_size()
                is_whole = len(numbers) == 1 and size == one.untyped_storage().nbytes()
                given = [self.value(each) for each in tensors(args)]
                value = self._value(name.removesuffix("_"), args, given) if is_whole else None
                self._known.pop(number, None)
                if value is not None:
                    self._known[number] = value

    def sent(self, reads: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
        """Ranks add up, compare or hand on what they have: nothing, if it is nothing."""
        is_nothing = bool(reads) and all(self.value(one) == 0 for one in reads)
        for one in written:
            self.notice("aten::zero" if is_nothing else "", (), [one])

    def _value(self, name: str, args: Sequence[Any], given: Sequence[int | None]) -> int | None:
        if name in _MAKE:
            return _MAKE[name]
        if name in _FILL:
            fill = args[_FILL[name]]
            return int(fill) if isinstance(fill, (bool, int)) else None
        if name in _COMPARE and (args[0] is args[1] or (isinstance(args[1], float) and isinf(args[1]))):
            return int(_COMPARE[name](0.0, 0.0 if args[0] is args[1] else args[1]))
        decides = any(given) and args[0].dtype == torch.bool if name in _OR else name in _AND and 0 in given
        if decides:
            return int(name in _OR)
        if not given or any(one is None for one in given):
            return None
        return self._of_known(name, args, [one for one in given if one is not None])

    def _of_known(self, name: str, args: Sequence[Any], given: Sequence[int]) -> int | None:
        if name in _COMPARE and len(args) > 1:
            other = given[1] if isinstance(args[1], torch.Tensor) else args[1]
            return int(_COMPARE[name](given[0], other))
        if name in _NOT:
            return int(not given[0])
        if name == "aten::add" and not any(given) and len(given) == len(args):
            return 0
        is_same = len(set(given)) == 1
        is_truth = name in (*_AND, *_OR) and len(given) == len(args) and given[0] in (0, 1)
        return given[0] if is_same and (is_truth or name in _KEEP) else None
