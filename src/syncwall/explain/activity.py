"""What ran when, by cause: on the device, or on the host for traces without one.

Holds `Activity`, `activity_of` and `Channel`, a kind of collective in a process group.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.kernels import COMPUTE, COPY, KINDS, kinds_of
from syncwall.explain.spans import EMPTY, Spans, merged
from syncwall.read.kineto_collectives import launches
from syncwall.read.trace import Category, Trace

_OPTIMIZER = re.compile(r"^Optimizer\.(step|zero_grad)#")
_HOST_CALLS = re.compile(r"^(gloo|nccl|mpi|ucc|xccl|hccl):")
_NO_WORK = re.compile(
    r"^(record_param_comms|c10d::|gloo:|nccl:|mpi:|ucc:|autograd::engine::|"
    r"torch::autograd::|DataLoader|enumerate\(DataLoader|TorchDynamo|"
    r"Torch-Compiled Region|## Call CompiledFxGraph)"
)
"""Operators that only frame others, or that start communication."""


@dataclass(frozen=True, order=True)
class Channel:
    """One kind of collective in one process group."""

    kind: str
    group: str = ""
    """Name of the group; empty if the trace does not tell."""


@dataclass(frozen=True)
class Activity:
    """When what ran."""

    compute: dict[str, Spans]
    """By cause, in order of precedence."""
    communication: dict[Channel, Spans]
    events: dict[Channel, Any]
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
        "optimizer"
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
    kinds[step] = KINDS.index("optimizer")
    work = ((trace.category == Category.OPERATOR) & ~frame) | step
    calls = _matches(trace, _HOST_CALLS) & (trace.category != Category.PYTHON)
    return _sorted(trace, kinds, work & ~calls, calls, on_device=False)


def _sorted(trace: Trace, kinds: Any, work: Any, calls: Any, *, on_device: bool) -> Activity:
    def spans(events: Any) -> Spans:
        return merged(trace.start_ns[events], trace.end_ns[events])

    channels: dict[Channel, list[int]] = {}
    for event in np.flatnonzero(calls).tolist():
        told = trace.collectives.get(event)
        channel = Channel(told.kind, told.group or "") if told else Channel("other")
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
