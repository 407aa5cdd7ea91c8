"""What ran when, by cause: on the device, or on the host for traces without one.

Holds `Activity`, `activity_of` and `CollectiveKey`, a kind of collective in a process group.
`COMPUTE`, `COPY`, `COMMUNICATION` and `kinds_of`: what a kernel or a host operator does, from its
name. Knows names of cuBLAS, CUTLASS, cuDNN, ROCm (Tensile, MIOpen, composable kernel), Triton,
PyTorch's own kernels, and `aten::` operators for traces without a device.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause
from syncwall.explain.traces.spans import EMPTY, Spans, merged
from syncwall.read.trace import Category, Trace, is_communication, launches

COMPUTE: Final = (
    Cause.ATTENTION, Cause.OPTIMIZER, Cause.GEMM, Cause.CONVOLUTION, Cause.ELEMENTWISE,
    Cause.OTHER_KERNELS,
)  # fmt: skip
"""Causes of computation, in order of precedence where kernels of two run at once."""
COPY: Final = Cause.COPY
COMMUNICATION: Final = "communication"
KINDS: Final = (*COMPUTE, COPY, COMMUNICATION)


def _any(parts: str) -> re.Pattern[str]:
    """Any of the expressions that stand in `parts`, whatever their case."""
    return re.compile("|".join(parts.split()), re.IGNORECASE)


_RULES: Final = (
    (COPY, _any(
        r"^mem(cpy|set) ^copybuffer ^fillbuffer __amd_rocclr_(copy|fill) "
        r"^aten::(copy_|_to_copy|to$|contiguous|clone|cat$|pin_memory)"
    )),
    (Cause.ATTENTION, _any(
        r"flash fmha attention attn \bmha_ sdpa efficient_attention softmax_rescale"
    )),
    (Cause.OPTIMIZER, _any(
        r"multi_?tensor fused_?(adam|sgd|lamb|adagrad|lion) adam(w)?_?kernel "
        r"^optimizer\.step ^aten::_foreach_ distributed_?adam foreach_tensor clip_grad"
    )),
    (Cause.CONVOLUTION, _any(
        r"conv(?!ert) wgrad dgrad fprop winograd implicit_?gemm miopen.*(sp3|igemm) "
        r"igemm_(fwd|bwd|wrw) ^sm\d+_xmma_(fprop|wgrad|dgrad) gemm.*_implicit cudnn_.*nhwc "
        r"im2col col2im im2d2col"
    )),
    (Cause.GEMM, _any(
        r"(?<!fb)gemm gemv \bcijk_ cublas nvjet cutlass xmma matmul \bdot_kernel "
        r"splitkreduce split_k _mm_ triton_mm triton_tem_fused \bgrouped_?mm s\d+gemm "
        r"tensorop wmma "
        r"^aten::(mm|addmm|bmm|baddbmm|linear|matmul|addbmm|_scaled_mm|mv|addmv|dot"
        r"|einsum|_grouped_mm)$ "
        r"^mkldnn.*linear (Addmm|Mm|Bmm|Linear)Backward"
    )),
    (Cause.ELEMENTWISE, _any(
        r"elementwise vectorized unrolled \bbn_ norm moments gammabeta softmax dropout "
        r"reduce average pool relu gelu silu swiglu sigmoid activation triton_ pointwise "
        r"cuComputeGrad cuApply embedding index scatter gather cat(array|_) nll_?loss "
        r"cross_entropy rotary rope cast quant transpose permute n[cd]*hw\w*to scale fill "
        r"copy sort scan cumsum topk op_tensor add_tensor bias ^aten::"
    )),
)  # fmt: skip


@lru_cache(maxsize=65536)
def kind_of(name: str) -> str:
    """One of `KINDS`."""
    if is_communication(name):
        return COMMUNICATION
    for kind, pattern in _RULES:
        if pattern.search(name[:400]):
            return kind
    return Cause.OTHER_KERNELS


def kinds_of(names: Sequence[str]) -> Any:
    """Of each name, the index of its kind in `KINDS` (int8)."""
    number = {kind: i for i, kind in enumerate(KINDS)}
    return np.array([number[kind_of(name)] for name in names], np.int8)


_OPTIMIZER = re.compile(r"^Optimizer\.(step|zero_grad)#")
_HOST_CALLS = re.compile(r"^(gloo|nccl|mpi|ucc|xccl|hccl):")
_NO_WORK = re.compile(
    r"^(record_param_comms|c10d::|gloo:|nccl:|mpi:|ucc:|autograd::engine::|"
    r"torch::autograd::|DataLoader|enumerate\(DataLoader|TorchDynamo|"
    r"Torch-Compiled Region|## Call CompiledFxGraph)"
)
"""Operators that only frame others, or that start communication."""


@dataclass(frozen=True, order=True)
class CollectiveKey:
    """One kind of collective in one process group."""

    kind: str
    group: str = ""
    """Name of the group; empty if the trace does not tell."""


@dataclass(frozen=True)
class Activity:
    """When what ran."""

    compute: dict[Cause, Spans]
    """By cause, in order of precedence."""
    communication: dict[CollectiveKey, Spans]
    events: dict[CollectiveKey, Any]
    """Indices of the trace's events of each channel."""
    copy: Spans
    """Copies and fills by the device; those of a host are its computation."""
    on_device: bool
    """Whether the trace has a device; if not, these are the host's operators."""

    @property
    def computing(self) -> Spans:
        """Any computation."""
        return _union(list(self.compute.values()))

    @property
    def busy(self) -> Spans:
        """Anything at all."""
        return _union([self.computing, *self.communication.values(), self.copy])


def activity_of(trace: Trace) -> Activity:
    """Sorts the trace's work by cause."""
    device = (trace.category == Category.KERNEL) | (trace.category == Category.COPY)
    return _on_device(trace, device) if device.any() else _on_host(trace)


def _on_device(trace: Trace, device: Any) -> Activity:
    kinds = kinds_of(trace.names)[trace.name]
    kinds[trace.category == Category.COPY] = KINDS.index(COPY)
    kinds[device & _launched_by_optimizer(trace) & (kinds < KINDS.index(COPY))] = KINDS.index(
        Cause.OPTIMIZER
    )
    is_collective = np.zeros(len(trace), bool)
    is_collective[list(trace.collectives)] = True
    is_collective &= device
    return _sorted(trace, kinds, device & ~is_collective, is_collective, on_device=True)


def _on_host(trace: Trace) -> Activity:
    """Operators on all threads; the optimizer by its annotation, collectives by their calls."""
    kinds = kinds_of(trace.names)[trace.name]
    frame = np.array([bool(_NO_WORK.match(name)) for name in trace.names], bool)[trace.name]
    step = _matches(trace, _OPTIMIZER) & (trace.category != Category.PYTHON)
    kinds[step] = KINDS.index(Cause.OPTIMIZER)
    work = ((trace.category == Category.OPERATOR) & ~frame) | step
    calls = _matches(trace, _HOST_CALLS) & (trace.category != Category.PYTHON)
    return _sorted(trace, kinds, work & ~calls, calls, on_device=False)


def _sorted(trace: Trace, kinds: Any, work: Any, calls: Any, *, on_device: bool) -> Activity:
    def spans(events: Any) -> Spans:
        return merged(trace.start_ns[events], trace.end_ns[events])

    channels: dict[CollectiveKey, list[int]] = {}
    for event in np.flatnonzero(calls).tolist():
        told = trace.collectives.get(event)
        channel = CollectiveKey(told.kind, told.group or "") if told else CollectiveKey("other")
        channels.setdefault(channel, []).append(event)
    causes = COMPUTE if on_device else (*COMPUTE, COPY)
    compute = {cause: spans(work & (kinds == KINDS.index(cause))) for cause in causes}
    events = {channel: np.array(channels[channel]) for channel in sorted(channels)}
    return Activity(
        compute={cause: found for cause, found in compute.items() if len(found)},
        communication={channel: spans(found) for channel, found in events.items()},
        events=events,
        on_device=on_device,
        copy=spans(work & (kinds == KINDS.index(COPY))) if on_device else EMPTY,
    )


def _launched_by_optimizer(trace: Trace) -> Any:
    """Device events whose launch lies in an annotated optimizer step, whatever their names."""
    step = _matches(trace, _OPTIMIZER) & (trace.category == Category.ANNOTATION)
    inside = merged(trace.start_ns[step], trace.end_ns[step])
    launch = launches(trace)
    return (launch >= 0) & inside.holds(trace.start_ns[np.maximum(launch, 0)])


def _matches(trace: Trace, pattern: re.Pattern[str]) -> Any:
    return np.array([bool(pattern.match(name)) for name in trace.names], bool)[trace.name]


def _union(parts: list[Spans]) -> Spans:
    if not parts:
        return EMPTY
    return merged(np.concatenate([p.start for p in parts]), np.concatenate([p.end for p in parts]))
