"""Where one rank's steps go, from its trace: seconds by cause that add up exactly to the step.

Holds `RankLedger`, `Communication` and `rank_ledger`. Time with computation is the computation's;
time with communication alone is exposed communication; then copies; what is left is idle.
`IdleSpans` and `idle_of`: why the device had nothing to do. A gap ends with the event that starts
next. If the call that launched it came back only after the gap had begun, the host was late:
waiting for data, held up by a synchronisation, or slow. If it had come back before, the work was
queued and the device was slow to take it up.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.cause import Cause
from syncwall.explain.traces.activity import Activity, activity_of
from syncwall.explain.traces.spans import EMPTY, Spans, merged, shares
from syncwall.explain.traces.steps import device_windows, steps_of
from syncwall.read.trace import Category, Step, Trace, launches
from syncwall.timeline.ledger import Ledger

_DATA = re.compile(r"DataLoader|^dataloader|data_loading|\[pl\].{0,60}(fetch|next)", re.IGNORECASE)
_SYNC = re.compile(
    r"Synchronize|^Stream Sync|^Context Sync|^Event Sync|^hipMemcpyWithStream$"
    r"|^cudaMemcpy$|^hipMemcpy$|^cudaFree$|^hipFree$|_local_scalar_dense$"
)
_QUEUED_NS = 20_000
"""Longest gap between two queued kernels that counts as the device's own; kernels follow each other
within some microseconds."""
_LARGE_WAIT = 0.1
"""Share of a step from which its largest wait is the verdict on a rank alone."""
_LATENCY_NS = 100_000
"""Longest time from the end of a launch to the start of its work that counts as launching."""


@dataclass(frozen=True)
class IdleSpans:
    """Stretches without work on the device by reason; they do not overlap except `data`."""

    data: Spans
    """The host was waiting for the data loader; takes precedence over the others."""
    sync: Spans
    """The host had waited for the device, so nothing was queued when the device was done."""
    host: Spans
    """The host launched too late."""
    queued: Spans
    """Short gaps between kernels that were waiting in the queue."""

    @property
    def claims(self) -> dict[Cause, Spans]:
        """Causes in order of precedence; what none of them claims is unexplained."""
        return {
            Cause.IDLE_DATA: self.data,
            Cause.IDLE_SYNC: self.sync,
            Cause.IDLE_HOST: self.host,
            Cause.IDLE_QUEUED: self.queued,
        }


def data_loading(trace: Trace) -> Spans:
    """When the training loop waited for its next batch, by the annotations of data loaders."""
    return _named(trace, _DATA, (Category.ANNOTATION, Category.OPERATOR))


def idle_of(trace: Trace, busy: Spans, start_ns: int, end_ns: int) -> IdleSpans:
    """Reasons of the gaps in `busy`, what the device did, between two times."""
    gaps = busy.gaps(start_ns, end_ns)
    if not len(gaps):
        return IdleSpans(EMPTY, EMPTY, EMPTY, EMPTY)
    launched = _launch_ends(trace, gaps.end)
    known = launched != _UNKNOWN
    last = gaps.end >= (busy.end[-1] if len(busy) else start_ns)
    late = (known & (launched > gaps.start)) | last
    until = np.where(
        last | (gaps.end - launched <= _LATENCY_NS), gaps.end, np.minimum(launched, gaps.end)
    )
    waited = _named(trace, _SYNC, (Category.RUNTIME, Category.SYNC, Category.OPERATOR))
    held = waited.holds(gaps.start)
    queued = known & ~late & (gaps.end - gaps.start <= _QUEUED_NS)
    behind = merged(gaps.start[late], until[late])
    return IdleSpans(
        data=data_loading(trace) & behind,
        sync=merged(gaps.start[late & held], until[late & held]),
        host=merged(gaps.start[late & ~held], until[late & ~held]),
        queued=merged(gaps.start[queued], gaps.end[queued]),
    )


_UNKNOWN = np.iinfo(np.int64).min


def _launch_ends(trace: Trace, times: Any) -> Any:
    """When the launch of the device event that starts at each time came back; latest if several
    start at once.
    """
    device = np.flatnonzero((trace.category == Category.KERNEL) | (trace.category == Category.COPY))
    starts = trace.start_ns[device]
    call = launches(trace)[device]
    ends = np.where(call >= 0, trace.end_ns[np.maximum(call, 0)], _UNKNOWN)
    at = np.searchsorted(starts, times, side="left")
    inside = at < len(device)
    first = np.minimum(at, max(len(device) - 1, 0))
    if not len(device):
        return np.full(np.shape(times), _UNKNOWN)
    return np.where(inside & (starts[first] == times), ends[first], _UNKNOWN)


def _named(trace: Trace, pattern: re.Pattern[str], categories: tuple[Category, ...]) -> Spans:
    """The union of all host events of some categories whose name matches."""
    fits = np.array([bool(pattern.search(name)) for name in trace.names], bool)[trace.name]
    fits &= np.isin(trace.category, categories)
    return merged(trace.start_ns[fits], trace.end_ns[fits])


@dataclass(frozen=True, slots=True)
class Communication:
    """One kind of collective in one process group, per step."""

    kind: str
    group: str
    """Name of the group; empty if the trace does not tell."""
    calls: float
    bytes: float | None
    """Of all calls together; None if the trace does not tell."""
    exposed_s: float
    """With no computation beside it; time in which several ran at once counts to the first."""
    hidden_s: float
    """Behind computation."""


@dataclass(frozen=True)
class RankLedger:
    """Seconds by cause of one rank."""

    ledger: Ledger
    """Mean seconds per step by cause."""
    hidden: dict[str, float]
    """Mean seconds per step of communication behind computation, by kind; not part of the step."""
    by_step: Ledger
    """`ledger` with one number for each step, as arrays."""
    steps: tuple[Step, ...]
    """Where the steps were cut, in the trace's time, on the device if there is one."""
    found_by: str
    """What told the steps: "marks", "optimizer", "period" or "whole trace"."""
    communication: tuple[Communication, ...] = ()
    on_device: bool = True
    """Whether the trace has a device; if not, the host's operators were counted."""

    @property
    def step_s(self) -> float:
        """Mean length of a step."""
        return float(self.ledger.total)

    @property
    def largest_wait(self) -> tuple[Cause | None, float]:
        """What a step waits for most, with its share of the step; None if that is little."""
        waits = {c: float(s) / self.step_s for c, s in self.ledger.items() if c.is_wait}
        largest = max(waits, key=lambda cause: waits[cause], default=None)
        if largest is None or waits[largest] < _LARGE_WAIT:
            return None, 0.0
        return largest, waits[largest]


def rank_ledger(trace: Trace, peer_waits: tuple[Any, Any] | None = None) -> RankLedger:
    """The ledger of `trace`.

    `peer_waits` are starts and ends (ns, arrays) of the time in which a collective only waited for
    another rank, as other ranks' traces tell; where nothing hides it, it is `Cause.IDLE_PEER`.
    """
    steps, found_by = steps_of(trace)
    activity = activity_of(trace)
    start, end = _windows(trace, steps, activity)
    waits = merged(*peer_waits) if peer_waits is not None else EMPTY
    claims = _claims(trace, activity, waits, int(start.min()), int(end.max()))
    lengths, _ = shares([span for _, span in claims], start, end)
    left = (end - start) - sum(lengths)
    by_step = Ledger()
    for (cause, _), length in zip(claims, lengths, strict=True):
        by_step.add(cause, length / 1e9)
    by_step.add(Cause.UNEXPLAINED if activity.on_device else Cause.IDLE_HOST, left / 1e9)
    return RankLedger(
        ledger=_mean(by_step),
        hidden=_hidden(activity, start, end),
        by_step=_some(by_step),
        steps=tuple(
            Step(s.number, int(a), int(b)) for s, a, b in zip(steps, start, end, strict=True)
        ),
        found_by=found_by,
        communication=_communication(trace, activity, start, end),
        on_device=activity.on_device,
    )


def _windows(trace: Trace, steps: tuple[Step, ...], activity: Activity) -> tuple[Any, Any]:
    if activity.on_device and steps:
        return device_windows(trace, steps)
    return (
        np.array([step.start_ns for step in steps], np.int64),
        np.array([step.end_ns for step in steps], np.int64),
    )


def _claims(
    trace: Trace, activity: Activity, waits: Spans, start: int, end: int
) -> list[tuple[Cause, Spans]]:
    """Causes with their time, in order of precedence."""
    claims = list(activity.compute.items())
    talking = [(Cause.exposed(c.kind), span) for c, span in activity.communication.items()]
    together = EMPTY
    for _, span in talking:
        together = together | span
    claims += [(Cause.IDLE_PEER, waits & together), *talking, (Cause.COPY, activity.copy)]
    if activity.on_device:
        return claims + list(idle_of(trace, activity.busy, start, end).claims.items())
    return [(Cause.IDLE_DATA, data_loading(trace)), *claims]


def _hidden(activity: Activity, start: Any, end: Any) -> dict[str, float]:
    hidden: dict[str, float] = defaultdict(float)
    computing = activity.computing
    for channel, span in activity.communication.items():
        hidden[channel.kind] += float((span & computing).within(start, end).mean()) / 1e9
    return {kind: seconds for kind, seconds in hidden.items() if seconds > 0}


def _communication(
    trace: Trace, activity: Activity, start: Any, end: Any
) -> tuple[Communication, ...]:
    computing, taken = activity.computing, activity.computing
    found = []
    for channel, span in activity.communication.items():
        events = activity.events[channel]
        inside = events[_within_a_step(trace.start_ns[events], start, end)]
        told = [
            trace.collectives[e].bytes if e in trace.collectives else None for e in inside.tolist()
        ]
        sizes = [size for size in told if size is not None]
        found.append(
            Communication(
                kind=channel.kind,
                group=channel.group,
                calls=len(inside) / len(start),
                bytes=sum(sizes) / len(start) if sizes and len(sizes) == len(told) else None,
                exposed_s=float((span - taken).within(start, end).mean()) / 1e9,
                hidden_s=float((span & computing).within(start, end).mean()) / 1e9,
            )
        )
        taken = taken | span
    return tuple(found)


def _within_a_step(times: Any, start: Any, end: Any) -> Any:
    """Which times lie in one of the steps; steps may overlap on the device."""
    order = np.argsort(start)
    begun = np.searchsorted(start[order], times, side="right") - 1
    latest_end = np.maximum.accumulate(end[order])
    return (begun >= 0) & (times < latest_end[np.maximum(begun, 0)])


def _mean(ledger: Ledger) -> Ledger:
    return Ledger({cause: float(np.mean(s)) for cause, s in ledger.items()}).without_zeros()


def _some(ledger: Ledger) -> Ledger:
    """Only causes with any time in any step."""
    return Ledger({cause: s for cause, s in ledger.items() if np.any(s > 0)})
