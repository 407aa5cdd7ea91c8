"""What one operation of PyTorch does on a GPU: a `AnyTask` for each kernel that it runs.

Holds `tasks`. Everything that is no multiplication, attention or convolution is priced by the bytes
that it moves.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from syncwall.capture.attention import ATTENTION
from syncwall.capture.convolutions import convolution, convolution_backward
from syncwall.capture.dtypes import number_format
from syncwall.capture.traffic import elementwise
from syncwall.work.block import AnyTask
from syncwall.work.operations import Gemm, Kernel

Arguments = Sequence[Any]


def _mm(args: Arguments, first: int = 0) -> list[AnyTask]:
    a, b = args[first], args[first + 1]
    return [Gemm(a.shape[0], b.shape[1], a.shape[1], number_format(a.dtype))]


def _bmm(args: Arguments, first: int = 0) -> list[AnyTask]:
    a, b = args[first], args[first + 1]
    return [Gemm(a.shape[1], b.shape[2], a.shape[2], number_format(a.dtype), a.shape[0])]


def _addmm(args: Arguments) -> list[AnyTask]:
    return _mm(args, 1)


def _baddbmm(args: Arguments) -> list[AnyTask]:
    return _bmm(args, 1)


def _mv(args: Arguments) -> list[AnyTask]:
    a = args[0]
    return [Gemm(a.shape[0], 1, a.shape[1], number_format(a.dtype))]


def _addmv(args: Arguments) -> list[AnyTask]:
    return _mv(args[1:])


def _dot(args: Arguments) -> list[AnyTask]:
    return [Gemm(1, 1, args[0].shape[0], number_format(args[0].dtype))]


def _linear(args: Arguments) -> list[AnyTask]:
    x, w = args[0], args[1]
    return [Gemm(prod(x.shape[:-1]), w.shape[0], w.shape[1], number_format(x.dtype))]


def _grouped_mm(args: Arguments) -> list[AnyTask]:
    """Rows, columns or the inner dimension of all groups together, shared out evenly."""
    a, b = args[0], args[1]
    dtype = number_format(a.dtype)
    offsets = next((x for x in args[2:] if _is_offsets(x)), None)
    if a.dim() == 3 and b.dim() == 3:
        return [Gemm(a.shape[1], b.shape[2], a.shape[2], dtype, a.shape[0])]
    if a.dim() == 2 and b.dim() == 3:
        groups = b.shape[0]
        return [Gemm(a.shape[0] / groups, b.shape[2], a.shape[1], dtype, groups)]
    if a.dim() == 3:
        groups = a.shape[0]
        return [Gemm(a.shape[1], b.shape[1] / groups, a.shape[2], dtype, groups)]
    groups = offsets.shape[0] if offsets is not None else 1
    return [Gemm(a.shape[0], b.shape[1], a.shape[1] / groups, dtype, groups)]


def _is_offsets(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.int32


_KNOWN: dict[str, Callable[[Arguments], list[AnyTask]]] = {
    "aten::mm": _mm,
    "aten::addmm": _addmm,
    "aten::_addmm_activation": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::mv": _mv,
    "aten::addmv": _addmv,
    "aten::dot": _dot,
    "aten::vdot": _dot,
    "aten::linear": _linear,
    "aten::_scaled_mm": _mm,
    "aten::_scaled_mm_v2": _mm,
    "aten::_int_mm": _mm,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_grouped_mm": _grouped_mm,
    "aten::convolution": convolution,
    "aten::_convolution": convolution,
    "aten::convolution_backward": convolution_backward,
    **ATTENTION,
}


_RECURRENT: dict[str, float] = {
    "aten::mkldnn_rnn_layer": 1.0,
    "aten::mkldnn_rnn_layer_backward": 2.0,
}
"""Layers of recurrent networks, and how often they multiply by their weights."""


def _recurrent_flops(args: Arguments) -> float:
    """Every step multiplies its input and the last state by a weight each."""
    steps = prod(args[0].shape[:2])
    return float(2.0 * steps * (args[1].numel() + args[2].numel()))


def tasks(
    operation: torch._ops.OpOverload, args: Arguments, kwargs: dict[str, Any], out: Any
) -> list[AnyTask]:
    """Kernels that an operation runs, in order."""
    known = _KNOWN.get(operation._schema.name)
    if known:
        return known(args)
    moved = elementwise(operation, args, kwargs, out)
    recurrent = _RECURRENT.get(operation._schema.name)
    if recurrent:
        dtype = number_format(args[0].dtype)
        return [Kernel(recurrent * _recurrent_flops(args), moved.bytes, dtype)]
    counted = flop_registry.get(operation._overloadpacket)
    if counted:
        flops = float(counted(*args, **kwargs, out_val=out))
        return [Kernel(flops, moved.bytes, number_format(args[0].dtype))]
    return [moved]
