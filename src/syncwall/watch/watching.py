"""What all hooks share: where marks go, what was replaced, what is missing.

Holds `Watching`; `Patches`, functions of PyTorch that are replaced for a while and put back, and
`AfterImport`, which waits for a module without importing it.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final
from weakref import WeakValueDictionary

from syncwall.watch.rings import DeviceMarks, Event, MarkKind, Ring, RingNote

Function = Callable[..., Any]
_MISSING = object()


class AppliedPatches:
    """All that was replaced."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any, Any]] = []
        self._finders: list[AfterImport] = []

    def replace(self, owner: Any, name: str, make: Callable[[Function], Function], again: str = "") -> bool:
        """Put `make(function)` in the place of a function; False if there is none.

        `again` is a module that has it a second time.
        """
        function = getattr(owner, name, None)
        if not callable(function):
            return False
        new = wraps(function)(make(function))
        own = vars(owner).get(name, _MISSING)
        setattr(owner, name, new)
        self._before.append((owner, name, new, own))
        around = sys.modules.get(again)
        if hasattr(around, name):
            self.replace(around, name, lambda _: new)
        return True

    def when_imported(self, name: str, action: Callable[[ModuleType], object]) -> None:
        """Call `action` with a module once it is there, now or later."""
        if name in sys.modules:
            action(sys.modules[name])
            return
        finder = AfterImport(name, action)
        self._finders.append(finder)
        sys.meta_path.insert(0, finder)

    def restore(self) -> None:
        """Put everything back, unless somebody else has replaced it since."""
        for owner, name, new, own in reversed(self._before):
            if vars(owner).get(name) is not new:
                continue
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
        self._before.clear()
        for finder in self._finders:
            finder.remove()
        self._finders.clear()


class AfterImport(MetaPathFinder, Loader):
    """Finds a module as everybody else would, and calls `action` once it has been run."""

    def __init__(self, name: str, action: Callable[[ModuleType], object]) -> None:
        self._name, self._action = name, action
        self._loader: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The usual spec, loaded by us."""
        if name != self._name:
            return None
        self.remove()  # so that the usual finders are asked
        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As usual."""
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """As usual, with the usual loader left in its place; then the action."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        with suppress(Exception):  # whatever this version of the module is like, it must load
            self._action(module)

    def remove(self) -> None:
        """Stop looking."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


_TRAINS: Final = (MarkKind.BACKWARD_BEGIN, MarkKind.OPTIMIZER_BEGIN)


class Watching:
    """One process that is watched, or will be once it trains."""

    def __init__(self, open_ring: Callable[[], Ring | None]) -> None:
        """`open_ring` makes the ring when it is needed; None if that is not possible."""
        self._open_ring = open_ring
        self.patches = AppliedPatches()
        self.removers: list[Callable[[], Any]] = []
        """What else is to be undone at the end."""
        self.ring: Ring | None = None
        self.pid = os.getpid()
        self._notes: list[RingNote] = []
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

    def time_on_device(self, new_event: Callable[[], Event], stream_now: Callable[[], Any]) -> None:
        """Let events of the device time all further marks, on the stream of this moment."""
        if self._device is None and self.ring is not None:
            self._stream_now, self._stream = stream_now, stream_now()
            self._device = DeviceMarks(self.ring.mark, new_event)
            self.mark = self._device.mark

    @property
    def is_on_another_stream(self) -> bool:
        """True where work of the device goes on beside the training, as FSDP's reduce-scatter."""
        return bool(self._stream_now() != self._stream)

    def note(self, kind: RingNote) -> None:
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
