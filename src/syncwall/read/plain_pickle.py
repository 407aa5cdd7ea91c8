"""Pickles of plain values, without running anything that they ask for.

It walks the opcodes itself and knows only those that build plain values, and the four list builders
that torch's C++ pickler names; every other opcode or name is refused, and so are integers above 64
bits. Keys of dictionaries are texts: numbers can be chosen to be slow ones.
"""

import io
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from syncwall.problems import InputError, Problem
from syncwall.read.limited import open_limited

FILE_BYTES = 256 << 20
"""The largest file of values that is read."""
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


def whole_file(path: Path | str, kind: str) -> tuple[bytes, Problem | None]:
    """The bytes of a file that has to be read as a whole, and where it was cut off."""
    with open_limited(path) as stream:
        raw = stream.read(FILE_BYTES + 1)
        cut = stream.problem
    if len(raw) > FILE_BYTES:
        raise InputError.of(f"is larger than any {kind} ({FILE_BYTES >> 20} MiB)", file=str(path))
    return raw, cut


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
