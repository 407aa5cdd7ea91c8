"""What one operation of PyTorch does on a GPU: an `AnyTask` for each kernel that it runs.

Holds `tasks`. Multiplications of matrices, convolutions and fused attention are known with their
shapes and number formats (`MULTIPLICATIONS`, `ATTENTION`, by the name of the operation);
everything else is priced by the bytes that it moves: `elementwise`, `traffic` (the tensors that an
operation reads and writes) and `word`, what kind of work it is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import ceil, prod
from typing import Any, Final

import torch
from torch.utils.flop_counter import flop_registry

from syncwall.capture.versions import has
from syncwall.describe.choice import Dtype
from syncwall.work.block import AnyTask
from syncwall.work.operations import Convolution, CoreAttention, Elementwise, Gemm, Kernel

_WRITTEN_ONLY = frozenset(
    (
        "copy_",
        "zero_",
        "fill_",
        "normal_",
        "uniform_",
        "random_",
        "bernoulli_",
        "exponential_",
        "_foreach_zero_",
        "_foreach_copy_",
    )
)
_WORDS = {
    "batch_norm": "batch norm",
    "norm": "norm",
    "relu": "activation",
    "gelu": "activation",
    "silu": "activation",
    "sigmoid": "activation",
    "tanh": "activation",
    "glu": "activation",
    "threshold": "activation",
    "embedding": "embedding",
    "softmax": "softmax",
    "nll_loss": "loss",
    "loss": "loss",
    "copy": "copy",
    "clone": "copy",
    "cat": "copy",
    "_to_copy": "copy",
    "chunk_cat": "copy",
    "dropout": "dropout",
    "pool": "pool",
    "sort": "sort",
    "topk": "sort",
    "scatter": "gather",
    "gather": "gather",
    "index": "gather",
    "fused_adam": "optimizer",
    "fused_sgd": "optimizer",
    "fused_adagrad": "optimizer",
}
_PICKS = {
    "embedding": 0,
    "index": 0,
    "index_select": 0,
    "gather": 0,
    "nll_loss_forward": 0,
    "nll_loss_backward": 1,
    "all_gather_copy_in": 1,
    "index_put_": 0,
    "index_add_": 0,
    "scatter_add_": 0,
    "scatter_": 0,
    "_index_put_impl_": 0,
}
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


def elementwise_kernel(
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


def _picked(name: str, args: Sequence[Any], read: list[torch.Tensor], written: list[torch.Tensor]) -> float:
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


def number_format(dtype: torch.dtype, *, convolves: bool = False) -> Dtype:
    """Of tensors that are multiplied, as the program's switches say of fp32."""
    if dtype is torch.float32:
        return Dtype.TF32 if _allows_tf32(convolves) else Dtype.FP32
    return _FORMATS.get(dtype, Dtype.FP32)


def _allows_tf32(convolves: bool) -> bool:
    if has("torch.backends.cudnn.conv"):
        switches = torch.backends.cudnn.conv if convolves else torch.backends.cuda.matmul
        return bool(switches.fp32_precision == "tf32")
    return bool((torch.backends.cudnn if convolves else torch.backends.cuda.matmul).allow_tf32)


def _mm(args: Arguments, first: int = 0) -> list[AnyTask]:
    a, b = args[first], args[first + 1]
    return [Gemm(a.shape[0], b.shape[1], a.shape[1], number_format(a.dtype))]


def _bmm(args: Arguments, first: int = 0) -> list[AnyTask]:
    a, b = args[first], args[first + 1]
    dtype = number_format(a.dtype)
    return [Gemm(a.shape[1], b.shape[2], a.shape[2], dtype, a.shape[0], is_batched=True)]


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


def _one(image: Any, weight: Any, output: tuple[int, ...], transposed: bool, groups: int) -> Convolution:
    """Either way every place of the smaller image meets the whole kernel."""
    kernel = prod(weight.shape[2:])
    places = prod(image.shape[2:]) if transposed else prod(output[2:])
    inputs, outputs = image.shape[1] // groups, output[1] // groups
    moved = image.numel() + weight.numel() + prod(output)
    return Convolution(
        image.shape[0] * places,
        outputs,
        inputs * kernel,
        float(moved * image.element_size()),
        groups,
        number_format(image.dtype, convolves=True),
    )


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


def _attention(args: Sequence[Any], is_causal: bool, is_backward: bool) -> list[AnyTask]:
    query, key, value = args[:3]
    batch, heads, q_len, head_dim = query.shape
    return [
        CoreAttention(
            batch,
            heads,
            q_len,
            key.shape[-2],
            head_dim,
            value.shape[-1],
            kv_heads=key.shape[1],
            is_backward=is_backward,
            is_causal=is_causal,
        )
    ]


def _given(args: Sequence[Any], index: int) -> bool:
    return len(args) > index and bool(args[index])


def _forward(causal_at: int) -> Callable[[Sequence[Any]], list[AnyTask]]:
    return lambda args: _attention(args, _given(args, causal_at), False)


def _backward(causal_at: int) -> Callable[[Sequence[Any]], list[AnyTask]]:
    return lambda args: _attention(args[1:], _given(args, causal_at), True)


def _flat(args: Sequence[Any]) -> list[AnyTask]:
    """Flash attention on (batch, length, heads, width)."""
    turned = [x.transpose(1, 2) for x in args[:3]]
    return _attention(turned, _given(args, 8), False)


def _flat_backward(args: Sequence[Any]) -> list[AnyTask]:
    turned = [x.transpose(1, 2) for x in args[1:4]]
    return _attention(turned, _given(args, 11), True)


ATTENTION: dict[str, Callable[[Sequence[Any]], list[AnyTask]]] = {
    "aten::_scaled_dot_product_flash_attention": _forward(4),
    "aten::_scaled_dot_product_flash_attention_backward": _backward(11),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _forward(4),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _backward(7),
    "aten::_scaled_dot_product_efficient_attention": _forward(6),
    "aten::_scaled_dot_product_efficient_attention_backward": _backward(11),
    "aten::_scaled_dot_product_cudnn_attention": _forward(6),
    "aten::_scaled_dot_product_cudnn_attention_backward": _backward(14),
    "aten::_scaled_dot_product_fused_attention_overrideable": _forward(5),
    "aten::_flash_attention_forward": _flat,
    "aten::_flash_attention_backward": _flat_backward,
}


_KNOWN = MULTIPLICATIONS | ATTENTION

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
    moved = elementwise_kernel(operation, args, kwargs, out)
    recurrent = _RECURRENT.get(operation._schema.name)
    if recurrent:
        dtype = number_format(args[0].dtype)
        return [Kernel(recurrent * _recurrent_flops(args), moved.bytes, dtype)]
    counted = flop_registry.get(operation._overloadpacket)
    if counted:
        flops = float(counted(*args, **kwargs, out_val=out))
        return [Kernel(flops, moved.bytes, number_format(args[0].dtype))]
    return [moved]
