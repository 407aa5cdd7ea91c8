"""Reads what the PyTorch profiler (Kineto) writes: JSON, plain or packed with gzip.

Kineto writes an event as "ph", "cat", "name", "pid", "tid", "ts", "dur", and "args", in this order
since 2021, with or without line breaks. Decoding all of it costs more than cutting out these
values; an event that is written otherwise is decoded, and a text that is not understood is left to
the caller as a whole.

The file is walked through once; only columns of numbers stay in memory.
"""

import gc
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.read.json_array import JsonArray
from syncwall.read.limited import open_limited, plain_text
from syncwall.read.trace import (
    HOST_CALLS,
    Category,
    Step,
    Trace,
    TracedCollective,
    collective_kind,
    communication_of,
    dtype_bytes,
)

_NUMBER = r'"\s*:\s*(\d{1,18})\s*[,}]'
_CORRELATION = re.compile('"correlation' + _NUMBER)
_STREAM = re.compile('"stream' + _NUMBER)
_END = re.compile(r"\}\s*\]")
_DECODE = json.JSONDecoder(strict=False).raw_decode
_RECORD = "record_param_comms"
_ON_DEVICE = (int(Category.KERNEL), int(Category.COPY), int(Category.DEVICE_ANNOTATION))
_LINKED = frozenset(int(c) for c in (*_ON_DEVICE, Category.RUNTIME))


class Rows(NamedTuple):
    """Events of one text."""

    events: int
    """All of them, marks and flows too."""
    kept: list[tuple[int, int, float, float, int, int, int]]
    """Name, category, start and duration (us), thread, stream, correlation."""
    decoded: list[dict[str, Any]]
    """Events that were not written as usual, or that tell of a collective."""


class QuickEvents:
    """Remembers the beginnings of events, of which a trace has few different ones."""

    def __init__(self, names: dict[Any, int], threads: dict[Any, int], categories: dict[Any, int]) -> None:
        """The dictionaries number what they have not seen."""
        self._names = names
        self._threads = threads
        self._categories = categories
        self._heads: dict[str, tuple[int, int]] = {}
        self._places: dict[str, int] = {}
        self._records: set[int] = set()
        self._calls: set[int] = set()

    def rows(self, text: str) -> Rows | None:
        """Events of `text`, whole events with commas between; None if it is written otherwise."""
        if _END.search(text):
            return None
        first, *pieces = text.split('"ph"')
        if first.strip() != "{":
            return None
        try:
            return self._rows(pieces)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            return None

    def _rows(self, pieces: list[str]) -> Rows:
        rows = Rows(len(pieces), [], [])
        heads, places, keep = self._heads, self._places, rows.kept.append
        for piece in pieces:
            if '"X"' not in piece[:6]:
                continue
            at, time, args = piece.find('"pid"'), piece.find('"ts"'), piece.find('"args"')
            if not 0 < at < time < args:
                rows.decoded.append(_decoded(piece))
                continue
            head = heads.get(piece[:at]) or self._head(piece[:at])
            place = places.get(piece[at:time])
            if place is None:
                place = self._place(piece[at:time])
            start, length, _ = piece[time + 4 : args].split(",")
            label, _, duration = length.partition(":")
            if label.strip() != '"dur"':
                raise ValueError
            began, category = float(start.strip(" \t\r\n:")), head[1]
            told = head[0] in self._records or head[0] in self._calls
            if category not in _LINKED and not told:
                keep((head[0], category, began, float(duration), place, -1, 0))
            elif head[0] in self._calls or "Collective name" in piece:
                rows.decoded.append(_decoded(piece))
            else:
                number, stream = _links(piece, args, category)
                keep((head[0], category, began, float(duration), place, stream, number))
        return rows

    def _head(self, text: str) -> tuple[int, int]:
        event = json.loads('{"ph"' + text.rstrip().rstrip(",") + "}", strict=False)
        if event["ph"] != "X" or not isinstance(event["name"], str):
            raise ValueError
        self._heads[text] = found = (self._names[event["name"]], self._categories[event.get("cat")])
        if event["name"] == _RECORD:
            self._records.add(found[0])
        if event["name"].startswith(HOST_CALLS):
            self._calls.add(found[0])
        return found

    def _place(self, text: str) -> int:
        ids = json.loads("{" + text.rstrip().rstrip(",") + "}")
        self._places[text] = found = self._threads[ids["pid"], ids["tid"]]
        return found


def _links(piece: str, args: int, category: int) -> tuple[int, int]:
    """Correlation and stream of an event on the device, or of the call that launched it."""
    match = _CORRELATION.search(piece, args)
    number = int(match.group(1)) if match else 0
    if category not in _ON_DEVICE:
        return number, -1
    found = _STREAM.search(piece, args)
    if found is None:
        raise ValueError
    return number, int(found.group(1))


def _decoded(piece: str) -> dict[str, Any]:
    event, _ = _DECODE('{"ph"' + piece)
    if not isinstance(event, dict) or "name" not in event:
        raise ValueError
    return cast("dict[str, Any]", event)


CATEGORIES: Final = {
    "kernel": Category.KERNEL,
    "gpu_memcpy": Category.COPY,
    "gpu_memset": Category.COPY,
    "memcpy": Category.COPY,
    "memset": Category.COPY,
    "cpu_op": Category.OPERATOR,
    "operator": Category.OPERATOR,
    "cuda_runtime": Category.RUNTIME,
    "cuda_driver": Category.RUNTIME,
    "runtime": Category.RUNTIME,
    "hip_runtime": Category.RUNTIME,
    "xpu_runtime": Category.RUNTIME,
    "privateuse1_runtime": Category.RUNTIME,
    "user_annotation": Category.ANNOTATION,
    "gpu_user_annotation": Category.DEVICE_ANNOTATION,
    "python_function": Category.PYTHON,
    "cuda_sync": Category.SYNC,
    "overhead": Category.OVERHEAD,
}
"""Category by the event's "cat" in small letters; Kineto before 2022 wrote "Kernel", "Operator"."""
_EVENTS_ON_DEVICE = (Category.KERNEL, Category.COPY, Category.DEVICE_ANNOTATION)
_LONGEST_US = 1e13
_WHOLE_INPUT = ("all-reduce", "broadcast")
"""Collectives whose input is what nccl-tests counts."""
_NO_ARGS: Final[dict[str, Any]] = {}


def _distinct(key: Any) -> bool:
    """False for numbers that can be chosen to have one hash, which makes each look-up a search."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(isinstance(part, str | None) or abs(part) < 1 << 60 for part in parts)


class _Numbering(dict[Any, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: Any) -> int:
        if not _distinct(key):
            raise ValueError
        self[key] = number = len(self)
        return number


class _Categories(dict[Any, int]):
    def __missing__(self, key: Any) -> int:
        if not isinstance(key, str | None):
            raise ValueError
        self[key] = category = int(CATEGORIES.get(plain_text(key).lower(), Category.OTHER))
        return category


class EventColumns:
    """Events seen so far; `add` takes a batch, `column` gives one of them as an array."""

    def __init__(self) -> None:
        self.events = 0
        """All events of the file, marks and flows too."""
        self.damaged = 0
        self.names = _Numbering()
        self.threads = _Numbering()
        self.collectives: dict[int, TracedCollective] = {}
        self.device: int | None = None
        self.origin_us: float | None = None
        self.kept = 0
        self._categories = _Categories()
        self._quick = QuickEvents(self.names, self.threads, self._categories)
        self._parts: dict[str, list[Any]] = {
            key: [] for key in ("name", "category", "start", "duration", "thread", "stream", "correlation")
        }

    def add(self, batch: list[Any]) -> None:
        """Take over the events of `batch` that have a duration."""
        self.events += len(batch)
        try:
            self._take([e for e in batch if e.get("ph") == "X"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            sound = [e for e in map(_sound, batch) if e is not None]
            lost = sum(1 for e in batch if not isinstance(e, dict) or e.get("ph") == "X")
            self.damaged += lost - len(sound)
            self._take(sound)

    def add_text(self, text: str) -> bool:
        """Take over events from their text, if they are written as usual; else False."""
        rows = self._quick.rows(text)
        if rows is None or not rows.kept:
            return False
        name, category, began, length, thread, stream, correlation = zip(*rows.kept, strict=True)
        start_us, length_us = np.array(began), np.array(length)
        origin_us = self._origin(start_us)
        start_us -= origin_us
        if not _possible(start_us, length_us).all() or max(stream) >= 1 << 31:
            return False
        before, self.origin_us = self.origin_us, origin_us
        try:
            self._take(rows.decoded)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.origin_us = before
            return False
        self._keep(
            name=np.array(name, np.int32),
            category=np.array(category, np.int8),
            thread=np.array(thread, np.int32),
            stream=np.array(stream, np.int32),
            correlation=np.array(correlation, np.int64),
            start_us=start_us,
            length_us=length_us,
        )
        self.events += rows.events
        return True

    def column(self, key: str, dtype: Any) -> Any:
        """One column of all events; it is given away, not kept."""
        parts = self._parts.pop(key)
        return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)

    def _take(self, events: list[dict[str, Any]]) -> None:
        if not events:
            return
        start_us = np.array([e["ts"] for e in events], np.float64)
        length_us = np.array([e.get("dur", 0) for e in events], np.float64)
        origin_us = self._origin(start_us)
        start_us -= origin_us
        good = _possible(start_us, length_us)
        if not good.all():
            self.damaged += int((~good).sum())
            events = [e for e, fine in zip(events, good, strict=True) if fine]
            start_us, length_us = start_us[good], length_us[good]
        args = [e.get("args") or _NO_ARGS for e in events]
        correlation = np.array([a.get("correlation", 0) for a in args], np.int64)
        numbers, threads, categories = self.names, self.threads, self._categories
        name = np.array([numbers[e["name"]] for e in events], np.int32)
        category = np.array([categories[e.get("cat")] for e in events], np.int8)
        thread = np.array([threads[e.get("pid"), e.get("tid")] for e in events], np.int32)
        stream = self._streams(events, args, category)
        told = [i for i, a in enumerate(args) if "Collective name" in a]
        found = {self.kept + i: _collective(args[i]) for i in told}
        for i in np.flatnonzero(category == Category.ANNOTATION).tolist():
            if events[i]["name"].startswith(HOST_CALLS):
                found[self.kept + i] = _called(events[i]["name"], args[i])
        self.origin_us = origin_us
        self.collectives |= found
        self._keep(
            name=name,
            category=category,
            thread=thread,
            stream=stream,
            correlation=correlation,
            start_us=start_us,
            length_us=length_us,
        )

    def _keep(self, *, start_us: Any, length_us: Any, **columns: Any) -> None:
        self.kept += len(start_us)
        columns["start"] = np.rint(start_us * 1e3).astype(np.int64)
        columns["duration"] = np.rint(length_us * 1e3).astype(np.int64)
        for key, values in columns.items():
            self._parts[key].append(values)

    def _origin(self, start_us: Any) -> float:
        if self.origin_us is not None:
            return self.origin_us
        finite = start_us[np.isfinite(start_us)]
        return float(np.floor(np.median(finite))) if len(finite) else 0.0

    def _streams(self, events: list[dict[str, Any]], args: list[dict[str, Any]], category: Any) -> Any:
        stream = np.full(len(events), -1, np.int32)
        where = np.flatnonzero(np.isin(category, _EVENTS_ON_DEVICE))
        for i in where:
            value = args[i].get("stream", events[i].get("tid"))
            stream[i] = value if isinstance(value, int) and 0 <= value < 1 << 31 else 0
        if self.device is None and len(where):
            device = args[where[0]].get("device")
            self.device = device if isinstance(device, int) else None
        return stream


def _possible(start_us: Any, length_us: Any) -> Any:
    """Times that a trace can have; false for NaN."""
    return (np.abs(start_us) < _LONGEST_US) & (length_us >= 0) & (length_us < _LONGEST_US)


def _sound(event: Any) -> dict[str, Any] | None:
    """An event with what `_take` needs, or None."""
    if not isinstance(event, dict) or event.get("ph") != "X":
        return None
    start, length = _number(event.get("ts")), _number(event.get("dur", 0))
    name = event.get("name")
    if start is None or length is None or not isinstance(name, str):
        return None
    given = event.get("args")
    args = dict(given) if isinstance(given, dict) else {}
    correlation = args.get("correlation", 0)
    whole = isinstance(correlation, int) and abs(correlation) < 1 << 62
    args["correlation"] = correlation if whole else 0
    return {
        "ts": start,
        "dur": length,
        "name": name,
        "cat": plain_text(event.get("cat")),
        "pid": plain_text(event.get("pid")),
        "tid": plain_text(event.get("tid")),
        "args": args,
    }


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _collective(args: dict[str, Any]) -> TracedCollective:
    """What the metadata of a collective says; its keys are those of PyTorch's ParamCommsUtils."""
    elements = [_number(args.get(key)) for key in ("In msg nelems", "Out msg nelems")]
    dtype = args.get("dtype")
    size = dtype_bytes(dtype) if isinstance(dtype, str) else None
    counts = [n for n in elements if n is not None and 0 <= n < 1e18]
    ranks, number = _number(args.get("Group size")), _number(args.get("Seq"))
    group = args.get("Process Group Name")
    return TracedCollective(
        kind=_recorded_kind(plain_text(args["Collective name"])),
        bytes=max(counts) * size if counts and size else None,
        dtype=dtype if isinstance(dtype, str) else None,
        group=plain_text(group) or None,
        ranks=int(ranks) if ranks is not None and 0 < ranks < 1e9 else None,
        sequence=int(number) if number is not None and abs(number) < 1e18 else None,
    )


def _called(name: str, args: dict[str, Any]) -> TracedCollective:
    """A collective on the host: its size is in the shapes, if those were recorded."""
    kind, shapes, types = collective_kind(name), args.get("Input Dims"), args.get("Input type")
    dtype = types[0] if isinstance(types, list) and types else None
    size = dtype_bytes(dtype) if isinstance(dtype, str) else None
    shape = shapes[0] if isinstance(shapes, list) and shapes else None
    elements = None
    if isinstance(shape, list) and all(isinstance(n, int) and 0 <= n < 1 << 40 for n in shape):
        elements = float(np.prod([float(n) for n in shape]))
    whole = elements is not None and size is not None and kind in _WHOLE_INPUT
    return TracedCollective(
        kind,
        bytes=elements * size if whole else None,  # type: ignore[operator]
        dtype=dtype if isinstance(dtype, str) else None,
    )


def _recorded_kind(name: str) -> str:
    return "wait" if name == "wait" else collective_kind(name)


_RANK = re.compile(r"(?:^|[^a-z])rank[-_]?(\d{1,6})", re.IGNORECASE)
_WORKER = re.compile(r"(?:^|[^a-z])worker[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
_RANK_FOLDER = re.compile(r"rank[-_]?(\d{1,6})", re.IGNORECASE)
_HOST = re.compile(r"^(?P<host>[A-Za-z0-9.-]+)_(?P<process>\d{1,9})\.\d+\.pt\.trace\.json")
_KEPT = (
    "schemaVersion",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "record_shapes",
    "with_stack",
    "profile_memory",
    "traceName",
)


@dataclass(frozen=True)
class Facts:
    """Of one trace."""

    rank: int | None = None
    rank_from: str = ""
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
    is_said = rank is not None
    rank = rank if is_said else _named_rank(path)
    named = _HOST.match(path.name)
    more = {key: head[key] for key in _KEPT if isinstance(head.get(key), str | int | float)}
    more |= {key: plain_text(info[key]) for key in ("backend", "nccl_version") if info.get(key)}
    more |= {"groups": groups} if (groups := _groups(info)) else {}
    return Facts(
        rank=rank,
        rank_from="" if is_said or rank is None else "name",
        world_size=ranks,
        device=_device(head, device),
        host=_host(head) or (named.group("host") if named else None),
        base_ns=_whole(head.get("baseTimeNanoseconds")) or 0,
        more=more,
    )


def _named_rank(path: Path) -> int | None:
    """The rank in the name of a file, or of its folder; a host may be called worker-3, too."""
    found = _RANK.search(path.name) or _RANK_FOLDER.fullmatch(path.parent.name)
    if found is None and not _HOST.match(path.name):
        found = _WORKER.search(path.name)
    return int(found[1]) if found else None


def ranks_by_order(paths: Iterable[Path | str]) -> dict[str, int]:
    """A rank for each file by its place among the others, numbers as such; by host and process if named."""
    keys = {str(path): _place(Path(path)) for path in paths}
    places = {key: number for number, key in enumerate(sorted(set(keys.values())))}
    return {path: places[key] for path, key in keys.items()}


def _place(path: Path) -> tuple[tuple[str, int], ...]:
    named = _HOST.match(path.name)
    text = f"{path.parent}/{named['host']}_{named['process']}" if named else str(path)
    parts = re.findall(r"(\D*)(\d{0,18})", text)
    return tuple((words, int(number or -1)) for words, number in parts)


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
            ranks = tuple(r for r in members if isinstance(r, int)) if isinstance(members, list) else ()
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
        is_whole = not array.problems and "nodes" not in array.head
        raise (EmptyInput if is_whole else InputError).of(_why_not(array), file=str(path))
    if columns.damaged:
        problems += (Problem(str(path), 0, 0, f"{columns.damaged} events without name or time"),)
    return _trace(path, columns, array.head, problems)


def _trace(path: Path, columns: EventColumns, head: dict[str, Any], problems: tuple[Problem, ...]) -> Trace:
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
        rank_from=facts.rank_from,
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
    numbers = {i: name[len(_STEP) :] for i, name in enumerate(trace.names) if name.startswith(_STEP)}
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
    return 'has no event in "traceEvents"; a profiler trace is written by export_chrome_trace'


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
