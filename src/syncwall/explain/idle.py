"""Why the device had nothing to do.

Holds `Idle` and `idle_of`. A gap ends with the event that starts next. If the call that launched it
came back only after the gap had begun, the host was late: waiting for data, held up by a
synchronisation, or slow. If it had come back before, the work was queued and the device was slow to
take it up.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.spans import EMPTY, Spans, merged
from syncwall.read.kineto_collectives import launches
from syncwall.read.trace import Category, Trace

_DATA = re.compile(r"DataLoader|^dataloader|data_loading|\[pl\].*(fetch|next)", re.IGNORECASE)
_SYNC = re.compile(
    r"Synchronize|^Stream Sync|^Context Sync|^Event Sync|^hipMemcpyWithStream$"
    r"|^cudaMemcpy$|^hipMemcpy$|^cudaFree$|^hipFree$|_local_scalar_dense$"
)
_QUEUED_NS = 20_000
"""Longest gap between two queued kernels that counts as the device's own; kernels follow each other
within some microseconds."""
_LATENCY_NS = 100_000
"""Longest time from the end of a launch to the start of its work that counts as launching."""


@dataclass(frozen=True)
class Idle:
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
    def claims(self) -> dict[str, Spans]:
        """Causes in order of precedence; what none of them claims is unexplained."""
        return {
            "idle: data": self.data,
            "idle: sync": self.sync,
            "idle: host": self.host,
            "idle: between kernels": self.queued,
        }


def data_loading(trace: Trace) -> Spans:
    """When the training loop waited for its next batch, by the annotations of data loaders."""
    return _named(trace, _DATA, (Category.ANNOTATION, Category.OPERATOR))


def idle_of(trace: Trace, busy: Spans, start_ns: int, end_ns: int) -> Idle:
    """Reasons of the gaps in `busy`, what the device did, between two times."""
    gaps = busy.gaps(start_ns, end_ns)
    if not len(gaps):
        return Idle(EMPTY, EMPTY, EMPTY, EMPTY)
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
    return Idle(
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
