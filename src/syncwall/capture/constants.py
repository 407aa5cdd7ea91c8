"""The one value that all elements of a tensor have, where that is known or usual.

Values are taken to be finite, so overflow checks find nothing, and masks to be all true. `generate` of
transformers ends when `unfinished & ~(ended | too_long)` is false everywhere, which `too_long` decides.
"""

import math
import operator
from collections.abc import Callable, Sequence
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
_KEEP: Final = [f"aten::{one}" for one in ("clone", "_to_copy", "copy", "max", "min", "amax", "amin", "cat")]
_ONE: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("aten::bitwise_not", "aten::logical_not"), operator.not_),
    **dict.fromkeys(("aten::all", "aten::any"), bool),
    "aten::ceil": math.ceil,
}
_AND: Final = ("aten::bitwise_and", "aten::logical_and", "aten::mul")
_OR: Final = ("aten::bitwise_or", "aten::logical_or")
_TWO: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **{f"aten::{one}": getattr(operator, one) for one in ("eq", "ne", "lt", "le", "gt", "ge", "add", "mul")},
    **dict.fromkeys(_AND[:2], lambda a, b: a and b),
    **dict.fromkeys(_OR, lambda a, b: a or b),
    "aten::div": operator.truediv,
}


class Constants:
    """The number of each storage of whole numbers, or of a single one, whose elements are all the same."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._known: dict[int, float] = {}
        self.is_routed: Callable[[torch.Tensor], bool] = lambda _: False
        """Whether a mask chooses among experts: how many of it are true is known better."""

    def value(self, tensor: torch.Tensor) -> float | None:
        """What all elements are; None if nobody knows."""
        number = self._storages.known(tensor) if isinstance(tensor, FakeTensor) else None
        return None if number is None else self._known.get(number)

    def notice(self, name: str, args: Sequence[Any], written: Sequence[torch.Tensor]) -> None:
        """Remember what an operation makes, and forget what it overwrites; no name makes nothing known."""
        numbers = {self._storages.number(one): one for one in written if isinstance(one, FakeTensor)}
        for number, one in numbers.items():
            if one.dtype in _WHOLE or one.numel() == 1:
                size = one.numel() * one.element_size()
                is_whole = len(numbers) == 1 and size == one.untyped_storage().nbytes()
                value = self._value(name.removesuffix("_"), args, one) if is_whole else None
                self._known.pop(number, None)
                if value is not None and math.isfinite(value):
                    self._known[number] = value

    def sent(self, reads: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
        """Ranks add up, compare or hand on what they have: nothing, if it is nothing."""
        is_nothing = bool(reads) and all(self.value(one) == 0 for one in reads)
        for one in written:
            self.notice("aten::zero" if is_nothing else "", (), [one])

    def _value(self, name: str, args: Sequence[Any], made: torch.Tensor) -> float | None:
        if name in _MAKE:
            return _MAKE[name]
        if name in _FILL:
            fill = args[_FILL[name]]
            return float(fill) if isinstance(fill, (bool, int)) else None
        return self._derived(name, args, made)

    def _derived(self, name: str, args: Sequence[Any], made: torch.Tensor) -> float | None:
        given = [self.value(one) for one in tensors(args)]
        if (name in _AND and 0 in given) or (name in _OR and any(given) and args[0].dtype == torch.bool):
            return int(name in _OR)
        if name == "aten::sum" and args[0].dtype == torch.bool and not self.is_routed(args[0]):
            each = 1 if given[0] is None else given[0]
            return float(each * args[0].numel() / max(made.numel(), 1))
        if name in ("aten::eq", "aten::ne") and _asks_for_numbers(*args):
            return int((name == "aten::eq") == (args[0] is args[1]))
        known = [one for one in given if one is not None]
        if known and len(known) == len(given):
            return _of_known(name, args, known)
        return 1 if name == "aten::all" else None


def _asks_for_numbers(first: Any, second: Any) -> bool:
    """Whether values are asked to be finite: `x == x`, `abs(x) != inf`."""
    return first is second or (isinstance(second, float) and math.isinf(second))


def _of_known(name: str, args: Sequence[Any], given: Sequence[float]) -> float | None:
    if name in _ONE:
        return float(_ONE[name](given[0]))
    if name in _TWO and len(args) > 1:
        numbers = iter(given)
        first, second = (next(numbers) if isinstance(one, torch.Tensor) else one for one in args[:2])
        return None if name == "aten::div" and not second else float(_TWO[name](first, second))
    return given[0] if name in _KEEP and len(set(given)) == 1 else None
