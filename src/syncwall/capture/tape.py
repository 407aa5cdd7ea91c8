"""What a rank does, written down in the order in which the host issues it.

Holds `Tape`: calls on streams, with what each of them waits for. `RecordedStream` and
`RecordedEvent`, which stand in for those of `torch.cuda` and `torch.cpu`, write down who waits for
whom; `TapeStreams` are the functions of those modules around them. Nothing here needs PyTorch.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from syncwall.work.block import AnyTask, StepPhase
from syncwall.work.program import COMPUTE_STREAM, NOWHERE, Call, Note, NoteKind, SourceLocation

_OF_CALLS = (NoteKind.PLACEHOLDER, NoteKind.UNKNOWN, NoteKind.CPU_ONLY)
"""Notes that belong to a call, not to the program."""


@dataclass
class Tape:
    """Calls of one rank so far."""

    calls: list[Call] = field(default_factory=list)
    notes: list[tuple[int, Note]] = field(default_factory=list)
    """With how many calls there were when each was written down."""
    stream: str = COMPUTE_STREAM
    """What the host issues calls to now."""
    pauses: int = 0
    """More than 0 while nothing is written down."""
    _last: dict[str, int] = field(default_factory=dict)
    _awaited: dict[str, set[int]] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Write nothing down meanwhile."""
        self.pauses += 1
        try:
            yield
        finally:
            self.pauses -= 1

    def new_stream(self, name: str) -> str:
        """A name that no other stream has."""
        self._names[name] += 1
        count = self._names[name]
        return name if count == 1 else f"{name} {count}"

    def add(  # noqa: PLR0913
        self,
        name: str,
        what: AnyTask | None,
        *,
        phase: StepPhase = StepPhase.FORWARD,
        place: SourceLocation = NOWHERE,
        reads: Iterable[int] = (),
        writes: Iterable[int] = (),
        stream: str | None = None,
        micro_batch: int = 0,
    ) -> int:
        """Write a call down on the current stream, or on another one; gives its number."""
        stream = self.stream if stream is None else stream
        after = self._latest(self._awaited.pop(stream, set()), stream)
        tensors = tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
        self.calls.append(Call(name, what, stream, after, phase, place, *tensors, micro_batch=micro_batch))
        self._last[stream] = len(self.calls) - 1
        return self._last[stream]

    def add_host_wait(self, name: str, awaited: set[int], phase: StepPhase, place: SourceLocation) -> None:
        """Write down that the host waits for some calls."""
        stream = self.stream
        after = self._latest(awaited, "")
        self.calls.append(Call(name, None, stream, after, phase, place, host_waits=True))

    def queued(self, stream: str | None = None) -> set[int]:
        """Calls whose end means that all on a stream so far has ended."""
        stream = self.stream if stream is None else stream
        found = set(self._awaited.get(stream, ()))
        return found | {self._last[stream]} if stream in self._last else found

    def everything(self) -> set[int]:
        """The last call of each stream."""
        return set(self._last.values())

    def wait(self, calls: Iterable[int], stream: str | None = None) -> None:
        """The next call of a stream waits for these."""
        stream = self.stream if stream is None else stream
        self._awaited.setdefault(stream, set()).update(calls)

    def note(
        self,
        kind: NoteKind,
        what: str,
        place: SourceLocation = NOWHERE,
        *,
        flops: float = 0.0,
        moved_bytes: float = 0.0,
    ) -> None:
        """Write down something that a reader has to know."""
        note = Note(kind, what, place, 1, flops, moved_bytes)
        self.notes.append((len(self.calls), note))

    def notes_between(self, begin: int, end: int) -> tuple[Note, ...]:
        """Notes of some calls, and what holds for the whole program; equal ones are added up."""
        sums: dict[tuple[NoteKind, str, SourceLocation], Note] = {}
        for at, note in self.notes:
            if begin < at <= end or note.kind not in _OF_CALLS:
                key = note.kind, note.what, note.place
                before = sums.get(key, replace(note, count=0, flops=0.0, bytes=0.0))
                sums[key] = replace(
                    before,
                    count=before.count + 1,
                    flops=before.flops + note.flops,
                    bytes=before.bytes + note.bytes,
                )
        return tuple(sums.values())

    def _latest(self, awaited: set[int], stream: str) -> tuple[int, ...]:
        """Of each other stream only the last of the awaited calls."""
        latest: dict[str, int] = {}
        for number in awaited:
            other = self.calls[number].stream
            if other != stream and number > latest.get(other, -1):
                latest[other] = number
        return tuple(sorted(latest.values()))


class RecordedEvent:
    """A place in a stream that others can wait for."""

    tape: Tape
    streams: "TapeStreams"

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
    streams: "TapeStreams"
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

    def is_capturing(self) -> bool:
        """Say that no CUDA graph is made."""
        return False

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

    def __init__(self, streams: "TapeStreams", stream: RecordedStream | None) -> None:
        self.streams, self.stream = streams, stream
        self.before = streams.current

    def __enter__(self) -> RecordedStream | None:
        self.before = self.streams.current
        if self.stream is not None:
            self.streams.set(self.stream)
        return self.stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.streams.set(self.before)


class TapeStreams:
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
