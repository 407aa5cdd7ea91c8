"""Multiplications of matrices and convolutions, with their shapes and number formats.

Holds `MULTIPLICATIONS`, by the name of the operation, and `number_format`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

import torch

from syncwall.describe.choice import Dtype
from syncwall.work.block import AnyTask
from syncwall.work.operations import Convolution, Gemm

Arguments = Sequence[Any]

_FORMATS = {
    torch.float64: Dtype.FP64,
    torch.float32: Dtype.FP32,
    torch.bfloat16: Dtype.BF16,
    torch.float16: Dtype.FP16,
    torch.float8_e4m3fn: Dtype.FP8,
    torch.float8_e5m2: Dtype.FP8,
    torch.int8: Dtype.INT8,
    torch.uint8: Dtype.INT8,
    torch.complex64: Dtype.FP32,
    torch.complex128: Dtype.FP64,
}


def number_format(dtype: torch.dtype) -> Dtype:
    """Of tensors that are multiplied; fp32 may use TF32, which the device's price has to know."""
    return _FORMATS.get(dtype, Dtype.FP32)


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


def _convolution(args: Arguments) -> list[AnyTask]:
    """Of `aten.convolution`: input, weight, bias, stride, padding, dilation, transposed, ..."""
    return [_one(args[0], args[1], _output(args), args[6], args[8])]


def _convolution_backward(args: Arguments) -> list[AnyTask]:
    """One call for the gradient of the input and one for that of the weight, as asked for."""
    gradient, image, weight = args[:3]
    wanted = args[10][:2]
    forward = _one(image, weight, tuple(gradient.shape), args[7], args[9])
    return [replace(forward, is_backward=True)] * sum(wanted)


def _one(
    image: Any, weight: Any, output: tuple[int, ...], transposed: bool, groups: int
) -> Convolution:
    """Either way every place of the smaller image meets the whole kernel."""
    kernel = prod(weight.shape[2:])
    places = prod(image.shape[2:]) if transposed else prod(output[2:])
    inputs, outputs = image.shape[1] // groups, output[1] // groups
    moved = image.numel() + weight.numel() + prod(output)
    return Convolution(
        image.shape[0] * places, outputs, inputs * kernel, float(moved * image.element_size()),
        groups, number_format(image.dtype),
    )  # fmt: skip


def _output(args: Arguments) -> tuple[int, ...]:
    image, weight, _, stride, padding, dilation, transposed, output_padding, groups = args[:9]
    sizes = []
    for i, size in enumerate(image.shape[2:]):
        kernel = _at(dilation, i) * (weight.shape[2 + i] - 1) + 1
        step, pad = _at(stride, i), _at(padding, i)
        if transposed:
            sizes.append((size - 1) * step - 2 * pad + kernel + _at(output_padding, i))
        else:
            sizes.append((size + 2 * pad - kernel) // step + 1)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    return (image.shape[0], channels, *sizes)


def _at(values: Sequence[int], i: int) -> int:
    return values[i] if len(values) > i else values[0]


MULTIPLICATIONS: Final[dict[str, Callable[[Arguments], list[AnyTask]]]] = {
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
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
}
