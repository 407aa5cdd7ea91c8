"""What all hooks share: where marks go, what was replaced, what is missing.

Holds `Watching`.
"""

import os
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

from syncwall.watch.clock import DeviceMarks, Event
from syncwall.watch.hooks.patch import Patches
from syncwall.watch.marks import MarkKind, Ring
from syncwall.watch.notes import NoteKind

_TRAINS: Final = (MarkKind.BACKWARD_BEGIN, MarkKind.OPTIMIZER_BEGIN)


class Watching:
    """One process that is watched, or will be once it trains."""

    def __init__(self, open_ring: Callable[[], Ring | None]) -> None:
        """`open_ring` makes the ring when it is needed; None if that is not possible."""
        self._open_ring = open_ring
        self.patches = Patches()
        self.removers: list[Callable[[], Any]] = []
        """What else is to be undone at the end."""
        self.ring: Ring | None = None
        self.pid = os.getpid()
        self._notes: list[NoteKind] = []
        self.mark: Callable[..., int] = self._until_it_trains
        self.optimizers: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """Those that have made a step, by `id`; watching keeps nothing alive."""
        self._device: DeviceMarks | None = None
        self._stream_now: Callable[[], Any] = _no_stream
        self._stream: Any = None
        """That backward passes begin on: waits are timed there."""

    def begin(self) -> None:
        """Make the ring now; without one, marks go nowhere."""
        self.ring = self._open_ring()
        self.mark = self.ring.mark if self.ring else _nowhere
        self.mark(MarkKind.START, float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") or 0))
        for note in self._notes:
            self.mark(MarkKind.NOTE, 0.0, note)

    def time_on_device(
        self, new_event: Callable[[], Event], stream_now: Callable[[], Any]
    ) -> None:  # fmt: skip
        """Let events of the device time all further marks, on the stream of this moment."""
        if self._device is None and self.ring is not None:
            self._stream_now, self._stream = stream_now, stream_now()
            self._device = DeviceMarks(self.ring.mark, new_event)
            self.mark = self._device.mark

    @property
    def is_on_another_stream(self) -> bool:
        """True where work of the device goes on beside the training, as FSDP's reduce-scatter."""
        return bool(self._stream_now() != self._stream)

    def note(self, kind: NoteKind) -> None:
        """Tell, once, that something cannot be told."""
        if kind not in self._notes:
            self._notes.append(kind)
            self.mark(MarkKind.NOTE, 0.0, kind)

    def forked(self) -> None:
        """In a child, such as a worker of a data loader: the ring is the parent's."""
        self.ring, self.pid, self._device = None, os.getpid(), None
        self._stream_now, self._stream = _no_stream, None
        self.mark = self._until_it_trains

    def stop(self) -> None:
        """Put everything back."""
        self.patches.restore()
        for remove in self.removers:
            remove()
        self.removers.clear()
        self.mark = _nowhere
        if self.ring is not None and self.pid == os.getpid():
            self.ring.close()
        self.ring = None

    def _until_it_trains(self, kind: int, value: float = 0.0, argument: int = 0) -> int:
        """The first mark of training makes the ring: most processes that load torch never train."""
        if kind not in _TRAINS:
            return 0
        self.begin()
        return self.mark(kind, value, argument)


def _no_stream() -> None:
    """Of a training whose marks the host times."""


def _nowhere(kind: int, value: float = 0.0, argument: int = 0) -> int:
    return 0
