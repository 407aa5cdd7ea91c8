"""Opens files of any size and origin, packed or not, JSON or XML, without trusting them.

Logs mix the output of many processes: colour codes, carriage returns and the rank that a launcher
puts before each line ("12: ") are taken off.

A document type is accepted only if it declares nothing (hwloc writes one), so that neither entity
bombs nor files named in it can do harm.
"""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from xml.parsers import expat

from syncwall.documents import opened
from syncwall.problems import InputError, Problem

_DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, ValueError)
"""What unpacking raises."""
_CHUNK = 1 << 18
_LINE = 1 << 20
_SHORT_LINES, _SHORT_BYTES = 500_000, 16
_REFUSED = {b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z"}


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """How far a packed file may expand."""

    raw_bytes: int = 8 << 30
    """Unpacked size."""
    ratio: float = 100.0
    """Unpacked over packed size; real traces stay below 60, deflate can reach 1,032."""
    free_bytes: int = 16 << 20
    """Unpacked size up to which the ratio does not matter."""


DEFAULT = UnpackLimits()


class LimitedStream(io.BufferedReader):
    """Unpacked bytes of one file; a context manager like any file."""

    def __init__(self, raw: "_Unpacked") -> None:
        super().__init__(raw, _CHUNK)
        self._unpacked = raw

    @property
    def problem(self) -> Problem | None:
        """Why the bytes ended early, if they did; known once the end has been reached."""
        return self._unpacked.problem

    @property
    def packed_bytes(self) -> int:
        """Bytes of the file read so far."""
        return self._unpacked.packed_bytes

    @property
    def raw_bytes(self) -> int:
        """Bytes given out so far."""
        return self._unpacked.raw_bytes


def open_limited(path: Path | str, limits: UnpackLimits = DEFAULT) -> LimitedStream:
    """The unpacked bytes of a plain, gzip or zip file; what it is is seen from its first bytes.

    A damaged archive ends early and says so in `problem`. Raises `InputError` if there is nothing
    to read, and while reading once the file expands beyond `limits`.
    """
    return limited(opened(Path(path)), path, limits)


def limited(file: IO[bytes], path: Path | str, limits: UnpackLimits = DEFAULT) -> LimitedStream:
    """The same of a file that is open, or never was one; `path` is its name in messages."""
    path = Path(path)
    try:
        head = file.read(6)
        file.seek(0)
    except OSError as error:
        file.close()
        raise InputError.of(error.strerror or "cannot be read", file=str(path)) from None
    for magic, kind in _REFUSED.items():
        if head.startswith(magic):
            file.close()
            raise InputError.of(f"is packed with {kind}; unpack it, or pack it with gzip", file=str(path))
    if head.startswith(b"\x1f\x8b"):
        return LimitedStream(_Gzip(path, file, limits))
    if head.startswith(b"PK\x03\x04"):
        return LimitedStream(_Zip(path, file, limits))
    return LimitedStream(_Unpacked(path, file, limits))


def text_lines(path: Path | str, limits: UnpackLimits = DEFAULT) -> Iterator[str]:
    """Lines without their ends; bytes that are not UTF-8 are replaced.

    A line longer than 1 MiB comes in pieces.
    """
    with open_limited(path, limits) as stream:
        first = True
        for line in read_lines(stream, str(path), _LINE):
            text = line.decode("utf-8-sig" if first else "utf-8", "replace")
            first = False
            yield text.rstrip("\r\n")


def read_lines(stream: LimitedStream, file: str, longest: int) -> Iterator[bytes]:
    """Lines up to `longest` bytes; InputError if most have next to nothing on them."""
    count = size = 0
    while line := stream.readline(longest):
        count += 1
        size += len(line)
        if count > _SHORT_LINES and size < count * _SHORT_BYTES:
            raise InputError.of("has mostly nearly empty lines, as no log does", file=file)
        yield line


class _Unpacked(io.RawIOBase):
    """The bytes of a plain file; packed ones override `_more`."""

    _read_bytes = _CHUNK

    def __init__(self, path: Path, file: IO[bytes], limits: UnpackLimits) -> None:
        super().__init__()
        self.path = path
        self.file = file
        self.limits = limits
        self.problem: Problem | None = None
        self.packed_bytes = 0
        self.raw_bytes = 0
        self._kept = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._kept:
            self._kept = memoryview(self._next())
            self.raw_bytes += len(self._kept)
            self._check()
        count = min(len(buffer), len(self._kept))
        buffer[:count] = self._kept[:count]
        self._kept = self._kept[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()

    def _next(self) -> bytes:
        if self.problem is not None:
            return b""
        try:
            return self._more()
        except _DAMAGED as error:
            self.problem = Problem(str(self.path), 0, 0, f"is damaged: {error}")
            return b""

    def _more(self) -> bytes:
        return self._packed()

    def _packed(self) -> bytes:
        data = self.file.read(self._read_bytes)
        self.packed_bytes += len(data)
        return data

    def _check(self) -> None:
        limits, raw = self.limits, self.raw_bytes
        if raw > limits.raw_bytes:
            raise InputError.of(
                f"is larger than {limits.raw_bytes / 2**30:.3g} GiB unpacked; record fewer steps",
                file=str(self.path),
            )
        packed = max(self.packed_bytes, 1)
        if raw > limits.free_bytes and raw > limits.ratio * packed:
            raise InputError.of(
                f"expands more than {limits.ratio:.0f} times, as no real log does; unpack it "
                "yourself if you trust it",
                file=str(self.path),
            )


class _Gzip(_Unpacked):
    """Members of a gzip file, one after the other; each copies what was read of the next ones."""

    _read_bytes = 1 << 14

    def __init__(self, path: Path, file: IO[bytes], limits: UnpackLimits) -> None:
        super().__init__(path, file, limits)
        self._member = zlib.decompressobj(31)
        self._input = b""

    def _more(self) -> bytes:
        while True:
            if self._member.eof:
                rest = self._member.unused_data.lstrip(b"\0") or self._packed().lstrip(b"\0")
                if not rest:
                    return b""
                self._member = zlib.decompressobj(31)
                self._input = rest
            elif not self._input:
                self._input = self._packed()
                if not self._input:
                    raise EOFError("the end is missing")
            data = self._member.decompress(self._input, _CHUNK)
            self._input = self._member.unconsumed_tail
            if data:
                return data


class _Zip(_Unpacked):
    """The only file in a zip archive."""

    def __init__(self, path: Path, file: IO[bytes], limits: UnpackLimits) -> None:
        super().__init__(path, file, limits)
        self._archive = self._opened()
        files = [i for i in self._archive.infolist() if not i.is_dir()]
        if len(files) != 1:
            raise InputError.of(
                f"holds {len(files)} files; unpack it and name the one to read", file=str(path)
            )
        self._info = files[0]
        if self._info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError.of(  # zipfile unpacks the others without a bound
                "is packed by another method than deflate; unpack it, or pack it with gzip",
                file=str(path),
            )
        self._stream: IO[bytes] | None = None

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
            raise InputError.of(f"is a damaged zip archive: {error}", file=str(self.path)) from None

    def _more(self) -> bytes:
        if self._stream is None:
            self._stream = self._archive.open(self._info)
        data = self._stream.read(_CHUNK)
        self.packed_bytes = self.file.tell()
        return data


_LINE_BYTES = 1 << 16
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_LAUNCHER = re.compile(r"\s{0,8}(?:\[[\w.,-]{1,64}\]:|\[\d{1,2},\d{1,9}\]<std(?:out|err)>:|\d{1,7}:)\s?")


class LogLines:
    """Iterates over (number from 1, text); a line above 64 KiB comes in pieces of one number."""

    def __init__(self, path: Path | str) -> None:
        self.source = str(path)
        self.problems: tuple[Problem, ...] = ()
        """Known once the end has been reached."""

    def __iter__(self) -> Iterator[tuple[int, str]]:
        number, begins = 0, True
        with open_limited(self.source) as stream:
            for raw in read_lines(stream, self.source, _LINE_BYTES):
                number += begins
                begins = raw.endswith(b"\n")
                text = raw.decode("utf-8", "replace").rstrip("\r\n")
                yield number, _COLOUR.sub("", text) if "\x1b" in text else text
            if stream.problem is not None:
                self.problems = (stream.problem,)


def without_launcher(text: str) -> str:
    """`text` without the rank that srun, mpirun or torchrun puts before a line."""
    found = _LAUNCHER.match(text)
    return text[found.end() :] if found else text


MOST_VALUES: Final = 4_000_000
"""An empty list, the worst, takes 64 bytes beside the 3 characters of its text."""


def plain_text(value: Any, most: int = 200) -> str:
    """The first `most` characters of a text or number; nothing of all else.

    Lists that share their parts can be gigabytes of text, and deep ones have none.
    """
    return str(value)[:most] if isinstance(value, str | int | float) else ""


def whole_json(raw: bytes, file: str, kind: str, most_values: int = MOST_VALUES) -> Any:
    """The value in `raw`; InputError if it is not JSON, or larger than anything of its `kind`."""
    if raw.count(b",") > most_values:
        raise InputError.of(f"holds more than {most_values:,} values, too many for {kind}", file=file)
    try:
        return json.loads(raw)
    except RecursionError:
        raise InputError.of("is not JSON that can be read: nested too deeply", file=file) from None
    except ValueError as error:  # also integers above 4,300 digits
        raise InputError.of(f"is not whole JSON: {str(error)[:80]}", file=file) from None


LIMITS: Final = UnpackLimits(raw_bytes=32 << 20)
"""Topologies are small: 32 MiB is a hundred times the largest that we know."""
_ELEMENTS: Final = 100_000
_DEPTH: Final = 200
_XML_CHUNK: Final = 1 << 16


@dataclass(slots=True)
class Element:
    """One element with its attributes, children and text."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: "list[Element]" = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text directly in it."""
        return "".join(self.texts)

    def get(self, name: str, default: str = "") -> str:
        """Attribute `name` without blanks around it."""
        return self.attributes.get(name, default).strip()

    def number(self, name: str) -> int | None:
        """Attribute `name` as a whole number; None if it is absent or not one."""
        try:
            return int(self.get(name)[:20])
        except ValueError:
            return None

    def of(self, tag: str) -> "Iterator[Element]":
        """Children called `tag`."""
        return (child for child in self.children if child.tag == tag)


class _TreeBuilder:
    """What expat reports, as a tree."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Element | None = None
        self.open: list[Element] = []
        self.elements = 0
        self.parser: Any = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._entity

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if self.elements > _ELEMENTS or len(self.open) >= _DEPTH:
            raise self._refused("has too many or too deeply nested elements for a topology")
        element = Element(tag, attributes, self.parser.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        elif self.root is None:
            self.root = element
        self.open.append(element)

    def _end(self, _tag: str) -> None:
        self.open.pop()

    def _text(self, text: str) -> None:
        if self.open and not text.isspace():
            self.open[-1].texts.append(text)

    def _doctype(self, _name: str, _system: Any, _public: Any, internal: int) -> None:
        if internal:
            raise self._refused("declares a document type of its own; remove it")

    def _entity(self, *_declaration: Any) -> None:
        raise self._refused("declares an entity; remove it")

    def _refused(self, message: str) -> InputError:
        return InputError.of(message, file=self.file, line=self.parser.CurrentLineNumber, column=1)


def read_xml(path: Path | str) -> tuple[Element, tuple[Problem, ...]]:
    """The root of an XML file, packed or not, and what of it could not be read.

    Of a damaged file everything before the damage is kept. Raises `InputError` if there is no
    element at all, and for files that are too large or declare entities.
    """
    file = str(path)
    builder = _TreeBuilder(file)
    problem = None
    with open_limited(path, LIMITS) as stream:
        try:
            while chunk := stream.read(_XML_CHUNK):
                builder.parser.Parse(chunk, False)
            builder.parser.Parse(b"", True)
        except InputError:
            raise
        except expat.ExpatError as error:
            problem = Problem(file, error.lineno, error.offset + 1, f"is not XML from here on: {error}")
        except (LookupError, ValueError) as error:
            problem = Problem(file, 0, 0, f"is not readable as XML: {error}")
        problem = stream.problem or problem
    if builder.root is None:
        raise InputError([problem or Problem(file, 0, 0, "holds no XML element")])
    return builder.root, (problem,) if problem else ()
