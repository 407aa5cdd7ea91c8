"""The device's time over the whole trace in three parts, as Holistic Trace Analysis counts them.

Holds `Breakdown` and `breakdown_of`, for comparison with other tools; `rank_ledger` says more.
"""

from dataclasses import dataclass

from syncwall.explain.traces.activity import EMPTY, activity_of
from syncwall.read.trace import Trace


@dataclass(frozen=True, slots=True)
class Breakdown:
    """From the first to the last event on the device."""

    total_s: float
    idle_s: float
    """Nothing ran."""
    compute_s: float
    """Any computation ran, copies not counted."""
    non_compute_s: float
    """Only communication or copies ran."""
    overlap: float | None
    """Share of communication behind computation; None without communication."""


def breakdown_of(trace: Trace) -> Breakdown | None:
    """None if the trace has no device."""
    activity = activity_of(trace)
    busy = activity.busy
    if not activity.on_device or not len(busy):
        return None
    computing, talking = activity.computing, EMPTY
    for span in activity.communication.values():
        talking = talking | span
    total_ns = int(busy.end[-1] - busy.start[0])
    return Breakdown(
        total_s=total_ns / 1e9,
        idle_s=(total_ns - busy.length) / 1e9,
        compute_s=computing.length / 1e9,
        non_compute_s=(busy.length - computing.length) / 1e9,
        overlap=(talking & computing).length / talking.length if talking.length else None,
    )
