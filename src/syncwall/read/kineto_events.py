"""Profiler events as columns: takes batches of decoded events, keeps arrays.

Holds `EventColumns` and `CATEGORIES`, what Kineto calls the kinds of events.
"""

from typing import Any, Final

import numpy as np

from syncwall.read.kineto_collectives import HOST_CALLS, collective_kind, dtype_bytes
from syncwall.read.kineto_quick import QuickEvents
from syncwall.read.trace import Category, TracedCollective
from syncwall.read.whole_json import plain_text

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
_ON_DEVICE = (Category.KERNEL, Category.COPY, Category.DEVICE_ANNOTATION)
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
            key: []
            for key in ("name", "category", "start", "duration", "thread", "stream", "correlation")
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

    def _streams(
        self, events: list[dict[str, Any]], args: list[dict[str, Any]], category: Any
    ) -> Any:
        stream = np.full(len(events), -1, np.int32)
        where = np.flatnonzero(np.isin(category, _ON_DEVICE))
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
