"""What a kernel or a host operator does, from its name.

Holds `COMPUTE`, `COPY`, `COMMUNICATION` and `kinds_of`. Knows names of cuBLAS, CUTLASS,
cuDNN, ROCm (Tensile, MIOpen, composable kernel), Triton, PyTorch's own kernels, and `aten::`
operators for traces without a device.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from syncwall.read.collective_names import is_communication

COMPUTE: Final = ("attention", "optimizer", "GEMM", "convolution", "elementwise", "other kernels")
"""Causes of computation, in order of precedence where kernels of two run at once."""
COPY: Final = "copy"
COMMUNICATION: Final = "communication"
KINDS: Final = (*COMPUTE, COPY, COMMUNICATION)


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_RULES: Final = (
    (
        COPY,
        _any(
            r"^mem(cpy|set)",
            r"^copybuffer",
            r"^fillbuffer",
            r"__amd_rocclr_(copy|fill)",
            r"^aten::(copy_|_to_copy|to$|contiguous|clone|cat$|pin_memory)",
        ),
    ),
    (
        "attention",
        _any(
            r"flash",
            r"fmha",
            r"attention",
            r"attn",
            r"\bmha_",
            r"sdpa",
            r"efficient_attention",
            r"softmax_rescale",
        ),
    ),
    (
        "optimizer",
        _any(
            r"multi_?tensor",
            r"fused_?(adam|sgd|lamb|adagrad|lion)",
            r"adam(w)?_?kernel",
            r"^optimizer\.step",
            r"^aten::_foreach_",
            r"distributed_?adam",
            r"foreach_tensor",
            r"clip_grad",
        ),
    ),
    (
        "convolution",
        _any(
            r"conv(?!ert)",
            r"wgrad",
            r"dgrad",
            r"fprop",
            r"winograd",
            r"implicit_?gemm",
            r"miopen.*(sp3|igemm)",
            r"igemm_(fwd|bwd|wrw)",
            r"^sm\d+_xmma_(fprop|wgrad|dgrad)",
            r"gemm.*_implicit",
            r"cudnn_.*nhwc",
            r"im2col",
            r"col2im",
            r"im2d2col",
        ),
    ),
    (
        "GEMM",
        _any(
            r"(?<!fb)gemm",
            r"gemv",
            r"\bcijk_",
            r"cublas",
            r"nvjet",
            r"cutlass",
            r"xmma",
            r"matmul",
            r"\bdot_kernel",
            r"splitkreduce",
            r"split_k",
            r"_mm_",
            r"triton_mm",
            r"triton_tem_fused",
            r"\bgrouped_?mm",
            r"s\d+gemm",
            r"tensorop",
            r"wmma",
            r"^aten::(mm|addmm|bmm|baddbmm|linear|matmul|addbmm|_scaled_mm|mv|addmv|dot"
            r"|einsum|_grouped_mm)$",
            r"^mkldnn.*linear",
            r"(Addmm|Mm|Bmm|Linear)Backward",
        ),
    ),
    (
        "elementwise",
        _any(
            r"elementwise",
            r"vectorized",
            r"unrolled",
            r"\bbn_",
            r"norm",
            r"moments",
            r"gammabeta",
            r"softmax",
            r"dropout",
            r"reduce",
            r"average",
            r"pool",
            r"relu",
            r"gelu",
            r"silu",
            r"swiglu",
            r"sigmoid",
            r"activation",
            r"triton_",
            r"pointwise",
            r"cuComputeGrad",
            r"cuApply",
            r"embedding",
            r"index",
            r"scatter",
            r"gather",
            r"cat(array|_)",
            r"nll_?loss",
            r"cross_entropy",
            r"rotary",
            r"rope",
            r"cast",
            r"quant",
            r"transpose",
            r"permute",
            r"n[cd]*hw\w*to",
            r"scale",
            r"fill",
            r"copy",
            r"sort",
            r"scan",
            r"cumsum",
            r"topk",
            r"op_tensor",
            r"add_tensor",
            r"bias",
            r"^aten::",
        ),
    ),
)


@lru_cache(maxsize=65536)
def kind_of(name: str) -> str:
    """One of `KINDS`."""
    if is_communication(name):
        return COMMUNICATION
    for kind, pattern in _RULES:
        if pattern.search(name[:400]):
            return kind
    return "other kernels"


def kinds_of(names: Sequence[str]) -> Any:
    """Of each name, the index of its kind in `KINDS` (int8)."""
    number = {kind: i for i, kind in enumerate(KINDS)}
    return np.array([number[kind_of(name)] for name in names], np.int8)
