"""Where one training step ends and the next begins.

Holds `steps_of`, on the host's clock, and `device_windows`, the same steps as the device sees them.
"""

import re
from itertools import pairwise
from typing import Any

import numpy as np

from syncwall.explain.traces.activity import KINDS, kinds_of
from syncwall.read.trace import Category, Step, Trace, launches

_OPTIMIZER = re.compile(r"^Optimizer\.step#")
_SLACK = 0.05
"""Share of a step that may lie between two marks and still belong to the first."""
_REGULAR = 0.10
"""Relative scatter of the distances up to which something counts as repeated every step."""

_COVERED = 0.6
"""Share of the trace that repetitions must reach over to be steps; layers of a step do not."""


def steps_of(trace: Trace) -> tuple[tuple[Step, ...], str]:
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
    annotated = np.array([bool(_OPTIMIZER.match(name)) for name in trace.names])[trace.name]
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
        if 4 <= len(group) <= 1000
        and group[-1] - group[0] >= _COVERED * span
        and _is_regular(group)
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
