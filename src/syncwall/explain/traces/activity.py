"""What ran when, by cause, where a training step ends, and stretches of time as arrays.

Knows names of cuBLAS, CUTLASS, cuDNN, ROCm (Tensile, MIOpen, composable kernel), Triton, PyTorch's
own kernels, and `aten::` operators for traces without a device.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause
from syncwall.read.trace import Category, Step, Trace, is_communication, launches


@dataclass(frozen=True)
class Spans:
    """Disjoint stretches in order; int64 arrays of starts and ends."""

    start: Any
    end: Any

    @property
    def length(self) -> int:
        """All stretches together."""
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return len(self.start)

    def until(self, time: Any) -> Any:
        """Length covered before each of `time`."""
        if not len(self.start):
            return np.zeros(np.shape(time), np.int64)
        before = np.concatenate([[0], np.cumsum(self.end - self.start)])
        at = np.searchsorted(self.start, time, side="right")
        last = np.maximum(at - 1, 0)
        inside = np.clip(np.minimum(time, self.end[last]) - self.start[last], 0, None)
        return np.where(at > 0, before[last] + inside, 0)

    def within(self, start: Any, end: Any) -> Any:
        """Length covered in each window from `start` to `end`."""
        return self.until(end) - self.until(start)

    def holds(self, time: Any) -> Any:
        """Whether each of `time` lies in a stretch, its end not included."""
        before = np.searchsorted(self.start, time, side="right")
        return before > np.searchsorted(self.end, time, side="right")

    def gaps(self, start: int, end: int) -> "Spans":
        """What is not covered between two times."""
        if end <= start:
            return EMPTY
        return Spans(np.array([start]), np.array([end])) - self

    def __or__(self, other: "Spans") -> "Spans":
        return merged(np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end]))

    def __and__(self, other: "Spans") -> "Spans":
        return self._where(other, inside=True)

    def __sub__(self, other: "Spans") -> "Spans":
        return self._where(other, inside=False)

    def _where(self, other: "Spans", *, inside: bool) -> "Spans":
        """The parts of these stretches that lie in `other`, or not."""
        points = np.unique(np.concatenate([self.start, self.end, other.start, other.end]))
        left, right = points[:-1], points[1:]
        keep = self.holds(left) & (other.holds(left) == inside)
        return merged(left[keep], right[keep])


EMPTY = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No time at all."""


def merged(start: Any, end: Any) -> Spans:
    """The union of stretches that may overlap, in any order; empty ones are dropped."""
    some = end > start
    start, end = np.asarray(start)[some], np.asarray(end)[some]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    new = np.concatenate([[True], start[1:] > reached[:-1]])
    last = np.concatenate([np.flatnonzero(new)[1:] - 1, [len(start) - 1]])
    return Spans(start[new], reached[last])


def shares(claims: Sequence[Spans], start: Any, end: Any) -> tuple[list[Any], Spans]:
    """Length of each claim in each window, where an earlier claim takes precedence.

    Returns one array over windows for each claim, and the union of all. What is left of a window
    is its length less the sum.
    """
    taken, before = EMPTY, np.zeros(np.shape(start), np.int64)
    lengths = []
    for claim in claims:
        taken = taken | claim
        now = taken.within(start, end)
        lengths.append(now - before)
        before = now
    return lengths, taken


COMPUTE: Final = (
    Cause.ATTENTION,
    Cause.OPTIMIZER,
    Cause.GEMM,
    Cause.CONVOLUTION,
    Cause.ELEMENTWISE,
    Cause.OTHER_KERNELS,
)
"""Causes of computation, in order of precedence where kernels of two run at once."""
COPY: Final = Cause.COPY
COMMUNICATION: Final = "communication"
KINDS: Final = (*COMPUTE, COPY, COMMUNICATION)


def _any(parts: str) -> re.Pattern[str]:
    """Any of the expressions that stand in `parts`, whatever their case."""
    return re.compile("|".join(parts.split()), re.IGNORECASE)


_RULES: Final = (
    (
        COPY,
        _any(
            r"^mem(cpy|set) ^copybuffer ^fillbuffer __amd_rocclr_(copy|fill) "
            r"^aten::(copy_|_to_copy|to$|contiguous|clone|cat$|pin_memory)"
        ),
    ),
    (Cause.ATTENTION, _any(r"flash fmha attention attn \bmha_ sdpa efficient_attention softmax_rescale")),
    (
        Cause.OPTIMIZER,
        _any(
            r"multi_?tensor fused_?(adam|sgd|lamb|adagrad|lion) adam(w)?_?kernel "
            r"^optimizer\.step ^aten::_foreach_ distributed_?adam foreach_tensor clip_grad"
        ),
    ),
    (
        Cause.CONVOLUTION,
        _any(
            r"conv(?!ert) wgrad dgrad fprop winograd implicit_?gemm miopen.*(sp3|igemm) "
            r"igemm_(fwd|bwd|wrw) ^sm\d+_xmma_(fprop|wgrad|dgrad) gemm.*_implicit cudnn_.*nhwc "
            r"im2col col2im im2d2col"
        ),
    ),
    (
        Cause.GEMM,
        _any(
            r"(?<!fb)gemm gemv \bcijk_ cublas nvjet cutlass xmma matmul \bdot_kernel "
            r"splitkreduce split_k _mm_ triton_mm triton_tem_fused \bgrouped_?mm s\d+gemm "
            r"tensorop wmma "
            r"^aten::(mm|addmm|bmm|baddbmm|linear|matmul|addbmm|_scaled_mm|mv|addmv|dot"
            r"|einsum|_grouped_mm)$ "
            r"^mkldnn.*linear (Addmm|Mm|Bmm|Linear)Backward"
        ),
    ),
    (
        Cause.ELEMENTWISE,
        _any(
            r"elementwise vectorized unrolled \bbn_ norm moments gammabeta softmax dropout "
            r"reduce average pool relu gelu silu swiglu sigmoid activation triton_ pointwise "
            r"cuComputeGrad cuApply embedding index scatter gather cat(array|_) nll_?loss "
            r"cross_entropy rotary rope cast quant transpose permute n[cd]*hw\w*to scale fill "
            r"copy sort scan cumsum topk op_tensor add_tensor bias ^aten::"
        ),
    ),
)


@lru_cache(maxsize=65536)
def activity_kind(name: str) -> str:
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
    return np.array([number[activity_kind(name)] for name in names], np.int8)


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
    kinds[device & _launched_by_optimizer(trace) & (kinds < KINDS.index(COPY))] = KINDS.index(Cause.OPTIMIZER)
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


_STEPS_OPTIMIZER = re.compile(r"^Optimizer\.step#")
_SLACK = 0.05
"""Share of a step that may lie between two marks and still belong to the first."""
_REGULAR = 0.10
"""Relative scatter of the distances up to which something counts as repeated every step."""

_COVERED = 0.6
"""Share of the trace that repetitions must reach over to be steps; layers of a step do not."""


def trace_steps(trace: Trace) -> tuple[tuple[Step, ...], str]:
    """Steps and how they were found: "marks", "optimizer", "period" or "whole trace"."""
    if trace.steps:
        return _closed(trace.steps), "marks"
    ends = _optimizer_ends(trace)
    if len(ends) >= 2:
        return _between(ends), "optimizer"
    starts = _most_regular(trace)
    if len(starts) >= 3:
        return _between(starts), "period"
    busy = _working(trace)
    first = int(trace.start_ns[busy].min())
    return (Step(0, first, max(int(trace.end_ns[busy].max()), first + 1)),), "whole trace"


def device_windows(trace: Trace, steps: tuple[Step, ...]) -> tuple[Any, Any]:
    """Start and end of each step on the device: a step ends when the host has left it and all that
    it had launched until then is done, so that queued work counts where it was asked for.
    """
    start = np.array([step.start_ns for step in steps], np.int64)
    end = np.array([step.end_ns for step in steps], np.int64)
    device = np.flatnonzero((trace.category == Category.KERNEL) | (trace.category == Category.COPY))
    launch = launches(trace)[device]
    device, launch = device[launch >= 0], launch[launch >= 0]
    if not len(device):
        return start, end
    order = np.argsort(trace.start_ns[launch], kind="stable")
    asked = trace.start_ns[launch][order]
    done = np.maximum.accumulate(trace.end_ns[device][order])

    def drained(time: Any) -> Any:
        last = np.searchsorted(asked, time, side="left") - 1
        return np.maximum(time, np.where(last >= 0, done[np.maximum(last, 0)], time))

    starts, ends = drained(start), drained(end)
    return starts, np.maximum(ends, starts + 1)


def _closed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Marks with the little time between them counted to the step before."""
    usual = float(np.median([step.end_ns - step.start_ns for step in steps]))
    closed = []
    for step, after in zip(steps, (*steps[1:], None), strict=True):
        end = max(step.end_ns, step.start_ns + 1)
        if after is not None and after.start_ns - end <= _SLACK * usual:
            end = max(after.start_ns, step.start_ns + 1)
        closed.append(Step(step.number, step.start_ns, end))
    return tuple(closed)


def _between(times: Any) -> tuple[Step, ...]:
    return tuple(Step(i, int(a), int(b)) for i, (a, b) in enumerate(pairwise(times)) if b > a)


def _optimizer_ends(trace: Trace) -> Any:
    """Ends of the optimizer's work: as annotated, else of its kernels or operators in a row."""
    annotated = np.array([bool(_STEPS_OPTIMIZER.match(name)) for name in trace.names])[trace.name]
    annotated &= trace.category != Category.DEVICE_ANNOTATION
    if annotated.any():
        return np.sort(trace.end_ns[annotated])
    kinds = kinds_of(trace.names)[trace.name]
    work = (
        (trace.category == Category.KERNEL)
        if (trace.category == Category.KERNEL).any()
        else (trace.category == Category.OPERATOR)
    )
    mine = np.flatnonzero(work & (kinds == KINDS.index("optimizer")))
    if len(mine) < 2:
        return np.zeros(0, np.int64)
    distance = np.diff(trace.start_ns[mine])
    apart = np.flatnonzero(distance > 0.3 * distance.max())
    ends = trace.end_ns[mine][np.concatenate([apart, [len(mine) - 1]])]
    return ends if _is_regular(ends) else np.zeros(0, np.int64)


def _most_regular(trace: Trace) -> Any:
    """Starts of the operator or kernel that comes back at the longest even distance."""
    work = _working(trace)
    names, starts = trace.name[work], trace.start_ns[work]
    order = np.argsort(names, kind="stable")
    names, starts = names[order], starts[order]
    edges = np.flatnonzero(np.diff(names)) + 1
    span = int(trace.end_ns[work].max() - trace.start_ns[work].min())
    found = [
        group
        for group in np.split(starts, edges)
        if 4 <= len(group) <= 1000 and group[-1] - group[0] >= _COVERED * span and _is_regular(group)
    ]
    return max(found, key=lambda group: float(np.median(np.diff(group))), default=starts[:0])


def _is_regular(times: Any) -> bool:
    distance = np.diff(times)
    usual = float(np.median(distance)) if len(distance) else 0.0
    return usual > 0 and float(np.abs(distance - usual).mean()) <= _REGULAR * usual


def _working(trace: Trace) -> Any:
    """Events that are work: on the device if there is any, else operators, else all."""
    for category in (Category.KERNEL, Category.OPERATOR):
        if (trace.category == category).any():
            return np.flatnonzero(trace.category == category)
    return np.arange(len(trace))
