"""Functions that CUDA runs as one kernel, and the CPU takes apart: attention, RMSNorm, dropout.

They are replaced by the operations that CUDA would run, so their kernels, and what they keep for
the backward pass, are CUDA's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

from syncwall.capture.attention_choice import attention
from syncwall.capture.shims.patch import everywhere, need, replaced
from syncwall.capture.state import State

_RMS_NAMES = {
    "aten.native_layer_norm": "aten._fused_rms_norm",
    "aten.native_layer_norm_backward": "aten._fused_rms_norm_backward",
}


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """What CUDA would run."""
    composed = need(functional, "scaled_dot_product_attention")
    rms_norm = need(torch, "rms_norm")
    dropout = need(functional, "dropout")

    def rms_norm_of_cuda(*args: Any, **kwargs: Any) -> Any:
        return _else(_rms_norm(state, *args, **kwargs), rms_norm, args, kwargs)

    def functional_rms_norm(*args: Any, **kwargs: Any) -> Any:
        return rms_norm_of_cuda(*args, **kwargs)

    def attention_of_cuda(*args: Any, **kwargs: Any) -> Any:
        return _else(attention(*args, **kwargs), composed, args, kwargs)

    def dropout_of_cuda(*args: Any, **kwargs: Any) -> Any:
        return _else(_dropout(*args, **kwargs), dropout, args, kwargs)

    functions = {
        composed: attention_of_cuda,
        rms_norm: rms_norm_of_cuda,
        need(functional, "rms_norm"): functional_rms_norm,
        dropout: dropout_of_cuda,
    }
    with everywhere(functions):
        yield


def _else(answer: Any, original: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """What PyTorch itself does where CUDA does nothing else."""
    return original(*args, **kwargs) if answer is NotImplemented else answer


def _rms_norm(
    state: State,
    input: torch.Tensor,  # noqa: A002
    normalized_shape: Any,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> Any:
    """CUDA has one kernel, with the traffic of a layer norm without bias."""
    if weight is not None and weight.dtype != input.dtype:
        return NotImplemented
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    with replaced(state.mode, renamed=_RMS_NAMES):
        return torch.native_layer_norm(input, list(normalized_shape), weight, None, eps)[0]


def _dropout(
    input: torch.Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Any:
    if inplace or not training or p in (0.0, 1.0):
        return NotImplemented
    return torch.native_dropout(input, p, True)[0]
