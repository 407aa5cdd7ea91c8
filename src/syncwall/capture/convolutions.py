"""Convolutions and their gradients, as the multiplications that they amount to."""

from collections.abc import Sequence
from math import prod
from typing import Any

from syncwall.capture.dtypes import number_format
from syncwall.work.block import AnyTask
from syncwall.work.operations import Convolution


def convolution(args: Sequence[Any]) -> list[AnyTask]:
    """Of `aten.convolution`: input, weight, bias, stride, padding, dilation, transposed, ..."""
    return [_one(args[0], args[1], _output(args), args[6], args[8])]


def convolution_backward(args: Sequence[Any]) -> list[AnyTask]:
    """One call for the gradient of the input and one for that of the weight, as asked for."""
    gradient, image, weight = args[:3]
    wanted = args[10][:2]
    return [_one(image, weight, tuple(gradient.shape), args[7], args[9])] * sum(wanted)


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


def _output(args: Sequence[Any]) -> tuple[int, ...]:
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
