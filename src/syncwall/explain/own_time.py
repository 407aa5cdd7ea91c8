"""What one rank did itself in each step, and how long it was in collectives with nothing to do.

Holds `OwnTime`, `KINDS`, `own_time` and `busy`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.explain.spans import Spans, merged, shares
from syncwall.explain.steps import steps_of
from syncwall.read.trace import Category, Trace

KINDS = ("compute", "data", "gc", "host", "sync", "communication", "other")
"""How time is told apart between ranks: computation; waiting for the data loader; garbage
collection; the device waits for the host; a synchronising call; exposed communication, which
includes waiting for other ranks; what nothing explains."""
_LOADER = "DataLoader"
_COLLECTION = ("python gc", "garbage collection", "gc.collect")


@dataclass(frozen=True)
class OwnTime:
    """Steps of one rank, and their seconds by kind."""

    numbers: Any
    start_ns: Any
    end_ns: Any
    seconds: Any
    """(steps, len(KINDS)); each row adds up to its step."""


def own_time(trace: Trace, collectives: Any, *, on_device: bool) -> OwnTime:
    """The time of `trace` by step and kind; `collectives` is the index of each."""
    if on_device:
        return _from_ledger(trace)
    return _from_host(trace, collectives)


def busy(trace: Trace, collectives: Any, *, on_device: bool) -> Spans:
    """When something was computed (or loaded, on the host): a collective is hidden behind it."""
    if on_device:
        works = np.isin(trace.category, (Category.KERNEL, Category.COPY))
    else:
        works = (trace.category == Category.OPERATOR) | _named(trace, _LOADER)
    works[collectives] = False
    return merged(trace.start_ns[works], trace.end_ns[works])


def _from_ledger(trace: Trace) -> OwnTime:
    from syncwall.explain.rank_ledger import rank_ledger

    found = rank_ledger(trace)
    seconds = np.zeros((len(found.steps), len(KINDS)))
    for cause, by_step in found.by_step.items():
        seconds[:, KINDS.index(_kind(cause))] += np.asarray(by_step)
    bounds = np.array([(one.number, one.start_ns, one.end_ns) for one in found.steps])
    return OwnTime(bounds[:, 0], bounds[:, 1], bounds[:, 2], seconds)


def _kind(cause: str) -> str:
    """The kind of a line of the ledger."""
    if cause.startswith("exposed") or cause == "idle: peer":
        return "communication"
    if cause.startswith("idle: "):
        reason = cause.removeprefix("idle: ")
        return reason if reason in KINDS else "host"  # such as what lies between two kernels
    return "other" if cause == "unexplained" else "compute"


def _from_host(trace: Trace, collectives: Any) -> OwnTime:
    """Without a device the host computes: all that is not one of the other kinds is its work."""
    steps, _ = steps_of(trace)
    bounds = np.array([(one.number, one.start_ns, one.end_ns) for one in steps])
    numbers, start, end = bounds.T
    meeting = np.zeros(len(trace), dtype=bool)
    meeting[collectives] = True
    claims = {
        "data": _named(trace, _LOADER),
        "gc": _named(trace, *_COLLECTION),
        "compute": trace.category == Category.OPERATOR,
        "communication": meeting,
    }
    taken, _ = shares([_of(trace, which) for which in claims.values()], start, end)
    seconds = np.zeros((len(start), len(KINDS)))
    for kind, length in zip(claims, taken, strict=True):
        seconds[:, KINDS.index(kind)] = length / 1e9
    seconds[:, KINDS.index("compute")] += (end - start) / 1e9 - seconds.sum(axis=1)
    return OwnTime(numbers, start, end, seconds)


def _named(trace: Trace, *parts: str) -> Any:
    """Which events have one of `parts` in their name, whatever its case."""
    lower = [part.lower() for part in parts]
    chosen = [n for n, name in enumerate(trace.names) if any(p in name.lower() for p in lower)]
    return np.isin(trace.name, chosen)


def _of(trace: Trace, which: Any) -> Spans:
    return merged(trace.start_ns[which], trace.end_ns[which])
