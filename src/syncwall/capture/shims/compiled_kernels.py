"""Kernels as CUDA runs them: fused functions, optimizers over lists, nothing compiled.

The CPU takes attention, RMSNorm and dropout apart; they are replaced by the operations that CUDA
would run, so their kernels, and what they keep for the backward pass, are CUDA's.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from inspect import signature
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.nn import functional
from torch.nn.attention import flex_attention
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.overrides import _get_current_function_mode_stack

from syncwall.capture.fake_devices import without_modes
from syncwall.capture.kernels import tensors
from syncwall.capture.patching import Shims, replaced, wrapper
from syncwall.capture.routing import local
from syncwall.capture.state import RecordingState
from syncwall.work.program import HeldKind, NoteKind

KERNELS = Shims()

_FLEX = "torch.nn.attention.flex_attention"
_FOREACH_DEVICES = "_get_foreach_kernels_supported_devices"
_FLASH_DTYPES = (torch.bfloat16, torch.float16)
_WIDEST_FLASH_HEAD = 256
_FORWARD_FLOPS, _ATTENTION_FLOPS = 4.0, 12.0
"""Of each query, key and dimension: two products forward, and the backward pass twice that."""
_RMS_NAMES = {
    "aten.native_layer_norm": "aten._fused_rms_norm",
    "aten.native_layer_norm_backward": "aten._fused_rms_norm_backward",
}


def cuda_attention(  # noqa: PLR0913, PLR0917
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The operation that CUDA would run; NotImplemented where it composes others.

    Flash attention without a mask in 16 bits, the memory-efficient kernel with one, and what
    PyTorch composes of other operations where neither takes the arguments.
    """
    aten = torch.ops.aten
    query, key, value = _cast(query), _cast(key), _cast(value)
    if query.dim() != 4 or query.dtype == torch.float64:
        return NotImplemented
    width = query.shape[-1]
    is_flash = query.dtype in _FLASH_DTYPES and width <= _WIDEST_FLASH_HEAD
    if attn_mask is None and is_flash and width == value.shape[-1] and not width % 8:
        return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[
            0
        ]
    if query.shape[1] != key.shape[1]:
        if not enable_gqa:
            return NotImplemented
        key, value = (_repeated(x, query.shape[1]) for x in (key, value))
    if attn_mask is not None:
        attn_mask = _bias(attn_mask, query, key)
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, wants_gradient, dropout_p, is_causal, scale=scale
    )[0]


def _cast(tensor: torch.Tensor) -> torch.Tensor:
    """As autocast has it."""
    if torch.is_autocast_enabled("cpu") and tensor.dtype == torch.float32:
        return tensor.to(torch.get_autocast_dtype("cpu"))
    return tensor


def _repeated(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def _bias(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """A mask as numbers to add, of the full shape."""
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=query.dtype, device=query.device)
        mask = torch.where(mask, zero, float("-inf"))
    return mask.to(query.dtype).expand(*query.shape[:3], key.shape[2])


@KERNELS.wraps("torch.nn.functional.scaled_dot_product_attention", everywhere=True)
def _attention(_: RecordingState, original: Any, *args: Any, **kwargs: Any) -> Any:
    answer = cuda_attention(*args, **kwargs)
    return original(*args, **kwargs) if answer is NotImplemented else answer


@KERNELS.wraps("torch.rms_norm", "torch.nn.functional.rms_norm", everywhere=True)
def _rms_norm(
    state: RecordingState,
    original: Any,
    input: torch.Tensor,  # noqa: A002
    normalized_shape: Any,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> Any:
    """CUDA has one kernel, with the traffic of a layer norm without bias."""
    if weight is not None and weight.dtype != input.dtype:
        return original(input, normalized_shape, weight, eps)
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    with replaced(state.mode, renamed=_RMS_NAMES):
        return torch.native_layer_norm(input, list(normalized_shape), weight, None, eps)[0]


@KERNELS.wraps("torch.nn.functional.dropout", everywhere=True)
def _dropout(
    _: RecordingState,
    original: Any,
    input: torch.Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Any:
    if inplace or not training or p in (0.0, 1.0):
        return original(input, p, training, inplace)
    return torch.native_dropout(input, p, True)[0]


@KERNELS.wraps(f"{_FLEX}.flex_attention", everywhere=True)
def _flex_attention(  # noqa: PLR0913, PLR0917 - PyTorch's arguments
    state: RecordingState,
    _: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    *,
    return_aux: Any = None,
    **__: Any,
) -> Any:
    """Flex attention has no backward pass on the CPU: the attention that it amounts to stands in.

    Which blocks a mask leaves is known only from its values: one whose name says so is causal, any
    other is taken as leaving everything, and what it costs as not known.
    """
    mask = getattr(block_mask, "mask_mod", block_mask)
    is_causal = "causal" in getattr(mask, "__name__", "")
    if mask is not None and not is_causal:
        what, place = "blocks that a mask of flex attention removes", state.places.now()[1]
        each = _FORWARD_FLOPS if state.places.backward else _ATTENTION_FLOPS  # computed again, or once
        flops = each * query.numel() * key.shape[-2]
        if not state.tape.pauses:
            state.tape.note(NoteKind.PLACEHOLDER, what, place, flops=flops)
    out = functional.scaled_dot_product_attention(
        query, key, value, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
    if not return_lse and return_aux is None:
        return out
    row = query.new_empty(query.shape[:-1], dtype=torch.float32)
    return out, row if return_aux is None else flex_attention.AuxOutput(lse=row, max_scores=row)


@KERNELS.wraps(f"{_FLEX}.create_block_mask", everywhere=True)
def _create_block_mask(_: RecordingState, original: Any, *args: Any, **kwargs: Any) -> Any:
    """A mask of one block: programs ask for its type and its function, nobody for its blocks."""
    given = signature(original).bind(*args, **kwargs).arguments
    mask_mod, lengths = given["mask_mod"], (given["Q_LEN"], given["KV_LEN"])
    with without_modes():
        one = torch.ones((1, 1, 1), dtype=torch.int32)
        return flex_attention.BlockMask.from_kv_blocks(
            one, one[..., None] - 1, mask_mod=mask_mod, seq_lengths=lengths
        )


@KERNELS.wraps("torch.compile")
def _compile(state: RecordingState, _: Any, model: Any = None, **__: Any) -> Any:
    """Functions stay as they are: the recorder sees their operations one by one.

    That the program asked for it is remembered: what would be fused is for the price to say.
    """
    state.compiled = True
    return model if model is not None else lambda function: function


@KERNELS.wraps("torch.nn.Module.compile")
def _compile_module(state: RecordingState, *_: Any, **__: Any) -> None:
    state.compiled = True


@KERNELS.surround
def _nothing_compiled(_: RecordingState) -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"):
        yield


@KERNELS.wraps("torch.autograd.graph._engine_run_backward", everywhere=True)
def _run_backward(state: RecordingState, original: Any, *args: Any, **kwargs: Any) -> Any:
    """What runs at the end of a backward pass, outside of all autograd nodes, belongs to it.

    `Tensor.backward` is called with the mode that translates devices off: hooks need it on again.
    """
    is_on = state.devices is None or state.devices in _get_current_function_mode_stack()
    state.places.backward += 1
    try:
        with replaced(state.mode, makes_on_host=False), nullcontext() if is_on else state.devices:
            return original(*args, **kwargs)
    finally:
        state.places.backward -= 1


@KERNELS.wraps(f"torch.optim.optimizer.{_FOREACH_DEVICES}", f"torch.utils._foreach_utils.{_FOREACH_DEVICES}")
def _foreach_devices(_: RecordingState, original: Any) -> list[str]:
    """Optimizers as on CUDA, over lists of tensors: on the CPU they loop over parameters."""
    return [*original(), "cpu"]


KERNELS.replaces({"torch.optim.optimizer._foreach_supported_types": lambda _, kinds: [*kinds, FakeTensor]})


@KERNELS.surround
def _optimizer_steps(state: RecordingState) -> Iterator[None]:
    """The end of an optimizer's step is the end of a training step."""

    def parameters(optimizer: torch.optim.Optimizer) -> Iterator[Any]:
        for group in optimizer.param_groups:
            yield from group["params"]

    def before(optimizer: torch.optim.Optimizer, *_: object) -> None:
        owners = state.places.owners()
        for parameter in parameters(optimizer):
            state.on_device(parameter)
            module = owners.get(id(parameter), "")
            state.storages.are([local(parameter)], HeldKind.WEIGHTS, module)
            if parameter.grad is not None:
                state.storages.are([local(parameter.grad)], HeldKind.GRADIENTS, module)
        state.batch.trains(parameters(optimizer))
        state.places.finishing += 1

    def after(optimizer: torch.optim.Optimizer, *_: object) -> None:
        state.places.finishing -= 1
        owners = state.places.owners()
        for parameter, kept in optimizer.state.items():
            held = [local(tensor) for tensor in tensors(kept)]
            state.storages.are(held, HeldKind.OPTIMIZER, owners.get(id(parameter), ""))
        state.after_step(optimizer)

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _engine_step(state: RecordingState, original: Any, engine: Any, *args: Any, **kwargs: Any) -> None:
    with replaced(state, after_step=lambda _: None):
        original(engine, *args, **kwargs)
    state.after_step(engine)


@KERNELS.surround
def _frameworks(state: RecordingState) -> Iterator[None]:
    """What scripts import late is replaced at the first call of a module.

    Models of `transformers` take fake tensors for tracing, and make masks of all pairs: nothing is fake
    to them. A step of DeepSpeed is one of its engine: the optimizer makes one for each group.
    """
    with ExitStack() as stack:

        def pose(*_: Any) -> None:
            hook.remove()
            module = sys.modules.get("transformers.utils.import_utils")
            if hasattr(module, "is_fake_tensor"):
                stack.enter_context(replaced(module, is_fake_tensor=lambda tensor: False))
            engine = getattr(sys.modules.get("deepspeed.runtime.engine"), "DeepSpeedEngine", None)
            if engine is not None:
                step = wrapper(_engine_step)(state, engine._take_model_step)
                stack.enter_context(replaced(engine, _take_model_step=step))

        hook = register_module_forward_pre_hook(pose)
        stack.callback(hook.remove)
        yield
