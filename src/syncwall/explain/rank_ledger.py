"""Where one rank's steps go, from its trace: seconds by cause that add up exactly to the step.

Holds `RankLedger`, `Communication` and `rank_ledger`. Time with computation is the computation's;
time with communication alone is exposed communication; then copies; what is left is idle.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.activity import Activity, activity_of
from syncwall.explain.idle import data_loading, idle_of
from syncwall.explain.spans import EMPTY, Spans, merged, shares
from syncwall.explain.steps import device_windows, steps_of
from syncwall.read.trace import Step, Trace
from syncwall.timeline.ledger import Ledger

PEER = "idle: peer"
UNEXPLAINED = "unexplained"


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
    """Mean seconds per step by cause: "GEMM", "attention", "optimizer", "convolution",
    "elementwise", "other kernels", "exposed all-reduce" ..., "copy", "idle: host", "idle: data",
    "idle: sync", "idle: between kernels", "idle: peer", "unexplained"."""
    hidden: Ledger
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


def rank_ledger(trace: Trace, peer_waits: tuple[Any, Any] | None = None) -> RankLedger:
    """The ledger of `trace`.

    `peer_waits` are starts and ends (ns, arrays) of the time in which a collective only waited for
    another rank, as other ranks' traces tell; where nothing hides it, it becomes "idle: peer".
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
    by_step.add(UNEXPLAINED if activity.on_device else "idle: host", left / 1e9)
    hidden = _hidden(activity, start, end)
    return RankLedger(
        ledger=_mean(by_step),
        hidden=_mean(hidden),
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
) -> list[tuple[str, Spans]]:
    """Causes with their time, in order of precedence."""
    claims = list(activity.compute.items())
    talking = [(f"exposed {c.kind}", span) for c, span in activity.communication.items()]
    together = EMPTY
    for _, span in talking:
        together = together | span
    claims += [(PEER, waits & together), *talking, ("copy", activity.copy)]
    if activity.on_device:
        return claims + list(idle_of(trace, activity.busy, start, end).claims.items())
    return [("idle: data", data_loading(trace)), *claims]


def _hidden(activity: Activity, start: Any, end: Any) -> Ledger:
    hidden = Ledger()
    computing = activity.computing
    for channel, span in activity.communication.items():
        hidden.add(channel.kind, (span & computing).within(start, end) / 1e9)
    return hidden


def _communication(
    trace: Trace, activity: Activity, start: Any, end: Any
) -> tuple[Communication, ...]:
    computing, taken = activity.computing, activity.computing
    found = []
    for channel, span in activity.communication.items():
        events = activity.events[channel]
        inside = events[
            np.any(
                (trace.start_ns[events][:, None] >= start)
                & (trace.start_ns[events][:, None] < end),
                axis=1,
            )
        ]
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


def _mean(ledger: Ledger) -> Ledger:
    return Ledger({cause: float(np.mean(s)) for cause, s in ledger.items()}).without_zeros()


def _some(ledger: Ledger) -> Ledger:
    """Only causes with any time in any step."""
    return Ledger({cause: s for cause, s in ledger.items() if np.any(s > 0)})
