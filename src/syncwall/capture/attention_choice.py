"""Which kernel CUDA takes for `scaled_dot_product_attention`.

Holds `attention`: flash attention without a mask in 16 bits, the memory-efficient kernel with one,
and what PyTorch composes of other operations where neither takes the arguments.
"""

from typing import Any

import torch

_FLASH_DTYPES = (torch.bfloat16, torch.float16)
_WIDEST_FLASH_HEAD = 256


def attention(  # noqa: PLR0913, PLR0917
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The operation that CUDA would run; NotImplemented where it composes others."""
    aten = torch.ops.aten
    query, key, value = _cast(query), _cast(key), _cast(value)
    if query.dim() != 4 or query.dtype == torch.float64:
        return NotImplemented
    width = query.shape[-1]
    is_flash = query.dtype in _FLASH_DTYPES and width <= _WIDEST_FLASH_HEAD
    if attn_mask is None and is_flash and width == value.shape[-1] and not width % 8:
        return aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, scale=scale
        )[0]
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
