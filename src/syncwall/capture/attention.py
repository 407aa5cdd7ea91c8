"""Fused attention in all forms that PyTorch has, as `CoreAttention`.

Holds `ATTENTION`, by the name of the operation.
"""

from collections.abc import Callable, Sequence
from typing import Any

from syncwall.work.block import AnyTask
from syncwall.work.operations import CoreAttention


def _attention(args: Sequence[Any], is_causal: bool, is_backward: bool) -> list[AnyTask]:
    query, key, value = args[:3]
    batch, heads, q_len, head_dim = query.shape
    return [
        CoreAttention(
            batch, heads, q_len, key.shape[-2], head_dim, value.shape[-1],
            kv_heads=key.shape[1], is_backward=is_backward, is_causal=is_causal,
        )
    ]  # fmt: skip


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
