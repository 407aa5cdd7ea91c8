"""Streams and events that write down who waits for whom.

Holds `RecordedStream` and `RecordedEvent`, which stand in for those of `torch.cuda` and
`torch.cpu`, and `Streams`, the functions of those modules around them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from syncwall.capture.tape import Tape
from syncwall.work.program import COMPUTE_STREAM


class RecordedEvent:
    """A place in a stream that others can wait for."""

    tape: Tape
    streams: "Streams"

    def __init__(self, *_: object, **__: object) -> None:
        self.calls: set[int] = set()

    def record(self, stream: "RecordedStream | None" = None) -> "RecordedEvent":
        """Remember all that is queued on a stream."""
        self.calls = self.tape.queued(None if stream is None else stream.name)
        return self

    def wait(self, stream: "RecordedStream | None" = None) -> None:
        """Let a stream wait for it."""
        self.tape.wait(self.calls, None if stream is None else stream.name)

    def synchronize(self) -> None:
        """Let the host wait for it."""
        self.streams.host_waits("Event.synchronize", self.calls)

    def query(self) -> bool:
        """Say that it has happened."""
        return True

    def elapsed_time(self, _: "RecordedEvent") -> float:
        """Milliseconds; nobody knows."""
        return 1.0


class RecordedStream:
    """A queue of calls."""

    tape: Tape
    streams: "Streams"
    event: type[RecordedEvent]

    def __init__(self, *_: object, name: str = "", **__: object) -> None:
        self.name = name or self.tape.new_stream("stream")
        self.cuda_stream = self.stream_id = id(self)

    def record_event(self, event: RecordedEvent | None = None) -> RecordedEvent:
        """Remember all that is queued."""
        return (event or self.event()).record(self)

    def wait_event(self, event: RecordedEvent | None) -> None:
        """Wait for an event."""
        if event is not None:
            self.tape.wait(event.calls, self.name)

    def wait_stream(self, stream: "RecordedStream") -> None:
        """Wait for all that is queued on another stream."""
        self.tape.wait(self.tape.queued(stream.name), self.name)

    def synchronize(self) -> None:
        """Let the host wait for it."""
        self.streams.host_waits("Stream.synchronize", self.tape.queued(self.name))

    def query(self) -> bool:
        """Say that it is idle."""
        return True

    def __enter__(self) -> "RecordedStream":
        self._context = self.streams.use(self)
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedStream) and self.name == other.name


class _Use(AbstractContextManager[RecordedStream | None]):
    """Calls go to another stream meanwhile."""

    def __init__(self, streams: "Streams", stream: RecordedStream | None) -> None:
        self.streams, self.stream = streams, stream
        self.before = streams.current

    def __enter__(self) -> RecordedStream | None:
        self.before = self.streams.current
        if self.stream is not None:
            self.streams.set(self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.streams.set(self.before)


class Streams:
    """What `torch.cuda` and `torch.cpu` offer around streams, for one tape."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.host_waits: Callable[[str, set[int]], None] = lambda name, calls: None
        """Called where the host waits; the recorder sets it."""
        members = {"tape": tape, "streams": self}
        self.event: type[RecordedEvent] = type("Event", (RecordedEvent,), members)
        self.stream: type[RecordedStream] = type(
            "Stream", (RecordedStream,), {**members, "event": self.event}
        )
        self.default = self.stream(name=COMPUTE_STREAM)
        self.current = self.default

    def set(self, stream: RecordedStream) -> None:
        """Let all following calls go to a stream."""
        self.current = stream
        self.tape.stream = stream.name

    def use(self, stream: RecordedStream | None) -> _Use:
        """Let calls go to a stream for a while."""
        return _Use(self, stream)

    def synchronize(self, *_: object) -> None:
        """Let the host wait for all that is queued."""
        self.host_waits("torch.cuda.synchronize", self.tape.everything())
