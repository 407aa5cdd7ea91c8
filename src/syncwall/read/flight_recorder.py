"""Dumps of PyTorch's flight recorder (NCCL or Gloo), one file a rank, as pickle or JSON.

The recorder is a ring buffer of the last collectives of each process group; keys as written by
torch 2.4 to 2.13.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syncwall.problems import InputError, Problem
from syncwall.read.limited import plain_text, whole_json
from syncwall.read.plain_pickle import plain_pickle, whole_file

_ENTRIES = 200_000
_RANK = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle|gz|pt|bin)){0,2}$")


@dataclass(frozen=True, slots=True)
class FlightEntry:
    """One collective of one rank."""

    group: str
    """Name of the process group."""
    sequence: int
    """Number of the collective in its group, the same on all its ranks."""
    operation: str
    """all_reduce, all_gather, ... without the backend's name."""
    state: str
    """scheduled, started or completed, as recorded; see `finished`."""
    finished: bool
    """Known to have ended: completed, or numbered below the group's last completed collective.

    Gloo leaves the state at scheduled and marks the entry as retired."""
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    created_ns: int | None = None
    started_ns: int | None = None
    completed_ns: int | None = None
    timeout_ms: int | None = None
    is_p2p: bool = False
    frame: str = ""
    """Innermost line of the user's program: file:line name."""


@dataclass(frozen=True)
class FlightDump:
    """The dump of one rank."""

    source: str
    rank: int | None
    """From the end of the file's name."""
    version: str | None = None
    nccl_version: str | None = None
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Ranks of each process group, where the dump says; the name may be empty."""
    entries: tuple[FlightEntry, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_flight_recorder(path: Path | str, rank: int | None = None) -> FlightDump:
    """The dump in a file; `rank` overrides the number at the end of its name.

    Never runs code from the file; raises `InputError` if it is not such a dump.
    """
    source = str(path)
    raw, cut = whole_file(path, "flight recorder dump")
    is_json = raw.lstrip()[:1] in (b"{", b"[")
    root = whole_json(raw, source, "a dump") if is_json else plain_pickle(raw, source)
    if not isinstance(root, dict) or not isinstance(root.get("entries"), list):
        raise InputError.of(
            "is not a flight recorder dump: it has no list named entries; set "
            "TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1",
            file=source,
        )
    reader = _EntryReader(_last_completed(root.get("pg_status")))
    read = [reader.entry(item) for item in root["entries"][:_ENTRIES]]
    bad = sum(entry is None for entry in read)
    problems = [Problem(source, 0, 0, f"{bad} entries could not be read")] if bad else []
    return FlightDump(
        source=source,
        rank=_rank(path) if rank is None else rank,
        version=_text(root.get("version")),
        nccl_version=_text(root.get("nccl_version") or root.get("comm_lib_version") or None),
        groups=_groups(root.get("pg_config")),
        entries=tuple(entry for entry in read if entry is not None),
        problems=(*problems, *([cut] if cut else [])),
    )


def _rank(path: Path | str) -> int | None:
    found = _RANK.search(Path(path).name)
    return int(found[1]) if found else None


def _last_completed(status: Any) -> dict[str, int]:
    """Number of the last completed collective by group."""
    found = {}
    for key, body in list(status.items())[:10_000] if isinstance(status, dict) else ():
        number = _int(body.get("last_completed_collective")) if isinstance(body, dict) else None
        found[plain_text(key)] = -1 if number is None else number
    return found


class _EntryReader:
    """Entries of one dump; lists that many of them share, as pickles can, are read once."""

    def __init__(self, ended: dict[str, int]) -> None:
        self._ended = ended
        self._read: dict[tuple[int, Callable[[Any], Any]], Any] = {}

    def entry(self, item: Any) -> FlightEntry | None:
        if not isinstance(item, dict):
            return None
        sequence = _int(item.get("collective_seq_id", item.get("seq_id")))
        if sequence is None:
            return None
        backend, _, operation = (_text(item.get("profiling_name")) or "?").rpartition(":")
        state = _text(item.get("state")) or "?"
        is_p2p, retired = item.get("is_p2p") is True, item.get("retired") is True
        below = not is_p2p and sequence <= self._ended.get(plain_text(item.get("pg_id")), -1)
        return FlightEntry(
            group=_group(item),
            sequence=sequence,
            operation=operation.split(" ")[0],
            state=state,
            finished=state == "completed" or below or (retired and backend != "nccl"),
            input_sizes=self._once(_sizes, item.get("input_sizes")),
            output_sizes=self._once(_sizes, item.get("output_sizes")),
            dtypes=self._once(_dtypes, item.get("input_dtypes")),
            created_ns=_int(item.get("time_created_ns")),
            started_ns=_int(item.get("time_discovered_started_ns")) or None,
            completed_ns=_int(item.get("time_discovered_completed_ns")) or None,
            timeout_ms=_int(item.get("timeout_ms")),
            is_p2p=is_p2p,
            frame=self._once(_frame, item.get("frames")),
        )

    def _once(self, read: Callable[[Any], Any], value: Any) -> Any:
        key = id(value), read
        if key not in self._read:
            self._read[key] = read(value)
        return self._read[key]


def _group(item: dict[str, Any]) -> str:
    names = _list(item.get("process_group"))
    return plain_text(names[0] if names else item.get("pg_id", "0"))


def _groups(config: Any) -> dict[str, tuple[int, ...]]:
    """Ranks by name of the group; torch writes them as text: "[0, 1]"."""
    found = {}
    for key, value in list(config.items())[:10_000] if isinstance(config, dict) else ():
        body = value if isinstance(value, dict) else {}
        ranks = body.get("ranks")
        listed = _list(ranks)
        if isinstance(ranks, str):
            listed = re.findall(r"\d{1,7}", ranks[: 1 << 20])
        numbers = [number for item in listed if (number := _int(item)) is not None]
        found[plain_text(body.get("name", key))] = tuple(numbers)
    return found


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(number for item in _list(shape)[:16] if (number := _int(item)) is not None)
        for shape in _list(value)[:64]
    )


def _dtypes(value: Any) -> tuple[str, ...]:
    return tuple(plain_text(dtype, 32) for dtype in _list(value)[:64])


def _frame(frames: Any) -> str:
    """The first frame outside torch itself, else the first."""
    known = [frame for frame in _list(frames)[:200] if isinstance(frame, dict)]
    own = [f for f in known if "/torch/" not in plain_text(f.get("filename"), 4096)]
    best = (own or known or [{}])[0]
    if not best:
        return ""
    file, line, name = (plain_text(best.get(key)) for key in ("filename", "line", "name"))
    return f"{file or '?'}:{line or 0} {name}"[:200]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return plain_text(value) if isinstance(value, str | int | float) else None


def _int(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and value.bit_length() <= 64 else None
