"""NCCL's own cost table and choices, as `NCCL_DEBUG_SUBSYS=TUNING` prints them.

Holds `TuningReader`. Two layouts are known: one header line that names algorithm/protocol pairs
(2.8 to 2.26), and one line each for algorithms and for protocols (2.27 and later).
"""

import re

from syncwall.read.nccl_facts import Selection, Tuning

_LIMIT = 20_000
_THREADS = 256
_PAIR = re.compile(r"\s*(-?\d{1,12}(?:\.\d{1,6})?)\s*/\s*(-?\d{1,12}(?:\.\d{1,6})?)\s*$")
_HEADER = re.compile(r"\s*([A-Za-z]\w{2,16})\s*/\s*(LL128|LL|Simple)\s*$")
_SELECTION = re.compile(
    r"(\w{4,24}): (\d{1,18}) Bytes -> Algo (\w{1,16}) proto (\w{1,8})"
    r"(?: time (\d{1,12}(?:\.\d{1,9})?))?(?: channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\})?"
)
_COLUMNS = ("LL", "LL128", "Simple")
_COLLECTIVES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
# Order of NCCL_ALGO_* and NCCL_PROTO_* in NCCL's nccl_common.h; older versions print the number.
_ALGORITHMS = ("TREE", "RING", "COLLNETDIRECT", "COLLNETCHAIN", "NVLS", "NVLSTREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


class TuningReader:
    """Collects table entries and selections; equal ones once."""

    def __init__(self) -> None:
        self._headers: dict[str, list[tuple[str, str]]] = {}
        self._entries: dict[tuple[str, str, str], Tuning] = {}
        self._selections: dict[Selection, None] = {}

    @property
    def entries(self) -> tuple[Tuning, ...]:
        """The table; where ranks differ, the first."""
        return tuple(self._entries.values())

    @property
    def selections(self) -> tuple[Selection, ...]:
        """In the order of the log."""
        return tuple(self._selections)

    def read(self, thread: str, text: str) -> bool:
        """Take in one message; False if it is none of ours."""
        if " Bytes -> Algo " in text:
            return self._selection(text)
        if "|" not in text:
            return False
        first, *cells = (part.strip() for part in text[:4096].split("|"))
        cells = [cell for cell in cells if cell]
        if first == "Algorithm":
            self._set_header(thread, [(name, p) for name in cells for p in _COLUMNS])
        elif first.startswith("Latency/"):
            found = [_HEADER.match(cell) for cell in cells]
            self._set_header(thread, [(f[1], f[2]) for f in found if f])
        elif first in _COLLECTIVES:
            self._row(thread, first, cells)
        else:
            return first in ("Protocol", "Max NThreads")
        return True

    def _set_header(self, thread: str, pairs: list[tuple[str, str]]) -> None:
        if len(self._headers) < _THREADS or thread in self._headers:
            self._headers[thread] = pairs[:64]

    def _row(self, thread: str, collective: str, cells: list[str]) -> None:
        for (algorithm, protocol), cell in zip(self._headers.get(thread, ()), cells, strict=False):
            found = _PAIR.match(cell)
            key = (collective, algorithm, protocol)
            if found and key not in self._entries and len(self._entries) < _LIMIT:
                self._entries[key] = Tuning(*key, float(found[1]), float(found[2]))

    def _selection(self, text: str) -> bool:
        found = _SELECTION.search(text)
        if found is None:
            return False
        name, size, algorithm, protocol, time_us, low, high = found.groups()
        chosen = Selection(
            name, int(size), _named(algorithm, _ALGORITHMS), _named(protocol, _PROTOCOLS),
            int(high) - int(low) + 1 if high else None, float(time_us) if time_us else None,
        )  # fmt: skip
        if len(self._selections) < _LIMIT:
            self._selections[chosen] = None
        return True


def _named(word: str, names: tuple[str, ...]) -> str:
    """The name of a number that an older version prints."""
    return names[int(word)] if word.isdecimal() and int(word) < len(names) else word.upper()
