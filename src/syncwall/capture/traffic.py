"""Memory traffic of kernels that are limited by it.

Holds `elementwise`, `traffic` (the tensors that an operation reads and writes) and `word`, what
kind of work it is.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from math import ceil
from typing import Any

import torch

from syncwall.work.operations import Elementwise

_WRITTEN_ONLY = frozenset((
    "copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_",
    "_foreach_zero_", "_foreach_copy_",
))  # fmt: skip
_WORDS = {
    "batch_norm": "batch norm", "norm": "norm",
    "relu": "activation", "gelu": "activation", "silu": "activation", "sigmoid": "activation",
    "tanh": "activation", "glu": "activation", "threshold": "activation",
    "embedding": "embedding",
    "softmax": "softmax", "nll_loss": "loss", "loss": "loss",
    "copy": "copy", "clone": "copy", "cat": "copy", "_to_copy": "copy", "chunk_cat": "copy",
    "dropout": "dropout",
    "pool": "pool",
    "sort": "sort", "topk": "sort",
    "scatter": "gather", "gather": "gather", "index": "gather",
    "fused_adam": "optimizer", "fused_sgd": "optimizer", "fused_adagrad": "optimizer",
}  # fmt: skip
_PICKS = {
    "embedding": 0, "index": 0, "index_select": 0, "gather": 0, "nll_loss_forward": 0,
    "nll_loss_backward": 1, "all_gather_copy_in": 1, "index_put_": 0, "index_add_": 0,
    "scatter_add_": 0, "scatter_": 0, "_index_put_impl_": 0,
}  # fmt: skip
"""Operations that look at a part of an argument, and which one."""
_SECTOR_BYTES = 32
"""Least that a GPU reads at a time."""
_MULTI_TENSOR_CHUNK = 65536
"""Elements that one block of a multi-tensor kernel handles."""
_MULTI_TENSOR_BLOCKS = 320
"""Blocks of one launch of it."""
_MULTI_TENSOR_TENSORS = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
"""Tensors of one launch, by the number of lists."""


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """All tensors in arguments or results."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors(value)
    elif isinstance(values, dict):
        yield from tensors(list(values.values()))


def traffic(
    operation: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The tensors that an operation reads, and those that it writes."""
    changed = _changed(operation)
    is_read = operation._schema.name.partition("::")[2] not in _WRITTEN_ONLY
    read: list[torch.Tensor] = []
    written: list[torch.Tensor] = []
    for i, value in enumerate(args):
        is_changed = i in changed
        if is_changed:
            written.extend(tensors(value))
        if not is_changed or is_read:
            read.extend(tensors(value))
    for name, value in kwargs.items():
        (written if name in changed else read).extend(tensors(value))
    written.extend(tensors(out))
    return read, written


def elementwise(
    operation: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> Elementwise:
    """Inputs read and outputs written, each once."""
    name = operation._schema.name.partition("::")[2]
    read, written = traffic(operation, args, kwargs, out)
    moved = _once(read) + _once(written)
    if name in _PICKS:
        moved = _picked(name, args, read, written)
    kernels = _launches(args) if name.startswith(("_foreach", "_fused_", "_amp_foreach")) else 1
    return Elementwise(moved, kernels, is_fused=True, kind=word(name))


def _picked(
    name: str, args: Sequence[Any], read: list[torch.Tensor], written: list[torch.Tensor]
) -> float:
    """Bytes of operations that look only at a part of an argument."""
    if name == "all_gather_copy_in":  # its second argument is the whole, of which it fills a part
        return 2.0 * _once(args[0])
    whole = moved_bytes(args[_PICKS[name]])
    rest = _once(read) - whole
    if name == "nll_loss_backward":  # needs the shape of the logarithms only
        return rest + _once(written)
    if name == "nll_loss_forward":
        return float(rest + _once(written) + _SECTOR_BYTES * args[1].numel())
    if any(args[_PICKS[name]] is tensor for tensor in written):  # written where the index says
        return rest + 2.0 * min(whole, rest)
    return rest + _once(written) + min(whole, _once(written))


@cache
def word(name: str) -> str:
    """What kind of work an operation is, as measurements name it."""
    return next((kind for part, kind in _WORDS.items() if part in name), "")


def moved_bytes(tensor: torch.Tensor) -> float:
    """Bytes behind a tensor; what it shows several times (`expand`) counts once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride or not size:
            count *= size
    return float(count * tensor.element_size())


def _once(of: list[torch.Tensor]) -> float:
    """Bytes of all of them; two views of the same bytes count once."""
    sizes: dict[tuple[int, int, tuple[int, ...]], float] = {}
    for tensor in of:
        key = tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape)
        sizes[key] = moved_bytes(tensor)
    return sum(sizes.values())


@cache
def _changed(operation: torch._ops.OpOverload) -> frozenset[int | str]:
    """Positions and names of arguments that an operation writes to."""
    found: set[int | str] = set()
    for i, argument in enumerate(operation._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.add(argument.name if argument.kwarg_only else i)
    return frozenset(found)


def _launches(args: Sequence[Any]) -> int:
    """Launches of a kernel over lists of tensors."""
    lists = [value for value in args if isinstance(value, (list, tuple)) and _has_tensors(value)]
    if not lists:
        return 1
    blocks = sum(ceil(tensor.numel() / _MULTI_TENSOR_CHUNK) for tensor in lists[0])
    most = _MULTI_TENSOR_TENSORS.get(len(lists), 30)
    return int(max(1, ceil(blocks / _MULTI_TENSOR_BLOCKS), ceil(len(lists[0]) / most)))


def _has_tensors(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], torch.Tensor)
