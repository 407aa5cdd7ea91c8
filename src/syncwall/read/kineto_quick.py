"""A shortcut through the text of profiler events that takes only what is kept.

Holds `QuickEvents`. Kineto writes an event as "ph", "cat", "name", "pid", "tid", "ts", "dur", and
"args", in this order since 2021, with or without line breaks. Decoding all of it costs more than
cutting out these values; an event that is written otherwise is decoded, and a text that is
not understood is left to the caller as a whole.
"""

import json
import re
from typing import Any, NamedTuple, cast

from syncwall.read.kineto_collectives import HOST_CALLS
from syncwall.read.trace import Category

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

    def __init__(
        self, names: dict[Any, int], threads: dict[Any, int], categories: dict[Any, int]
    ) -> None:
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
