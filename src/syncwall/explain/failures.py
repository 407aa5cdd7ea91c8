"""What ended a job: the root among what its logs say, and what followed from it.

Holds `Failure`, `FollowedBy`, `find_failure`, `is_fragmented` and `gib`. The root is the deepest
cause (hardware before a program's own error, that before a process that was killed, and that before
ranks that wait for others), of equally deep ones the first in time.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from syncwall.public import published
from syncwall.read.failure_text import (
    FailureCause,
    FailureEvent,
    FailureText,
    completion_meaning,
    failure_causes,
    unit_bytes,
    xid_meaning,
)
from syncwall.units import plural

_GIB: Final = 2.0**30
_SHARED: Final = 0.2
"""Share of a GPU's memory from which what others hold is a cause."""
_FRAGMENTED: Final = 0.1
"""Share of PyTorch's memory from which what it does not use is a cause: fragments are usual below."""
_NAMED: Final = 8
_TIME_OUT: Final = "collective time-out"
_MEMORY: Final = "GPU out of memory"


@published()
@dataclass(frozen=True, slots=True)
class FollowedBy:
    """What logs say beside the root."""

    cause: str
    count: int
    """Lines that say so."""
    ranks: tuple[int, ...]
    where: str
    """file:line of the first."""


@published()
@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job ended, as its logs say."""

    cause: str
    state: str
    """wrong, or suspect if it may be harmless."""
    what: str
    why: str
    next: str
    where: str
    """file:line of the first line that says so."""
    source: str
    """Address of the document that says what such a line means."""
    ranks: tuple[int, ...]
    """Ranks that said so."""
    silent: tuple[int, ...]
    """Ranks that should have said so and did not: the first suspects of a hang."""
    hosts: tuple[str, ...]
    followed_by: tuple[FollowedBy, ...]
    lines: int
    """Lines that were read."""


_Seen = tuple[FailureText, FailureEvent]


def find_failure(texts: Sequence[FailureText]) -> Failure | None:
    """What the logs of one job say together; None without any."""
    causes = failure_causes()
    every = [(text, event) for text in texts for event in text.events]
    if not every:
        return None
    text, root = _root(every, causes)
    cause, what = _told(root, every)
    meaning = causes[cause]
    world = max((one.world for one in texts if one.world is not None), default=None)
    same = [event for _, event in every if event.cause == root.cause]
    ranks = _ranks_of(same)
    silent = _silent(root, ranks, world)
    if silent:
        is_ = "is" if len(silent) == 1 else "are"
        what += f"; {named_ranks(silent)} did not report and {is_} the first suspect{'s' * (len(silent) > 1)}"
    return Failure(
        cause=cause,
        state=meaning.state,
        what=what,
        why="; ".join([meaning.why, *_reasons(root, every)]),
        next=_next(root, meaning, silent),
        where=f"{text.source}:{root.line}",
        source=causes["GPU lost"].source if "Xid " in root.text else meaning.source,
        ranks=ranks,
        silent=silent,
        hosts=tuple(sorted({host for event in same for host in event.hosts})),
        followed_by=tuple(_followed_by(every, root.cause)),
        lines=sum(one.lines for one in texts),
    )


def _root(every: Sequence[_Seen], causes: dict[str, FailureCause]) -> _Seen:
    """The deepest, of those the first in time if all lines have one clock, or else in its text."""
    clocks = {event.clock for _, event in every}
    one_host = len({text.source for text, _ in every}) == 1
    timed = clocks == {"wall"} or (one_host and clocks == {"boot"})

    def order(seen: _Seen) -> tuple[float, ...]:
        event = seen[1]
        is_vague = event.cause == _TIME_OUT and "operation" not in event.values
        return causes[event.cause].depth, is_vague, event.time_s if timed else 0.0, event.line

    return min(every, key=order)


def _ranks_of(events: Iterable[FailureEvent]) -> tuple[int, ...]:
    return tuple(sorted({rank for event in events for rank in event.ranks}))


def _silent(root: FailureEvent, ranks: tuple[int, ...], world: int | None) -> tuple[int, ...]:
    """Ranks of a hang that said nothing, if most of those up to the highest that did said something.

    A text with the words of few ranks is a part of the log: that others are not in it says nothing.
    """
    if root.cause != _TIME_OUT:
        return ()
    if missing := root.values.get("missing"):
        return tuple(sorted(int(rank) for rank in re.findall(r"\d{1,7}", missing)))
    size = max(ranks[-1] + 1 if ranks else 0, min(world or 0, 1 << 20))
    if len(ranks) < 2 or 2 * len(ranks) < size:
        return ()
    return tuple(sorted(set(range(size)) - set(ranks)))


def _followed_by(every: Sequence[_Seen], root: str) -> Iterator[FollowedBy]:
    where = {event.cause: f"{text.source}:{event.line}" for text, event in reversed(every)}
    for cause in dict.fromkeys(event.cause for _, event in every if event.cause != root):
        events = [event for _, event in every if event.cause == cause]
        yield FollowedBy(cause, sum(event.count for event in events), _ranks_of(events), where[cause])


def named_ranks(ranks: Sequence[int]) -> str:
    """Ranks in a few words."""
    some = ", ".join(map(str, ranks[:_NAMED])) + (", ..." if len(ranks) > _NAMED else "")
    return f"rank{'s' * (len(ranks) != 1)} {some}"


def _told(root: FailureEvent, every: Sequence[_Seen]) -> tuple[str, str]:
    """The cause, which sizes can make more exact, and what happened."""
    if root.cause == _MEMORY and "tried" in root.values:
        return _out_of_memory(root)
    said = _time_out(root, every) if root.cause == _TIME_OUT else _in_numbers(root)
    return root.cause, said or f"{root.cause}{_who(root)}: {_shortened(root.text)}"


def _in_numbers(root: FailureEvent) -> str:
    """What happened, if the line names ranks, counts or codes that say it better than its words."""
    values = root.values
    number = f" number {values['sequence']}" if "sequence" in values else ""
    if "operation" in values:
        said = f"rank {values['rank']} {values['operation']}{_shape(values.get('shape'))}"
        if "other_operation" in values:
            shape = _shape(values.get("other_shape"))
            said += f", rank {values['other']} {values['other_operation']}{shape}"
        return f"ranks differ in collective{number}: {said}"
    if "joined" in values:
        joined = f"{values['joined']} of {values['expected']} processes"
        return f"{root.cause}: {joined} had joined when it was given up"
    if root.cause == "peer late at start":
        return f"rank {values['rank']} waited in vain for rank {values['peer_rank']} to start"
    code = values.get("code", "")
    if "Xid " in root.text and code.isdecimal():
        return f"{root.cause}: Xid {code} of GPU {values['pci']} ({xid_meaning(int(code))})"
    return ""


def _shape(text: str | None) -> str:
    return f" of [{text}]" if text else ""


def _who(event: FailureEvent) -> str:
    """Rank and host in front of what was said."""
    rank, host = event.values.get("rank"), event.values.get("host")
    local = event.values.get("local_rank")
    parts = [f"rank {rank}"] if rank is not None else [f"local rank {local}"] if local is not None else []
    parts += [f"host {host}"] if host is not None else []
    return f" ({', '.join(parts)})" if parts else ""


_LONGEST: Final = 160


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()} ..."


def _group(text: str) -> str:
    """The name of "0 PG GUID 0(default_pg)", or its number."""
    named = re.search(r"\((\w{1,60})\)", text) or re.search(r"GUID (\w{1,60})", text)
    return named[1] if named else text


def _time_out(root: FailureEvent, every: Sequence[_Seen]) -> str:
    values = root.values
    what = values.get("operation", "a collective").lstrip("_")
    what += f" number {values['sequence']}" if "sequence" in values else ""
    what += f" of group {_group(values['group'])}" if "group" in values else ""
    ran = values.get("ran_ms") or values.get("timeout_ms")
    after = f" after {int(ran) / 1000:,.0f} s" if ran is not None and len(ran) < 16 else ""
    ranks = _ranks_of(event for _, event in every if event.cause == root.cause)
    seen = f", seen by {named_ranks(ranks)}" if ranks else ""
    return f"hang: {what} timed out{after}{seen}"


_REST: Final = {
    "capacity": r"total capac\w{1,3} of ([\d.]+ \w+)|; ([\d.]+ \w+) total capacity",
    "free": r"of which ([\d.]+ \w+) is free|; ([\d.]+ \w+) free",
    "own": r"this process has ([\d.]+ \w+) memory in use",
    "allocated": r"allocated memory ([\d.]+ \w+) is allocated by|; ([\d.]+ \w+) already allocated",
    "unused": r"and ([\d.]+ \w+) is reserved by \w+ but unallocated",
    "reserved": r"; ([\d.]+ \w+) (?:reserved in total|cached)",
}


@dataclass(frozen=True, slots=True)
class _Memory:
    """Bytes of one message of PyTorch."""

    tried: float
    capacity: float
    free: float
    allocated: float
    unused: float
    """Reserved by PyTorch and not in use."""
    others: float
    """Of other processes, and of CUDA itself."""


def _memory(event: FailureEvent) -> _Memory | None:
    sizes, found = event.values.get("sizes", ""), {}
    for name, pattern in _REST.items():
        if match := re.search(pattern, sizes):
            found[name] = unit_bytes(match[1] or match[2])
    tried, capacity, free = (
        unit_bytes(event.values.get("tried", "")),
        found.get("capacity"),
        found.get("free"),
    )
    allocated, reserved = found.get("allocated"), found.get("reserved")
    if tried is None or capacity is None or free is None or allocated is None:
        return None
    unused = found.get("unused")
    if unused is None:
        unused = max((reserved or allocated) - allocated, 0.0)
    listed = [unit_bytes(one) for one in re.findall(r"Process \d+ has ([\d.]+ \w+) memory in use", sizes)]
    own = max(found.get("own") or 0.0, allocated + unused)
    if not found.get("own"):  # a container may see itself under another number
        own = min((one for one in listed if one is not None and one >= own), default=own)
    return _Memory(tried, capacity, free, allocated, unused, max(capacity - free - own, 0.0))


def _out_of_memory(root: FailureEvent) -> tuple[str, str]:
    memory, tried = _memory(root), root.values["tried"]
    who = "rank " + root.values["rank"] if "rank" in root.values else "a process"
    if memory is None:
        return root.cause, f"{who} ran out of GPU memory: {tried} more were asked for"
    held = (
        f"{gib(memory.allocated)} in tensors, {gib(memory.unused)} held unused by PyTorch, "
        f"{memory.others / _GIB:.3g} GiB by others and CUDA, {gib(memory.free)} free"
    )
    what = f"{who} ran out of GPU memory: {tried} more did not fit into {gib(memory.capacity)} ({held})"
    if memory.others >= _SHARED * memory.capacity and memory.free + memory.others >= memory.tried:
        return "GPU shared with other processes", what
    pool = memory.allocated + memory.unused
    if is_fragmented(memory.unused, pool) and memory.free + memory.unused >= memory.tried:
        return "GPU memory fragmented", what
    return root.cause, what


def is_fragmented(unused: float, pool: float) -> bool:
    """Whether what PyTorch does not use of its memory is a cause."""
    return pool > 0 and unused >= _FRAGMENTED * pool


def gib(count: float) -> str:
    """As PyTorch writes it."""
    return f"{count / _GIB:.2f} GiB"


def _reasons(root: FailureEvent, every: Sequence[_Seen]) -> Iterator[str]:
    """What the lines add to the meaning of the cause."""
    values = root.values
    if root.frame:
        yield f"it was in {root.frame}"
    if "rss_kb" in values:
        held = f"{int(values['rss_kb']) / 2**20:.1f} GiB"
        yield f"{values['process']} ({values['pid']}) held {held} when it was killed"
    if means := completion_meaning(int(values.get("completion", 0))):
        yield f"status {values['completion']} of a completion means: {means}"
    if root.cause == _TIME_OUT:
        yield from _numbers(event for _, event in every if event.cause == root.cause)
    if "completed" in values and "enqueued" in values:
        yield f"number {values['completed']} was the last to end there, {values['enqueued']} the last issued"
    if root.cause == _MEMORY and (memory := _memory(root)) is not None:
        pool = memory.allocated + memory.unused
        yield f"{memory.unused / pool if pool else 0.0:.0%} of what PyTorch holds is unused"


def _numbers(events: Iterable[FailureEvent]) -> Iterator[str]:
    """Which ranks wait where, if not all at one collective."""
    numbers: dict[str, set[int]] = {}
    for event in events:
        if "sequence" in event.values:
            numbers.setdefault(event.values["sequence"], set()).update(event.ranks)
    if len(numbers) > 1:
        first = list(numbers.items())[:_NAMED]
        yield "time-outs by number: " + "; ".join(f"{one}: {named_ranks(sorted(who))}" for one, who in first)


def _next(root: FailureEvent, meaning: FailureCause, silent: tuple[int, ...]) -> str:
    """One step."""
    if silent:
        who = named_ranks(silent)
        return f"look at logs and hosts of {who}: is the process there? dmesg (Xid, out of memory)"
    memory = _memory(root) if meaning.name == _MEMORY else None
    if memory is not None and memory.tried > memory.capacity:
        return "one tensor is larger than the GPU: shorter sequences, smaller batches, or a loss in chunks"
    return meaning.next


def read_words(text: FailureText) -> str:
    """What was found in one text."""
    kinds: dict[str, int] = {}
    for event in text.events:
        kinds[event.cause] = kinds.get(event.cause, 0) + event.count
    said = ", ".join(f"{cause} ({count}x)" for cause, count in list(kinds.items())[:4])
    return f"{plural(text.lines, 'line')}: {said}{', ...' if len(kinds) > 4 else ''}"
