"""Kernels of all kinds over a range of shapes, for programs that nobody has described.

Holds `general_kernels` and `measure_general`. The shapes belong to no model: multiplications,
convolutions and attention from small to large, and memory-bound operations that fit into a cache,
or do not. Imported only where torch is installed.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import torch
from torch.nn import functional

from syncwall.describe.choice import Dtype
from syncwall.measure.kernel_times import KernelRow, TimedKernel, timed_kernel
from syncwall.measure.team import Team
from syncwall.measure.trials import Maker, Trial, attention_trial, gemm_trial
from syncwall.work.operations import Convolution, CoreAttention, Elementwise, Gemm

_aten = torch.ops.aten
_SIZES: Final = (256, 1024)
_LENGTHS: Final = (128, 512)
_IMAGES: Final = (
    (3, 32, 5, 64, 1),
    (16, 16, 3, 64, 1),
    (64, 64, 1, 32, 1),
    (64, 64, 3, 32, 1),
    (64, 128, 3, 32, 2),
    (256, 256, 1, 8, 1),
    (256, 256, 3, 8, 1),
)
"""Channels in and out, size of the kernel, of the image, and stride."""
_BATCH: Final = 8
_ELEMENTS: Final = (2**17, 2**20, 2**22)
_WIDTH: Final = 512
_COPIES: Final = 2


@dataclass(frozen=True)
class _Memory:
    """One memory-bound operation on two tensors of (rows, `_WIDTH`)."""

    kind: str
    run: Callable[[Any, Any], Any]
    moved: float
    """Tensors of that size read and written."""


def _image(x: Any) -> Any:
    return x.view(-1, 64, 8, 8)


def _layer_norm(x: Any) -> tuple[Any, ...]:
    return (x, [_WIDTH], x[0], x[1], 1e-5)


def _layer_norm_backward(g: Any, x: Any) -> Any:
    mean = x[:, :1].contiguous()
    weight, bias = x[0], x[1]
    return _aten.native_layer_norm_backward(g, x, [_WIDTH], mean, mean, weight, bias, [True, True, True])


def _batch_norm(x: Any) -> Any:
    weight = x[0, :64]
    return _aten.native_batch_norm(_image(x), weight, weight, None, None, True, 0.1, 1e-5)


def _batch_norm_backward(g: Any, x: Any) -> Any:
    weight = x[0, :64]
    return _aten.native_batch_norm_backward(
        _image(g), _image(x), weight, None, None, weight, weight, True, 1e-5, [True, True, True]
    )


def _rows(x: Any) -> Any:
    """Every row once, in another order."""
    return torch.arange(x.shape[0], device=x.device).flip(0)


_MEMORY: Final = (
    _Memory("", lambda x, y: x + y, 3),
    _Memory("", lambda x, y: x * 0.5, 2),
    _Memory("", lambda x, y: x.sum(0), 1),
    _Memory("", lambda x, y: torch.zeros_like(x), 1),
    _Memory("activation", lambda x, y: functional.relu(x), 2),
    _Memory("activation", lambda x, y: functional.gelu(x), 2),
    _Memory("activation", lambda x, y: functional.silu(x), 2),
    _Memory("activation backward", lambda g, x: _aten.threshold_backward(g, x, 0), 3),
    _Memory("activation backward", _aten.gelu_backward, 3),
    _Memory("activation backward", _aten.silu_backward, 3),
    _Memory("norm", lambda x, y: _aten.native_layer_norm(*_layer_norm(x)), 2),
    _Memory("batch norm", lambda x, y: _batch_norm(x), 2),
    _Memory("norm backward", _layer_norm_backward, 3),
    _Memory("batch norm backward", _batch_norm_backward, 3),
    _Memory("softmax", lambda x, y: _aten._softmax(x, -1, False), 2),
    _Memory("softmax", lambda x, y: _aten._log_softmax(x, -1, False), 2),
    _Memory("softmax backward", lambda g, x: _aten._log_softmax_backward_data(g, x, -1, x.dtype), 3),
    _Memory("copy", lambda x, y: x.clone(), 2),
    _Memory("copy", lambda x, y: x.view(-1, 8, 64).transpose(0, 1).contiguous(), 2),
    _Memory("gather", lambda x, y: x[_rows(x)], 2),
    _Memory("gather backward", lambda g, x: g.index_add(0, _rows(x), x), 4),
    _Memory("gather backward", lambda g, x: g.index_put((_rows(x),), x, accumulate=True), 3),
    _Memory("pool", lambda x, y: functional.max_pool2d(_image(x), 2), 1.25),
)


Make = Callable[[Maker], Trial]


def measure_general(
    team: Team,
    kernel: TimedKernel,
    make: Make,
    *,
    seconds: float = 0.15,
    clock: Callable[[], float] = time.perf_counter,
) -> KernelRow:
    """The row of one kernel in 32 bits; all ranks run it at once, and the slowest counts."""
    trial = make(Maker(team.device, torch.float32))
    times = timed_kernel(team, trial.prepare, trial.run, seconds, clock)
    return KernelRow.of(kernel, [taken / kernel.copies for taken in times])


def general_kernels() -> Iterator[tuple[TimedKernel, Make]]:
    """Every kernel, and what makes its operands."""
    dtype = Dtype.FP32
    for m, n, k, role in product(_SIZES, _SIZES, _SIZES, (False, True)):
        gemm = Gemm(m, n, k, dtype, is_weight_gradient=role)
        yield TimedKernel("gemm", gemm, _COPIES), _bound(gemm_trial, gemm)
    for length, causal, backward in product(_LENGTHS, (True, False), (False, True)):
        what = CoreAttention(2, 4, length, length, 64, 64, 4, is_backward=backward, is_causal=causal)
        yield TimedKernel("attention", what, _COPIES), _bound(attention_trial, what)
    for image, backward in product(_IMAGES, (False, True)):
        convolution = _convolution(*image, dtype, backward)
        calls = _COPIES * (2 if backward else 1)
        yield TimedKernel("convolution", convolution, calls), _convolving(image, backward)
    for one, elements in product(_MEMORY, _ELEMENTS):
        size = one.moved * elements * dtype.size_bytes
        elementwise = Elementwise(size, is_fused=True, kind=one.kind)
        yield TimedKernel(one.kind, elementwise, _COPIES), _moving(one, elements)
    for elements in _ELEMENTS:
        update = Elementwise(7 * elements * 4.0, is_fused=True, kind="optimizer")
        yield TimedKernel("optimizer", update, _COPIES), _updating(elements)


def _bound(make: Callable[..., Trial], what: Any) -> Make:
    return lambda maker: make(what, _COPIES, maker)


def _convolution(  # noqa: PLR0913, PLR0917 - a convolution has this many sides
    inputs: int, outputs: int, kernel: int, size: int, stride: int, dtype: Dtype, backward: bool
) -> Convolution:
    places = _BATCH * (size // stride) ** 2
    weight = inputs * outputs * kernel**2
    moved = dtype.size_bytes * (_BATCH * inputs * size**2 + weight + places * outputs)
    return Convolution(places, outputs, inputs * kernel**2, moved, dtype=dtype, is_backward=backward)


def _convolving(image: tuple[int, ...], backward: bool) -> Make:
    """Forward, or both gradients."""
    inputs, outputs, kernel, size, stride = image

    def made(maker: Maker) -> Trial:
        pairs = [
            (
                maker.tensor(_BATCH, inputs, size, size),
                maker.tensor(outputs, inputs, kernel, kernel),
            )
            for _ in range(_COPIES)
        ]
        kept: list[Any] = []

        def forward() -> None:
            kept.extend(functional.conv2d(x, w, None, stride, kernel // 2) for x, w in pairs)

        def prepare() -> None:
            kept.clear()
            forward()
            kept[:] = [(out, torch.ones_like(out), pair) for out, pair in zip(kept, pairs, strict=True)]

        def back() -> None:
            for out, gradient, pair in kept:
                torch.autograd.grad(out, pair, gradient)

        return Trial(prepare, back) if backward else Trial(kept.clear, forward)

    return made


def _moving(one: _Memory, elements: int) -> Make:
    def made(maker: Maker) -> Trial:
        shape = (elements // _WIDTH, _WIDTH)
        pairs = [tuple(maker.tensor(*shape).detach() for _ in range(2)) for _ in range(_COPIES)]
        kept: list[Any] = []

        def run() -> None:
            with torch.no_grad():
                kept.extend(one.run(*pair) for pair in pairs)

        return Trial(kept.clear, run)

    return made


def _updating(elements: int) -> Make:
    """AdamW on several weights of a size."""

    def made(maker: Maker) -> Trial:
        weights = [maker.tensor(elements) for _ in range(_COPIES)]
        optimizer = torch.optim.AdamW(weights, fused=True)

        def prepare() -> None:
            for weight in weights:
                weight.grad = torch.full_like(weight, 1e-3)

        return Trial(prepare, lambda: optimizer.step() and None)

    return made
