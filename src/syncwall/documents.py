"""YAML and JSON text as plain values that remember where each of them stood.

Holds `Document`, `read_document` (a file), `parse_document` (text), `read_text`, `opened` (any file
that a user names), `opened_table`, `packed_or_plain`, `write_whole` and `refuse_unwritable`. The
dialect is the plain part of YAML 1.2: only `true` and `false` are booleans, `1:7` and dates stay
text, `5e10` is a number, a key may appear once, and an alias may not contain itself.
"""

import errno
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import yaml

from syncwall.problems import InputError, Problem

MAX_BYTES: Final = 16 * 1024 * 1024
_PROBE_BYTES: Final = 256 * 1024
_MAX_VALUES: Final = 1_000_000
_MAX_DEPTH: Final = 60
_MAX_PROBLEMS: Final = 100

KeyPath = tuple[str | int, ...]
LineColumn = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Document:
    """Values of one file (or of none), with the line and column (from 1) of every key and value."""

    file: str = ""
    value: Any = field(default_factory=dict)
    places: dict[KeyPath, LineColumn] = field(default_factory=dict)
    """Where the value at a path stands; for the value of a mapping, where its key stands."""

    def place(self, path: KeyPath) -> LineColumn:
        """The place of `path`, or of the deepest part of it that stands in the text.

        Parts that are not in the text (names of alternatives, keys left out) are skipped.
        """
        known: KeyPath = ()
        for part in path:
            if (*known, part) in self.places:
                known = (*known, part)
        return self.places.get(known, (1, 1))

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem that points at `path`."""
        return Problem(self.file, *self.place(path), message)

    def inside(self, key: str) -> "Document":
        """What stands under `key`, as a document of its own."""
        places = {path[1:]: place for path, place in self.places.items() if path[:1] == (key,)}
        return Document(self.file, self.value[key], places)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write `text` to the file at `path`, which is replaced as a whole; InputError if that fails.

    Anything but a plain file, such as /dev/null, is written to and never replaced.
    """
    with _target(path) as (target, beside):
        beside.write_bytes(text.encode() if isinstance(text, str) else text)
        if beside != target:
            beside.replace(target)


def refuse_unwritable(path: Path) -> None:
    """InputError if `write_whole` would fail at `path`; nothing is there afterwards."""
    with _target(path) as (target, beside):
        if beside != target:
            beside.write_bytes(bytes(_PROBE_BYTES))
        elif target.is_dir() or not os.access(target, os.W_OK):
            number = errno.EISDIR if target.is_dir() else errno.EACCES
            raise OSError(number, os.strerror(number))


@contextmanager
def _target(path: Path) -> Iterator[tuple[Path, Path]]:
    """What is written to in the end, and first; of the latter nothing is left."""
    beside = None
    try:
        target = path.resolve()
        if target.is_symlink():  # links in a circle, from Python 3.13 on
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        plain = target.is_file() or not target.exists()
        beside = target.with_name(f".{target.name}.{os.getpid()}") if plain else None
        yield target, beside or target
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        reason = f"cannot be written: {getattr(error, 'strerror', error)}"
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
            reason = "is a link that leads to itself"
        raise InputError.of(reason, file=str(path)) from None
    finally:
        if beside is not None:
            with suppress(OSError):
                beside.unlink()


def opened(path: Path) -> IO[bytes]:
    """The plain file at `path`, unbuffered; InputError for pipes and devices, which never end."""
    try:
        # a pipe without a writer must not block
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError.of(f"cannot be read: {reason}", file=str(path)) from None
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(file, "rb", buffering=0)
    os.close(file)
    if stat.S_ISDIR(mode):
        raise InputError.of("is a directory; name the files in it", file=str(path))
    raise InputError.of("is a pipe or a device; write what it holds to a file", file=str(path))


def packed_or_plain(path: Path) -> Path:
    """`path` as a checkout has it, or `path`.gz as an installed package has it."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.exists() else path


def opened_table(path: Path) -> IO[str]:
    """The text of a CSV file, which may be compressed with gzip."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def read_document(path: Path) -> Document:
    """Parse the YAML or JSON file at `path`; InputError names the line of what cannot be read."""
    return parse_document(read_text(path), str(path), is_json=".json" in path.suffixes[-2:])


def read_text(path: Path) -> str:
    """All text of a file that describes something, which may be compressed with gzip (`.gz`);
    InputError if it cannot be read as such.
    """
    name = str(path)
    try:
        with opened(path) as stream:
            packed = path.suffix == ".gz"
            source = gzip.GzipFile(fileobj=stream) if packed else stream
            raw = source.read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError.of("is not compressed with gzip, or not whole", file=name) from None
    except OSError as error:
        raise InputError.of(f"cannot be read: {error.strerror}", file=name) from None
    if len(raw) > MAX_BYTES:
        raise InputError.of("is larger than 16 MiB, too large for a description", file=name)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise InputError.of(
            f"byte 0x{raw[error.start]:02x} is not UTF-8 text", file=name, line=line, column=column
        ) from None


def parse_document(text: str, file: str, *, is_json: bool = False) -> Document:
    """Parse `text`; `file` is the name used in messages."""
    if is_json:  # YAML forbids tabs as indentation, JSON allows them nowhere but there
        text = text.replace("\t", " ")
    strange = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if strange is not None:
        line = text.count("\n", 0, strange.start()) + 1
        column = strange.start() - text.rfind("\n", 0, strange.start())
        message = f"character {strange[0]!r} is not allowed in YAML"
        raise InputError.of(message, file=file, line=line, column=column)
    builder = _YamlBuilder(file)
    try:
        value = builder.document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = " ".join(filter(None, (error.context, error.problem)))
        raise InputError.of(f"not YAML: {what}", file=file, line=line, column=column) from error
    if builder.problems:
        raise InputError(builder.problems)
    return Document(file, value, builder.places)


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _YamlBuilder:
    """Turns YAML events into values, writing down where each of them stood.

    Events rather than PyYAML's nodes: its C composer recurses without a limit and can crash.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[KeyPath, LineColumn] = {}
        self.problems: list[Problem] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0

    def document(self, events: Iterator[yaml.Event]) -> Any:
        """The value of the only document in `events`."""
        self._events = events
        next(events)  # the start of the stream
        event = next(events)
        if isinstance(event, yaml.StreamEndEvent):
            raise InputError.of("is empty", file=self.file, line=1, column=1)
        value = self._value(next(events), (), 0)
        next(events)  # the end of the document
        event = next(events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse(event, "a second document starts here: write one per file")
        return value

    def _value(self, event: yaml.Event, path: KeyPath, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            self._refuse(event, "is nested too deeply")
        self.places.setdefault(path, _place(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._count
        self._add(1, event)
        value: Any
        if isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path, depth)
        else:
            value = _scalar(event)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = (value, self._count - before)
        return value

    def _mapping(self, path: KeyPath, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key_event, yaml.ScalarEvent):
                self._refuse(key_event, "a key must be a word")
            key = key_event.value
            if key in values:
                self.problems.append(Problem(self.file, *_place(key_event), f'key "{key}" appears twice'))
                if len(self.problems) >= _MAX_PROBLEMS:
                    raise InputError(self.problems)
            self.places[(*path, key)] = _place(key_event)
            values[key] = self._value(next(self._events), (*path, key), depth + 1)
        return values

    def _sequence(self, path: KeyPath, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event, (*path, len(values)), depth + 1))
        return values

    def _alias(self, event: yaml.AliasEvent) -> Any:
        if event.anchor not in self._anchors:
            self._refuse(event, f'alias "*{event.anchor}" is not defined above')
        value, count = self._anchors[event.anchor]
        self._add(count, event)
        return value

    def _add(self, count: int, event: yaml.Event) -> None:
        self._count += count
        if self._count > _MAX_VALUES:
            self._refuse(event, "holds too many values")

    def _refuse(self, event: yaml.Event, message: str) -> NoReturn:
        line, column = _place(event)
        raise InputError.of(message, file=self.file, line=line, column=column)


_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, Any]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_MAX_INTEGER_CHARS: Final = 40


def _scalar(event: yaml.Event) -> Any:
    assert isinstance(event, yaml.ScalarEvent)
    text = event.value
    if event.style:  # quoted, or a block of text
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and len(text) <= _MAX_INTEGER_CHARS:
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _place(event: yaml.Event) -> LineColumn:
    mark = event.start_mark
    assert mark is not None
    return mark.line + 1, mark.column + 1
