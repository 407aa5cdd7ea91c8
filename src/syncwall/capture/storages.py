"""Memory of tensors: a number for each storage, and when it is taken and given back.

Holds `Storages`. Views share the storage, and so the number, of the tensor that they show.
"""

import weakref
from collections.abc import Iterable
from typing import Any

import torch

from syncwall.work.block import StepPhase
from syncwall.work.program import Held, HeldKind


class Storages:
    """Numbers and lifetimes of all storages on the device."""

    def __init__(self) -> None:
        self.bytes: list[float] = []
        """Most bytes that each had."""
        self.events: list[tuple[int, float]] = []
        """Storage and bytes it grew by, in order."""
        self.kinds: list[HeldKind] = []
        self.modules: list[str] = []
        self.host: set[int] = set()
        """Storages in the host's memory."""
        self.alive: dict[int, float] = {}
        self._numbers: dict[int, int] = {}
        self._watched: dict[int, Any] = {}

    def number(self, tensor: torch.Tensor, module: str = "", phase: StepPhase | None = None) -> int:
        """Number of a tensor's storage; a new one is taken from memory now."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        found = self._numbers.get(key)
        if found is not None:
            return found
        number = len(self.bytes)
        size = float(storage.nbytes())
        self._numbers[key] = number
        self._watched[key] = weakref.finalize(storage, self._freed, key, number)
        self._watched[key].atexit = False
        self.bytes.append(size)
        self.kinds.append(_kind(phase))
        self.modules.append(module)
        self._set(number, size)
        return number

    def known(self, tensor: torch.Tensor) -> int | None:
        """Number of a tensor's storage if it has been seen."""
        return self._numbers.get(tensor.untyped_storage()._cdata)

    def resized(self, storage: torch.UntypedStorage) -> None:
        """Tell that a storage has changed its size."""
        number = self._numbers.get(storage._cdata)
        if number is not None:
            size = float(storage.nbytes())
            self.bytes[number] = max(self.bytes[number], size)
            self._set(number, size)

    def are(self, tensors: Iterable[torch.Tensor], kind: HeldKind, module: str = "") -> None:
        """Tell what the memory of some tensors is for."""
        for tensor in tensors:
            number = self.number(tensor)
            self.kinds[number] = kind
            self.modules[number] = module or self.modules[number]

    def close(self) -> None:
        """Stop watching."""
        for watched in self._watched.values():
            watched.detach()

    def held(self, first: int, last: int) -> tuple[Held, ...]:
        """All that is on the device when it is fullest, among events `first` to `last`."""
        sizes, most, at = dict[int, float](), -1.0, first
        total = 0.0
        for i, (number, grown) in enumerate(self.events[:last]):
            if number in self.host:
                continue
            total += grown
            if total > most and i >= first:
                most, at = total, i
        for number, grown in self.events[: at + 1]:
            if number not in self.host:
                sizes[number] = sizes.get(number, 0.0) + grown
        sums: dict[tuple[HeldKind, str], float] = {}
        for number, size in sizes.items():
            if size:
                key = self.kinds[number], self.modules[number]
                sums[key] = sums.get(key, 0.0) + size
        return tuple(Held(kind, module, size) for (kind, module), size in sums.items())

    def alive_at(self, event: int) -> frozenset[int]:
        """Storages that hold memory after so many events."""
        sizes: dict[int, float] = {}
        for number, grown in self.events[:event]:
            sizes[number] = sizes.get(number, 0.0) + grown
        return frozenset(number for number, size in sizes.items() if size)

    def _freed(self, key: int, number: int) -> None:
        self._numbers.pop(key, None)
        self._watched.pop(key, None)
        self._set(number, 0.0)

    def _set(self, number: int, size: float) -> None:
        before = self.alive.get(number, 0.0)
        if size != before:
            self.events.append((number, size - before))
            self.alive[number] = size
            if not size:
                del self.alive[number]


def _kind(phase: StepPhase | None) -> HeldKind:
    return HeldKind.ACTIVATIONS if phase in (StepPhase.FORWARD, StepPhase.RECOMPUTE) else HeldKind.OTHER
