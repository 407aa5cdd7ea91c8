"""The one long array of a JSON file, in batches, without holding the file.

Holds `JsonArray`: what profilers write is an object with a few small values and one array of up to
millions of objects ("traceEvents", "nodes"). Elements that cannot be read are skipped and counted.
"""

import codecs
import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from syncwall.problems import InputError, Problem

_BUFFER = 1 << 18
_LARGEST = 64 << 20
"""Characters that one value outside of the array may have."""
_ELEMENT = 1 << 20
"""Characters that one element may have before it counts as damaged."""
_TAIL = 1 << 13
_GIVE_UP = 2_000
_WASTED = 32 << 20
"""Damaged elements, and characters of them that are decoded in vain, before giving up."""
_SPACE = re.compile(r"[\s\ufeff]*")
_BETWEEN = re.compile(r"[\s,]*")
_FAULTS = (ValueError, RecursionError, StopIteration)


class JsonArray:
    """Walks once through `stream`: `batches()` first, then `head` and `problems` are complete."""

    def __init__(
        self,
        stream: IO[bytes],
        source: str,
        key: str,
        starts: str,
        shortcut: Callable[[str], bool] | None = None,
    ) -> None:
        """`key` names the array; `starts` is a regular expression for the first key of its
        elements, by which the next one is found in a damaged file. `shortcut` may take the text of
        many elements for itself; if it says False, they are decoded.
        """
        self.head: dict[str, Any] = {}
        """The other values of the file, by key."""
        self.skipped = 0
        """Elements that could not be read."""
        self.found = False
        """Whether the array was there."""
        self._stream = stream
        self._source = source
        self._key = key
        self._shortcut = shortcut
        self._next = re.compile(r"\{\s*" + starts)
        self._edge = re.compile(r"\}\s*,\s*(?=\{\s*" + starts + ")")
        decoder = json.JSONDecoder(strict=False)
        self._scan = cast(Callable[[str, int], tuple[Any, int]], vars(decoder)["scan_once"])
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text = ""
        self._at = 0
        self._ended = False
        self._wasted = 0
        self._note: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was lost."""
        found = [getattr(self._stream, "problem", None), self._note]
        if self.skipped:
            found.append(self._problem(f"{self.skipped} parts cannot be read and were left out"))
        return tuple(problem for problem in found if problem is not None)

    def batches(self) -> Iterator[list[Any]]:
        """Elements of the array, some thousand at a time; none if there is no such array."""
        self._skip(_SPACE)
        first = self._peek()
        if first == "[":
            self._at += 1
            self.found = True
            yield from self._elements()
        elif first == "{":
            self._at += 1
            while self._at_array():
                self.found = True
                yield from self._elements()
        else:
            raise InputError.of("is not JSON; a profiler trace begins with { or [", file=self._source)

    def _at_array(self) -> bool:
        """Reads values into `head` up to the array; False at the end of the file."""
        while True:
            self._skip(_BETWEEN)
            if self._peek() in ("", "}"):
                return False
            try:
                key = self._value()
                self._skip(_SPACE)
                if self._peek() != ":":
                    raise ValueError
                self._at += 1
                self._skip(_SPACE)
                if key == self._key and self._peek() == "[":
                    self._at += 1
                    return True
                self.head[str(key)] = self._value()
            except _FAULTS:
                return self._resumed()

    def _resumed(self) -> bool:
        """After damage outside of the array: goes on at it, if it can still be found."""
        self._note = self._note or self._problem(f'is damaged outside of "{self._key}"')
        mark = re.compile(rf'"{self._key}"\s*:\s*\[')
        while not self.found:
            match = mark.search(self._text, self._at)
            if match:
                self._at = match.end()
                return True
            self._at = max(self._at, len(self._text) - 64)
            if not self._fill(_BUFFER):
                return False
        return False

    def _value(self) -> Any:
        """One value, reading on until it is complete."""
        size = _BUFFER
        while True:
            try:
                value, end = self._scan(self._text, self._at)
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            except _FAULTS:
                if self._ended or len(self._text) - self._at > _LARGEST:
                    raise
            self._fill(size)
            size *= 2

    def _elements(self) -> Iterator[list[Any]]:
        while True:
            if len(self._text) - self._at < _BUFFER:
                self._fill(_BUFFER)
            batch = self._many()
            if batch is None:
                batch, ended = self._one_by_one()
                yield batch
                if ended:
                    return
            else:
                yield batch

    def _many(self) -> list[Any] | None:
        """All whole elements in the buffer by a single call of the decoder; None if that fails."""
        if self._ended:
            return None
        edge = self._last_edge(_TAIL) or self._last_edge(len(self._text))
        if edge is None:
            return None
        begin = _BETWEEN.match(self._text, self._at).end()  # type: ignore[union-attr]
        inner = self._text[begin : edge.start() + 1]
        if self._shortcut is not None and self._shortcut(inner):
            self._at = edge.end()
            return []
        text = f"[{inner}]"
        try:
            batch, end = self._scan(text, 0)
        except _FAULTS:
            return None
        if end != len(text):
            return None
        self._at = edge.end()
        return cast(list[Any], batch)

    def _last_edge(self, tail: int) -> re.Match[str] | None:
        """The last place between two elements in the end of the buffer."""
        start = max(self._at, len(self._text) - tail)
        return next(iter(deque(self._edge.finditer(self._text, start), maxlen=1)), None)

    def _one_by_one(self) -> tuple[list[Any], bool]:
        """Elements up to the end of the buffer or of the array, over damaged ones."""
        batch: list[Any] = []
        while True:
            if not self._ended and len(self._text) - self._at < _ELEMENT // 4:
                return batch, False
            self._at = _BETWEEN.match(self._text, self._at).end()  # type: ignore[union-attr]
            letter = self._text[self._at : self._at + 1]
            if letter == "]":
                self._at += 1
                return batch, True
            if not letter:
                if self._ended:
                    self._note = self._problem(f'ends within "{self._key}"; the rest is missing')
                return batch, self._ended
            try:
                value, self._at = self._scan(self._text, self._at)
                batch.append(value)
            except _FAULTS as fault:
                self._wasted += _reached(fault, len(self._text)) - self._at
                if not self._over_damage():
                    return batch, True

    def _over_damage(self) -> bool:
        """Goes to the next element; False if there is none or too many were damaged."""
        if not self._ended and len(self._text) - self._at < _ELEMENT:
            self._fill(_ELEMENT)
            return True
        self.skipped += 1
        if self.skipped > _GIVE_UP or self._wasted > _WASTED:
            self._note = self._problem("is too damaged to read any further")
            return False
        match = self._next.search(self._text, self._at + 1)
        self._at = match.start() if match else len(self._text)
        return True

    def _skip(self, pattern: re.Pattern[str]) -> None:
        while True:
            self._at = pattern.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or not self._fill(_BUFFER):
                return

    def _peek(self) -> str:
        if self._at >= len(self._text):
            self._fill(_BUFFER)
        return self._text[self._at : self._at + 1]

    def _fill(self, size: int) -> bool:
        """Reads `size` bytes more; False at the end of the file."""
        data = self._stream.read(size)
        self._ended = self._ended or len(data) < size
        self._text = self._text[self._at :] + self._decode(data, not data)
        self._at = 0
        return bool(data)

    def _problem(self, message: str) -> Problem:
        return Problem(self._source, 0, 0, message)


def _reached(fault: Exception, end: int) -> int:
    """Where the decoder stopped; `end` if it does not say."""
    if isinstance(fault, StopIteration):
        return int(fault.value)
    return fault.pos if isinstance(fault, json.JSONDecodeError) else end
