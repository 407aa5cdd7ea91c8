"""The clock of marks on a device: CUDA events, asked whether they are over, never waited for.

Holds `DeviceMarks` (in the trainer: an event beside each mark, and a mark `DEVICE_TIME` once the
device has come to it), `Event`, and `DeviceTime` (in the agent: marks again in order, with the
device's times). Hosts run ahead of devices, so their marks alone would show launches, not work.

Written for CUDA and tested with events of a fake device only: not yet tried on GPUs.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from syncwall.watch.marks import Mark, MarkKind

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
