"""The ring in shared memory through which a trainer tells its agent what it does.

Holds `MarkKind`, `Mark`, `Ring` (the writer: no lock, no thread, no system call for a mark) and
`RingReader`, which notices marks that were overwritten before it came; `leave_error` and
`read_error`, the exception that a process ended by; `RingNote` and `NOTES`, what
watching cannot tell in a run, and why. One file a process:

    header, 64 bytes   magic, version, slots, process id, rank, clocks at the start, marks so far
    slot, 32 bytes     number, kind, nanoseconds, value, argument, number once more

A slot whose two numbers differ is being written. Times are of CLOCK_MONOTONIC, which all processes
of a host share. The memory is reserved when the ring is made: a full /dev/shm then says so, while
it would later end the trainer with SIGBUS.

The clock of marks on a device are CUDA events, asked whether they are over, never waited for:
`DeviceMarks` (in the trainer: an event beside each mark, and a mark `DEVICE_TIME` once the device
has come to it), `Event`, and `DeviceTime` (in the agent: marks again in order, with the device's
times). Hosts run ahead of devices, so their marks alone would show launches, not work. Written for
CUDA and tested with events of a fake device only: not yet tried on GPUs.
"""

import mmap
import os
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from syncwall.watch.place import open_plain


class RingNote(IntEnum):
    """Numbers of notes; part of the format of marks."""

    NO_DATA_LOADER = 1
    NO_BACKWARD = 2
    NO_OPTIMIZER_HOOKS = 3
    NO_GRAD_SCALER = 4
    NO_LAST_GRADIENT = 5
    NO_WAITS = 6
    NO_EVALUATION = 7
    NO_SAVES = 8
    FSDP_WAITS = 9
    DEVICE_COMMUNICATION = 10
    OLD_FSDP = 11
    NO_FUNCTIONAL_WAITS = 12
    NO_GRADIENT_NORM = 13


_HIDES_OWN: Final = "stragglers are not judged by own time"
NOTES: Final = {
    RingNote.NO_DATA_LOADER: "this PyTorch has no torch.utils.data.dataloader._BaseDataLoaderIter: "
    "waiting for data counts as idle",
    RingNote.NO_BACKWARD: "torch.autograd.backward is missing: backward counts as forward",
    RingNote.NO_OPTIMIZER_HOOKS: "this PyTorch has no global optimizer hooks: steps are not seen",
    RingNote.NO_GRAD_SCALER: "torch.amp.GradScaler is missing: skipped steps are not seen",
    RingNote.NO_LAST_GRADIENT: "DistributedDataParallel could not be hooked: waiting for gradients "
    f"counts as backward, {_HIDES_OWN}",
    RingNote.NO_WAITS: f"torch.distributed could not be hooked: {_HIDES_OWN}",
    RingNote.NO_EVALUATION: "torch.nn.Module.eval is missing: evaluations count as forward",
    RingNote.NO_SAVES: "torch.save is missing: checkpoints count as idle",
    RingNote.FSDP_WAITS: "FSDP's wait for its weights could not be hooked: it counts as "
    f"computation, {_HIDES_OWN}",
    RingNote.DEVICE_COMMUNICATION: "some communication has a CUDA stream of its own: waiting for "
    f"it cannot be told apart from computation, {_HIDES_OWN}",
    RingNote.OLD_FSDP: "FullyShardedDataParallel (FSDP1) waits inside of streams: it counts as "
    f"computation, {_HIDES_OWN}",
    RingNote.NO_FUNCTIONAL_WAITS: "functional collectives could not be hooked: their waits count "
    f"as computation, {_HIDES_OWN}",
    RingNote.NO_GRADIENT_NORM: "torch.nn.utils.clip_grad_norm_ is missing: no gradient norm",
}
"""What each note says."""

HIDES_OWN_TIME: Final = frozenset(kind for kind, said in NOTES.items() if said.endswith(_HIDES_OWN))
"""Notes after which a rank's own time is not known."""


EPOCH_NS: Final = time.time_ns() - time.perf_counter_ns()
"""To be added to times of marks to have them since the epoch, as it was when this process began."""


def clock_s() -> float:
    """Seconds since the epoch by the clock of marks, which nobody sets."""
    return (time.perf_counter_ns() + EPOCH_NS) / 1e9


MAGIC: Final = b"SYNCWALL"
VERSION: Final = 2
SLOTS: Final = 1 << 15
"""One megabyte: half a minute of a thousand marks a second."""
_HEADER: Final = struct.Struct("<8sIIiiqqQQ")
_HEADER_BYTES: Final = 64
_WRITTEN: Final = struct.Struct("<Q")
_WRITTEN_AT: Final = 40
_SLOT: Final = struct.Struct("<IIqdII")
_NUMBERS: Final = 1 << 32


class MarkKind(IntEnum):
    """What a mark says; numbers are part of the format."""

    START = 1
    """Of watching; the value is the restart count."""
    DATA_BEGIN = 2
    DATA_END = 3
    FORWARD_BEGIN = 4
    FORWARD_END = 5
    """Of the model that is trained: what follows is the loop's own code, as a loss is."""
    BACKWARD_BEGIN = 6
    LAST_GRADIENT = 7
    """All gradients are there; what is left of the backward pass is waiting for all-reduces."""
    BACKWARD_END = 8
    OPTIMIZER_BEGIN = 9
    OPTIMIZER_END = 10
    """The argument is 1 if it ends a step; then the value counts those that were ended before."""
    STEP_SKIPPED = 11
    """A `GradScaler` found an overflow: ends a step, too, and has its value."""
    SAVE_BEGIN = 12
    SAVE_END = 13
    EVALUATION_BEGIN = 14
    EVALUATION_END = 15
    WAIT_BEGIN = 16
    """For communication; the argument is a place in `COLLECTIVES`."""
    WAIT_END = 17
    LOSS = 18
    """The argument is 1 if it is that of a backward pass, one of several in a step."""
    GRADIENT_NORM = 19
    TOKENS = 20
    DEVICE_TIME = 21
    """When the device came to an earlier mark: the argument is its number, the value seconds."""
    NOTE = 22
    """Something cannot be told; the argument is a place in `notes.NOTES`."""
    EXIT = 23
    """The value is 1 after an exception."""


COLLECTIVES: Final = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "broadcast",
    "send-receive",
    "barrier",
    "other",
)
"""Kinds of communication, by the argument of `WAIT_BEGIN`."""


class Mark(NamedTuple):
    """One mark, as read."""

    number: int
    kind: int
    time_ns: int
    value: float
    argument: int


class Ring:
    """The writer of one process. `mark(kind, value, argument)` is the whole of it."""

    def __init__(self, path: Path, rank: int, slots: int = SLOTS) -> None:
        """A new file; OSError if there is no room for it."""
        self.path = path
        size_bytes = _HEADER_BYTES + slots * _SLOT.size
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size_bytes)
            self._memory = mmap.mmap(file, size_bytes)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        clocks = time.perf_counter_ns(), time.time_ns()
        _HEADER.pack_into(self._memory, 0, MAGIC, VERSION, slots, os.getpid(), rank, *clocks, 0, 0)
        self.mark = _marker(self._memory, slots)

    def close(self) -> None:
        """Stop writing; the file stays for the agent."""
        self.mark = _ignored
        self._memory.close()


def _marker(memory: mmap.mmap, slots: int) -> Callable[..., int]:
    """The function that writes a mark and returns its number; names are local, as they are fast."""
    pack, pack_written = _SLOT.pack_into, _WRITTEN.pack_into
    clock, number = time.perf_counter_ns, count().__next__
    last_slot = slots - 1
    assert not slots & last_slot, "a power of two"

    def mark(kind: int, value: float = 0.0, argument: int = 0) -> int:
        this = number()  # at once, so that threads never write the same slot
        low = this & 0xFFFFFFFF
        at = _HEADER_BYTES + (this & last_slot) * 32
        pack(memory, at, low, kind, clock(), value, argument, low)
        pack_written(memory, _WRITTEN_AT, this + 1)
        return this

    return mark


def _ignored(kind: int, value: float = 0.0, argument: int = 0) -> int:
    return 0


class RingReader:
    """Reads what a ring holds since it was read last."""

    def __init__(self, path: Path) -> None:
        """ValueError if it is no ring of this version, OSError if it cannot be read."""
        self._file = open_plain(path)
        try:
            header = self._bytes(0, _HEADER_BYTES)
            magic, version, slots, pid, rank, clock_ns, _, _, _ = _HEADER.unpack_from(header)
            if magic != MAGIC or version != VERSION:
                raise ValueError(f"{path}: no ring of marks of version {VERSION}")
            if os.fstat(self._file).st_size != _HEADER_BYTES + slots * _SLOT.size or not slots:
                raise ValueError(f"{path}: its size is not that of {slots} marks")
        except (OSError, ValueError):
            self.close()
            raise
        self.pid: int = pid
        self.rank: int = rank
        self._slots: int = slots
        self.start_ns: int = clock_ns
        """When the ring was made."""
        self._next = 0
        self._missing = -1
        self.lost = 0
        """Marks that were overwritten before they were read."""

    def epoch_s(self, time_ns: int) -> float:
        """Seconds since the epoch of a time of a mark."""
        return (time_ns + EPOCH_NS) / 1e9

    def read(self) -> list[Mark]:
        """The marks since the last call, in order."""
        written = self._written()
        oldest = written - self._slots + 1  # of which the slot may be rewritten right now
        if self._next < oldest:
            self.lost += oldest - self._next
            self._next = oldest
        found = []
        for number, slot in zip(range(self._next, written), self._slots_of(self._next, written), strict=True):
            first, kind, time_ns, value, argument, last = slot
            if not first == last == number % _NUMBERS:
                if self._missing != number and not self._is_overwritten(number):
                    self._missing = number
                    break  # another thread still writes it: next time
                self.lost += 1
            else:
                found.append(Mark(number, kind, time_ns, value, argument))
            self._next = number + 1
        return found

    def _is_overwritten(self, number: int) -> bool:
        return self._written() - number >= self._slots

    def _slots_of(self, first: int, end: int) -> Iterator[tuple[Any, ...]]:
        """What stands in the slots of these numbers, of which there are no more than slots."""
        at, count = first % self._slots, end - first
        for start, slots in ((at, min(count, self._slots - at)), (0, max(count - self._slots + at, 0))):
            size_bytes = slots * _SLOT.size
            yield from _SLOT.iter_unpack(self._bytes(_HEADER_BYTES + start * _SLOT.size, size_bytes))

    def _written(self) -> int:
        found: int = _WRITTEN.unpack(self._bytes(_WRITTEN_AT, _WRITTEN.size))[0]
        return found

    def _bytes(self, at: int, size_bytes: int) -> bytes:
        """Read, not mapped: of a file that is cut short, mapped memory would end this process."""
        found = os.pread(self._file, size_bytes, at)
        if len(found) < size_bytes:
            raise ValueError("too short for a ring of marks")
        return found

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


_ERROR_CHARACTERS: Final = 200
_ERROR: Final = ".error"


def leave_error(ring: Path, error: BaseException) -> None:
    """Write the exception that a process ends by beside its ring, which carries numbers only."""
    text = _one_line(f"{type(error).__name__}: {_one_line(str(error))}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(ring.with_suffix(_ERROR), flags, 0o600)
    try:
        os.write(file, text.encode(errors="replace"))
    finally:
        os.close(file)


def read_error(ring: Path) -> str:
    """What `leave_error` has left: type and first line, no character that moves a cursor."""
    try:
        file = open_plain(ring.with_suffix(_ERROR))
    except OSError:
        return ""
    try:
        return _one_line(os.read(file, 4 * _ERROR_CHARACTERS).decode(errors="replace"))
    except OSError:
        return ""
    finally:
        os.close(file)


def _one_line(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return "".join(one for one in first if one.isprintable())[:_ERROR_CHARACTERS].rstrip(": ")


MOST_PENDING: Final = 1024
"""Events under way; beyond it marks get no device time. Steps ahead of the device are few."""
_ASKED_A_MARK: Final = 4
_DEVICE_TIME: Final = int(MarkKind.DEVICE_TIME)
_UNTIMED: Final = int(MarkKind.LOSS)
"""From this kind on, marks tell values and not moments."""


class Event(Protocol):
    """As `torch.cuda.Event`."""

    def record(self) -> None:
        """On the current stream."""

    def query(self) -> bool:
        """True if the device has come to it; returns at once."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds from this event to another, both over."""


class DeviceMarks:
    """Marks with events beside them."""

    def __init__(self, mark: Callable[..., int], new_event: Callable[[], Event]) -> None:
        self._mark, self._new_event = mark, new_event
        self._base = new_event()
        self._base.record()
        self._pending: deque[tuple[int, Event]] = deque()
        self._spare: list[Event] = []

    def mark(self, kind: int, value: float = 0.0, argument: int = 0) -> int:
        """As `Ring.mark`; also tells what the device has done meanwhile."""
        number = self._mark(kind, value, argument)
        if kind < _UNTIMED and len(self._pending) < MOST_PENDING:
            event = self._spare.pop() if self._spare else self._new_event()
            event.record()
            self._pending.append((number, event))
        for _ in range(_ASKED_A_MARK):
            if not self._pending or not self._pending[0][1].query():
                break
            of, event = self._pending.popleft()
            seconds = self._base.elapsed_time(event) / 1e3
            self._mark(_DEVICE_TIME, seconds, of & 0xFFFFFFFF)
            self._spare.append(event)
        return number


class DeviceTime:
    """Puts the device's time into marks; those of which it is not known yet wait here."""

    def __init__(self) -> None:
        self._waiting: deque[Mark] = deque()
        self._base_ns: int | None = None
        self._latest_ns = 0

    def take(self, marks: Iterable[Mark]) -> Iterator[Mark]:
        """Marks in order, each once its time is known; before the first event the host's stays."""
        for mark in marks:
            if mark.kind != _DEVICE_TIME:
                self._waiting.append(mark)
                continue
            while self._waiting and self._waiting[0].number & 0xFFFFFFFF != mark.argument:
                yield self._timed(self._waiting.popleft())  # it has no event
            if self._waiting:
                told = self._waiting.popleft()
                at_ns = round(mark.value * 1e9)
                if self._base_ns is None:
                    self._base_ns = max(told.time_ns - at_ns, self._latest_ns - at_ns)
                self._latest_ns = max(self._latest_ns, self._base_ns + at_ns)
                yield self._timed(told)

    def _timed(self, mark: Mark) -> Mark:
        if self._base_ns is None:
            self._latest_ns = mark.time_ns
            return mark
        return mark._replace(time_ns=self._latest_ns)
