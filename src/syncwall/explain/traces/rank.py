"""One rank of a job from its trace: the ledger of its steps, and what comparing it with
others needs.

Time with computation is the computation's; time with communication alone is exposed communication;
then copies; what is left is idle. A gap ends with the event that starts next. If the call that
launched it came back only after the gap had begun, the host was late: waiting for data, held up by
a synchronisation, or slow. If it had come back before, the work was queued and the device was slow
to take it up.

One worker reads one rank's trace, keeps this, and forgets the trace; a thousand ranks then fit into
memory.
"""

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np

from syncwall.cause import Cause
from syncwall.explain.traces.activity import (
    EMPTY,
    Activity,
    Spans,
    activity_of,
    device_windows,
    merged,
    shares,
    trace_steps,
)
from syncwall.problems import InputError
from syncwall.read.trace import Category, Step, Trace, TracedCollective, launches
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
    return _named_spans(trace, _DATA, (Category.ANNOTATION, Category.OPERATOR))


def idle_of(trace: Trace, busy: Spans, start_ns: int, end_ns: int) -> IdleSpans:
    """Reasons of the gaps in `busy`, what the device did, between two times."""
    gaps = busy.gaps(start_ns, end_ns)
    if not len(gaps):
        return IdleSpans(EMPTY, EMPTY, EMPTY, EMPTY)
    launched = _launch_ends(trace, gaps.end)
    known = launched != _UNKNOWN
    last = gaps.end >= (busy.end[-1] if len(busy) else start_ns)
    late = (known & (launched > gaps.start)) | last
    until = np.where(last | (gaps.end - launched <= _LATENCY_NS), gaps.end, np.minimum(launched, gaps.end))
    waited = _named_spans(trace, _SYNC, (Category.RUNTIME, Category.SYNC, Category.OPERATOR))
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


def _named_spans(trace: Trace, pattern: re.Pattern[str], categories: tuple[Category, ...]) -> Spans:
    """The union of all host events of some categories whose name matches."""
    fits = np.array([bool(pattern.search(name)) for name in trace.names], bool)[trace.name]
    fits &= np.isin(trace.category, categories)
    return merged(trace.start_ns[fits], trace.end_ns[fits])


@dataclass(frozen=True, slots=True)
class CollectiveTotal:
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
    communication: tuple[CollectiveTotal, ...] = ()
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
    steps, found_by = trace_steps(trace)
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
        steps=tuple(Step(s.number, int(a), int(b)) for s, a, b in zip(steps, start, end, strict=True)),
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


def _communication(trace: Trace, activity: Activity, start: Any, end: Any) -> tuple[CollectiveTotal, ...]:
    computing, taken = activity.computing, activity.computing
    found = []
    for channel, span in activity.communication.items():
        events = activity.events[channel]
        inside = events[_within_a_step(trace.start_ns[events], start, end)]
        told = [trace.collectives[e].bytes if e in trace.collectives else None for e in inside.tolist()]
        sizes = [size for size in told if size is not None]
        found.append(
            CollectiveTotal(
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
    """Without a device the host computes; what no operator and no other kind claims is the host's own."""
    steps, _ = trace_steps(trace)
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
    seconds[:, KINDS.index("host")] += (end - start) / 1e9 - seconds.sum(axis=1)
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
    rank_from: str
    """What it was taken from where the trace does not say it: "name" or "order" of its file."""
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
        rank_from=trace.rank_from,
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
