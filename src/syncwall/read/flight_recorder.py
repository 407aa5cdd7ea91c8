"""Dumps of PyTorch's flight recorder (NCCL or Gloo), one file a rank, as pickle or JSON.

It walks the opcodes itself and knows only those that build plain values, and the four list builders
that torch's C++ pickler names; every other opcode or name is refused, and so are integers above 64
bits. Keys of dictionaries are texts: numbers can be chosen to be slow ones.

The recorder is a ring buffer of the last collectives of each process group; keys as written by
torch 2.4 to 2.13.
"""

import io
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syncwall.problems import InputError, Problem
from syncwall.read.limited import open_limited, plain_text, whole_json

_DAMAGED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
)
_OPCODES = 20_000_000
_MOST_BITS = 64
_MARK = object()
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    {
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
    }
)
_LISTS = frozenset(
    {
        "torch.jit._pickle build_intlist",
        "torch.jit._pickle build_doublelist",
        "torch.jit._pickle build_boollist",
        "torch.jit._pickle build_tensorlist",
        "torch.jit._pickle restore_type_tag",
    }
)


def plain_pickle(raw: bytes, source: str) -> Any:
    """The value in `raw`; raises `InputError` if it is damaged or not made of plain values."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(raw))):
            if count > _OPCODES:
                raise _RefusedError("is too large")
            machine.step(opcode.name, argument)
    except _RefusedError as refused:
        raise InputError.of(str(refused), file=source) from None
    except _DAMAGED as error:
        raise InputError.of(f"is a damaged pickle: {type(error).__name__}", file=source) from None
    return machine.result


class _RefusedError(Exception):
    """The pickle asks for something that is not plain data."""


class _Machine:
    """The stack machine of the pickle format, without calls and classes."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.result: Any = None
        self._steps: dict[str, Callable[[Any], None]] = {
            "MARK": lambda _: self.stack.append(_MARK),
            "EMPTY_DICT": lambda _: self.stack.append({}),
            "EMPTY_LIST": lambda _: self.stack.append([]),
            "EMPTY_TUPLE": lambda _: self.stack.append([]),
            "DICT": lambda _: self.stack.append(self._pairs({}, self._to_mark())),
            "LIST": lambda _: self.stack.append(self._to_mark()),
            "TUPLE": lambda _: self.stack.append(self._to_mark()),
            "TUPLE1": lambda _: self._last(1),
            "TUPLE2": lambda _: self._last(2),
            "TUPLE3": lambda _: self._last(3),
            "APPEND": lambda _: self._append([self.stack.pop()]),
            "APPENDS": lambda _: self._append(self._to_mark()),
            "SETITEM": lambda _: self._set(self._cut(2)),
            "SETITEMS": lambda _: self._set(self._to_mark()),
            "POP": lambda _: self._drop(1),
            "POP_MARK": lambda _: self._drop(0),
            "PUT": self._put,
            "BINPUT": self._put,
            "LONG_BINPUT": self._put,
            "MEMOIZE": lambda _: self._put(len(self.memo)),
            "GET": self._get,
            "BINGET": self._get,
            "LONG_BINGET": self._get,
            "GLOBAL": self._name,
            "STACK_GLOBAL": self._stack_name,
            "REDUCE": self._build,
            "PROTO": lambda _: None,
            "FRAME": lambda _: None,
            "STOP": self._stop,
        }

    def step(self, name: str, argument: Any) -> None:
        """Carry out one opcode."""
        if name in _VALUES:
            if isinstance(argument, int) and argument.bit_length() > _MOST_BITS:
                raise _RefusedError(f"holds an integer of more than {_MOST_BITS} bits")
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in self._steps:
            self._steps[name](argument)
        else:
            raise _RefusedError(f"holds more than plain values ({name}), which is not read")

    def _cut(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise IndexError
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def _to_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        taken = self.stack[at + 1 :]
        del self.stack[at:]
        return taken

    def _drop(self, count: int) -> None:
        if count:
            self._cut(count)
        else:
            self._to_mark()

    def _last(self, count: int) -> None:
        self.stack.append(self._cut(count))

    def _append(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError
        self.stack[-1].extend(items)

    def _set(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict):
            raise TypeError
        self._pairs(self.stack[-1], items)

    def _pairs(self, target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
        target.update(zip(map(_key, items[::2]), items[1::2], strict=True))
        return target

    def _put(self, index: Any) -> None:
        self.memo[int(index)] = self.stack[-1]

    def _get(self, index: Any) -> None:
        self.stack.append(self.memo[int(index)])

    def _name(self, name: str) -> None:
        if name not in _LISTS:
            asked = repr(name[:80])
            raise _RefusedError(f"asks for {asked}, which is not plain data and is not read")
        self.stack.append(name)

    def _stack_name(self, _: Any) -> None:
        self._name(" ".join(self._cut(2)))

    def _build(self, _: Any) -> None:
        """The builders take the list as their first argument and give it back."""
        name, arguments = self._cut(2)
        if name not in _LISTS or not isinstance(arguments, list):
            raise _RefusedError("calls something, which is not read")
        self.stack.append(arguments[0])

    def _stop(self, _: Any) -> None:
        self.result = self.stack.pop()


def _key(value: Any) -> str:
    """The key of a dictionary, which is text, or a number made one."""
    if not isinstance(value, str | int):
        raise TypeError
    return value if isinstance(value, str) else str(value)


_FILE_BYTES = 256 << 20
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
    with open_limited(path) as stream:
        raw = stream.read(_FILE_BYTES + 1)
        cut = stream.problem
    if len(raw) > _FILE_BYTES:
        raise InputError.of("is larger than any flight recorder dump (256 MiB)", file=source)
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
