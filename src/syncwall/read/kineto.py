"""Reads what the PyTorch profiler (Kineto) writes: JSON, plain or packed with gzip.

Holds `read_trace`. The file is walked through once; only columns of numbers stay in memory. `Facts`
and `facts_of`: what a profiler trace says besides its events: rank, ranks, device, host, versions.
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from syncwall.problems import InputError, Problem
from syncwall.read.json_array import JsonArray
from syncwall.read.kineto_collectives import communication_of
from syncwall.read.kineto_events import EventColumns
from syncwall.read.limited import open_limited
from syncwall.read.trace import Category, Step, Trace
from syncwall.read.whole_json import plain_text

_RANK = re.compile(r"(?:^|[^a-z])rank[-_]?(\d{1,6})", re.IGNORECASE)
_HOST = re.compile(r"^(?P<host>[A-Za-z0-9.-]+)_\d+\.\d+\.pt\.trace\.json")
_KEPT = (
    "schemaVersion", "cuda_runtime_version", "cuda_driver_version", "cupti_version",
    "hip_runtime_version", "record_shapes", "with_stack", "profile_memory", "traceName",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """Of one trace."""

    rank: int | None = None
    world_size: int | None = None
    device: str | None = None
    host: str | None = None
    base_ns: int = 0
    """Time of day that the file's times count from."""
    more: dict[str, Any] = field(default_factory=dict)
    """Versions, the backend, process groups by name: (description, ranks)."""


def facts_of(head: dict[str, Any], path: Path, device: int | None) -> Facts:
    """From the values beside the events; `device` is the number of the one that was used."""
    given = head.get("distributedInfo")
    info = given if isinstance(given, dict) else {}
    rank, ranks = _whole(info.get("rank")), _whole(info.get("world_size"))
    match = _RANK.search(path.name)
    if rank is None and match:
        rank = int(match.group(1))
    named = _HOST.match(path.name)
    more = {key: head[key] for key in _KEPT if isinstance(head.get(key), str | int | float)}
    more |= {key: plain_text(info[key]) for key in ("backend", "nccl_version") if info.get(key)}
    more |= {"groups": groups} if (groups := _groups(info)) else {}
    return Facts(
        rank=rank,
        world_size=ranks,
        device=_device(head, device),
        host=_host(head) or (named.group("host") if named else None),
        base_ns=_whole(head.get("baseTimeNanoseconds")) or 0,
        more=more,
    )


def _whole(value: Any) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
    return value if sound else None


def _device(head: dict[str, Any], number: int | None) -> str | None:
    listed = head.get("deviceProperties")
    devices = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
    chosen = [d for d in devices if d.get("id") == number] or devices
    name = chosen[0].get("name") if chosen else None
    return name if isinstance(name, str) else None


def _host(head: dict[str, Any]) -> str | None:
    """As `syncwall measure step --profile` or the profiler wrote it."""
    names = (head.get(key) for key in ("syncwall_host", "host_name"))
    return next((name for name in names if isinstance(name, str) and name), None)


def _groups(info: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    listed = info.get("pg_config")
    groups = {}
    for group in listed if isinstance(listed, list) else ():
        if isinstance(group, dict) and "pg_name" in group:
            members = group.get("ranks")
            ranks = (
                tuple(r for r in members if isinstance(r, int)) if isinstance(members, list) else ()
            )
            groups[plain_text(group["pg_name"])] = (plain_text(group.get("pg_desc")), ranks)
    return groups


_FIRST_KEY = r'"(?:ph|cat|name|pid|ts)"\s*:'
_STEP = "ProfilerStep#"


def read_trace(path: Path | str) -> Trace:
    """The events of one rank; raises `InputError` if the file is not a profiler trace.

    A damaged file gives the events that can be read, and says in `problems` what is missing.
    """
    path = Path(path)
    columns = EventColumns()
    with open_limited(path) as stream, _no_collection():
        array = JsonArray(stream, str(path), "traceEvents", _FIRST_KEY, columns.add_text)
        for batch in array.batches():
            columns.add(batch)
        problems = array.problems
    if not array.found or not columns.kept:
        raise InputError.of(_why_not(array), file=str(path))
    if columns.damaged:
        problems += (Problem(str(path), 0, 0, f"{columns.damaged} events without name or time"),)
    return _trace(path, columns, array.head, problems)


def _trace(
    path: Path, columns: EventColumns, head: dict[str, Any], problems: tuple[Problem, ...]
) -> Trace:
    start = columns.column("start", np.int64)
    order = np.argsort(start, kind="stable")
    first = int(start[order[0]])
    facts = facts_of(head, path, columns.device)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    trace = Trace(
        source=str(path),
        names=[str(name) for name in columns.names],
        name=columns.column("name", np.int32)[order],
        category=columns.column("category", np.int8)[order],
        start_ns=start[order] - first,
        duration_ns=columns.column("duration", np.int64)[order],
        thread=columns.column("thread", np.int32)[order],
        stream=columns.column("stream", np.int32)[order],
        correlation=columns.column("correlation", np.int64)[order],
        collectives={int(place[i]): c for i, c in columns.collectives.items()},
        base_ns=facts.base_ns + int(columns.origin_us or 0) * 1000 + first,
        rank=facts.rank,
        world_size=facts.world_size,
        device=facts.device,
        host=facts.host,
        facts=facts.more | {"events": columns.events},
        problems=problems,
    )
    object.__setattr__(trace, "collectives", communication_of(trace))
    object.__setattr__(trace, "steps", _marked_steps(trace))
    return trace


def _marked_steps(trace: Trace) -> tuple[Step, ...]:
    """What the profiler's schedule marked on the host; one step has one mark."""
    numbers = {
        i: name[len(_STEP) :] for i, name in enumerate(trace.names) if name.startswith(_STEP)
    }
    wanted = np.isin(trace.name, list(numbers)) & (trace.category != Category.DEVICE_ANNOTATION)
    steps: dict[int, Step] = {}
    for i in np.flatnonzero(wanted):
        number = numbers[int(trace.name[i])]
        if number.isdecimal() and len(number) < 12 and int(number) not in steps:
            start = int(trace.start_ns[i])
            steps[int(number)] = Step(int(number), start, start + int(trace.duration_ns[i]))
    return tuple(sorted(steps.values(), key=lambda step: step.start_ns))


def _why_not(array: JsonArray) -> str:
    if array.problems:
        return f"has no events that can be read: {array.problems[0].message}"
    if "nodes" in array.head:
        return "is an execution trace, not a profiler trace"
    return 'has no "traceEvents"; a profiler trace is written by export_chrome_trace'


@contextmanager
def _no_collection() -> Iterator[None]:
    """Events are trees that go away by themselves; looking for cycles in them costs a fifth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
