"""What must be known of one rank to compare it with the others: a few small arrays.

Holds `RankSummary`, `KINDS` and `rank_summary`. One worker reads one rank's trace, keeps this, and
forgets the trace; a thousand ranks then fit into memory. `OwnTime`, `KINDS`, `own_time` and `busy`:
what one rank did itself in each step, and how long it was in collectives with nothing to do.
"""

import hashlib
import re
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause
from syncwall.explain.traces.spans import Spans, merged, shares
from syncwall.explain.traces.steps import steps_of
from syncwall.problems import InputError
from syncwall.read.trace import Category, Trace, TracedCollective

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
    from syncwall.explain.traces.rank_ledger import rank_ledger

    found = rank_ledger(trace)
    seconds = np.zeros((len(found.steps), len(KINDS)))
    for cause, by_step in found.by_step.items():
        seconds[:, KINDS.index(_kind(cause))] += np.asarray(by_step)
    bounds = np.array([(one.number, one.start_ns, one.end_ns) for one in found.steps])
    return OwnTime(bounds[:, 0], bounds[:, 1], bounds[:, 2], seconds)


_WAITS: Final = {
    Cause.IDLE_PEER: "communication",
    Cause.IDLE_DATA: "data",
    Cause.IDLE_SYNC: "sync",
    Cause.IDLE_HOST: "host",
    Cause.IDLE_QUEUED: "host",
    Cause.UNEXPLAINED: "other",
}


def _kind(cause: Cause) -> str:
    """The kind of a line of the ledger."""
    return "communication" if cause.is_exposed else _WAITS.get(cause, "compute")


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


__all__ = ["KINDS", "RankSummary", "rank_summary"]

_CALL = re.compile(r"(gloo|mpi|ucc):")
"""Names of calls that last as long as the collective does."""


@dataclass(frozen=True)
class RankSummary:
    """One rank: S steps, K collectives."""

    source: str
    rank: int
    host: str | None
    world_size: int | None
    on_device: bool
    """True if kernels were recorded; otherwise the host's own work is what counts as compute."""
    step_numbers: Any
    """(S,)"""
    step_start_ns: Any
    """(S,): time of day."""
    step_s: Any
    """(S,)"""
    own_s: Any
    """(S, len(KINDS)): seconds of each step by kind; they add up to it."""
    events: Any
    """(S,): kernels, or operators where no kernels were recorded, that began in each step."""
    groups: tuple[str, ...]
    """Process groups; "" where the trace names none."""
    kinds: tuple[str, ...]
    """Kinds of collectives."""
    group: Any
    """(K,): index into `groups`."""
    kind: Any
    """(K,): index into `kinds`."""
    by_order: Any
    by_step: Any
    """(K,): numbers that are the same on all ranks of a collective, if the ranks recorded the same
    collectives, or at least the same in a step."""
    bytes: Any
    """(K,): NaN if unknown."""
    members: Any
    """(K,): ranks in the group, 0 if unknown."""
    step: Any
    """(K,): index of the step it began in, -1 if in none."""
    start_ns: Any
    """(K,): time of day."""
    duration_ns: Any
    exposed_ns: Any
    """(K,): part of it behind which nothing was computed, each moment counted once."""


def rank_summary(trace: Trace) -> RankSummary:
    """The summary of `trace`."""
    if trace.rank is None:
        raise InputError.of("does not say which rank it is from", file=trace.source)
    index, known = _collectives(trace)
    on_device = bool(np.any(trace.category == Category.KERNEL))
    own = own_time(trace, index, on_device=on_device)
    start, end = trace.start_ns[index], trace.end_ns[index]
    step = np.searchsorted(own.start_ns, start, side="right") - 1
    groups = tuple(dict.fromkeys(one.group or "" for one in known))
    kinds = tuple(dict.fromkeys(one.kind for one in known))
    by_order, by_step = _keys(known, step, own.numbers)
    computing = busy(trace, index, on_device=on_device)
    return RankSummary(
        source=trace.source,
        rank=trace.rank,
        host=trace.host,
        world_size=trace.world_size,
        on_device=on_device,
        step_numbers=own.numbers,
        step_start_ns=trace.base_ns + own.start_ns,
        step_s=(own.end_ns - own.start_ns) / 1e9,
        own_s=own.seconds,
        events=_events(trace, own.start_ns, on_device=on_device),
        groups=groups,
        kinds=kinds,
        group=np.array([groups.index(one.group or "") for one in known], dtype=np.int32),
        kind=np.array([kinds.index(one.kind) for one in known], dtype=np.int32),
        by_order=by_order,
        by_step=by_step,
        bytes=np.array([np.nan if one.bytes is None else one.bytes for one in known]),
        members=np.array([one.ranks or 0 for one in known], dtype=np.int32),
        step=step,
        start_ns=trace.base_ns + start,
        duration_ns=end - start,
        exposed_ns=_exposed(start, end, computing),
    )


def _collectives(trace: Trace) -> tuple[Any, list[TracedCollective]]:
    """Index of each collective in order of its start, and what is known of it.

    Where a device took part its kernels count, otherwise calls on the host.
    """
    known = trace.collectives
    kernels = {n: one for n, one in known.items() if trace.category[n] == Category.KERNEL}
    chosen = kernels or {n: one for n, one in known.items() if _is_call(trace, n)}
    index = np.array(sorted(chosen, key=lambda n: int(trace.start_ns[n])), dtype=np.int64)
    return index, [chosen[int(number)] for number in index]


def _is_call(trace: Trace, number: int) -> bool:
    """True for what spans a whole collective on the host, not only its start."""
    return bool(_CALL.match(trace.names[trace.name[number]]))


def _keys(known: list[TracedCollective], step: Any, numbers: Any) -> tuple[Any, Any]:
    by_order, by_step = [], []
    seen: dict[tuple[object, ...], count[int]] = {}
    for one, place in zip(known, step.tolist(), strict=True):
        what = (one.group, one.kind)  # not the size, which is recorded on some threads only
        number = int(numbers[place]) if place >= 0 else None
        if one.sequence is not None:
            by_order.append(_number(one.group, one.kind, "sequence", one.sequence))
            by_step.append(by_order[-1])
            continue
        in_all = next(seen.setdefault(what, count()))
        in_step = next(seen.setdefault((number, *what), count()))
        by_order.append(_number(*what, "order", in_all))
        by_step.append(_number(*what, "step", number, in_step))
    return np.array(by_order, dtype=np.uint64), np.array(by_step, dtype=np.uint64)


def _number(*key: object) -> int:
    """The same for the same key in every process."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "little")


def _exposed(start: Any, end: Any, computing: Any) -> Any:
    """Nanoseconds of each collective behind which nothing was computed."""
    if not len(start):
        return np.zeros(0)
    earlier = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    begun = np.minimum(np.maximum(start, earlier), end)
    return end - begun - computing.within(begun, end)


def _events(trace: Trace, starts: Any, *, on_device: bool) -> Any:
    """How much work each step holds, counted in kernels or operators."""
    kind = Category.KERNEL if on_device else Category.OPERATOR
    place = np.searchsorted(starts, trace.start_ns[trace.category == kind], side="right") - 1
    return np.bincount(place[place >= 0], minlength=len(starts))
