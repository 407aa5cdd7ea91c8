"""Optimizers on sharded parameters work on what each rank holds.

DTensor works out for every list of parameters again how a sum or product of them is sharded, which
takes longer than all else that a recording does. Element by element there is nothing to work out.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State

_ELEMENTWISE = (
    "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "lerp_", "addcmul", "addcmul_",
    "addcdiv", "addcdiv_", "sqrt", "sqrt_", "neg", "neg_", "maximum_", "sign", "zero_", "copy_",
    "reciprocal_", "pow", "pow_", "clamp_max_",
)  # fmt: skip


@contextmanager
def in_force(_: State) -> Iterator[None]:
    """Lists of equally sharded tensors are handled as lists of local ones."""
    names = [f"_foreach_{name}" for name in _ELEMENTWISE]
    with replaced(torch, **{name: _locally(need(torch, name), name) for name in names}):
        yield


def _locally(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def foreach(first: Any, *args: Any, **kwargs: Any) -> Any:
        lists = [first, *(value for value in args if isinstance(value, (list, tuple)))]
        lists = [values for values in lists if isinstance(values[0], torch.Tensor)]
        if not _are_alike(lists):
            return original(first, *args, **kwargs)
        made = original(_local(first), *(_local(value) for value in args), **kwargs)
        if name.endswith("_"):
            return first
        return [
            DTensor(part, like._spec, requires_grad=False)
            for part, like in zip(made, first, strict=True)
        ]

    return foreach


def _are_alike(lists: list[Any]) -> bool:
    """Whether all tensors at the same place of lists are sharded in the same way."""
    return all(
        all(isinstance(tensor, DTensor) for tensor in tensors)
        and len({tensor.placements for tensor in tensors}) == 1
        for tensors in zip(*lists, strict=True)
    )


def _local(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_local(one) for one in value]
    return value._local_tensor if isinstance(value, DTensor) else value
