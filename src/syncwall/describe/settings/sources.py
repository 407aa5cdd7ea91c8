"""Text of settings files as documents that remember lines: TOML tables and shell arguments.

Holds `toml_document`, `arguments_document` and `nested`. YAML and JSON are read by `documents`.
"""

import re
import tomllib
from typing import Any, Final

from syncwall.documents import Document, KeyPath, Place
from syncwall.problems import InputError

_HEADER: Final = re.compile(r"\s*\[+([^\[\]]+)\]+\s*(#.*)?$")
_KEY: Final = re.compile(r"\s*([\w.\"'-]+)\s*=")
_AT: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
_ASSIGNED: Final = re.compile(
    r"(?:^|[\s;])(?:export\s+|local\s+)?([A-Za-z_]\w*)=[\"']?([^\s\"';()]*)"
)
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}$]*))?\})")
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
_DEPTH: Final = 8
_LONGEST: Final = 4096


def toml_document(text: str, file: str) -> Document:
    """Parse TOML; places are those of the keys, as far as one is written on each line."""
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line, column = (int(at[1]), int(at[2])) if at else (len(text.splitlines()) or 1, 1)
        what = _AT.sub("", str(error)).strip().lower()
        raise InputError.of(f"not TOML: {what}", file=file, line=line, column=column) from None
    except (RecursionError, ValueError) as error:  # nested too deeply; a number of too many digits
        raise InputError.of(f"not TOML: {error}", file=file, line=1, column=1) from None
    return Document(file, value, _toml_places(text))


def _toml_places(text: str) -> dict[KeyPath, Place]:
    places: dict[KeyPath, Place] = {(): (1, 1)}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = tuple(part.strip(" \"'") for part in header[1].split("."))
            for depth in range(1, len(table) + 1):
                places.setdefault(table[:depth], (number, line.index("[") + 1))
        elif key:
            path = (*table, *(part.strip("\"'") for part in key[1].split(".")))
            places.setdefault(path, (number, key.start(1) + 1))
    return places


def arguments_document(text: str, file: str) -> Document:
    """The `--name value` arguments of a shell script or a list of them.

    Comments, line ends with a backslash, quotes and arrays are understood; of shell variables only
    those that are set to plain text above. An argument that stands twice counts where it stands
    last, as for the program that reads it. Each is a list of the words that follow it.
    """
    known: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    places: dict[KeyPath, Place] = {(): (1, 1)}
    words: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw)
        for name, value in _ASSIGNED.findall(line):
            known[name] = _expanded(value, known)
        for word in re.finditer(r"[^\s\"'()\\;]+", line):
            name, equals, value = word[0].partition("=")
            if name.startswith("--") and len(name) > 2:
                words = found[name] = [_expanded(value, known)] if equals else []
                places[(name,)] = (number, word.start() + 1)
            elif not re.fullmatch(r"[A-Za-z_]\w*\+?", name) or not equals:
                words.append(_expanded(word[0], known))
    return Document(file, dict(found), places)


def _expanded(text: str, known: dict[str, str]) -> str:
    """`text` with the shell variables in it that are known, or have a default."""

    def meant(match: re.Match[str]) -> str:
        name, default = match[1] or match[2], match[3]
        return known.get(name, match[0] if default is None else default)

    for _ in range(_DEPTH):
        before, text = text, _VARIABLE.sub(meant, text)[:_LONGEST]
        if text == before:
            break
    return text


def nested(document: Document) -> Document:
    """Arguments such as `--parallelism.tensor_parallel_degree 8` as the tables of a TOML file."""
    value: dict[str, Any] = {}
    places: dict[KeyPath, Place] = {(): (1, 1)}
    for name, words in document.value.items():
        table, dot, key = name.removeprefix("--").rpartition(".")
        if dot:
            path = (*table.split("."), key)
            inner = value
            for part in path[:-1]:
                inner = inner.setdefault(part, {})
                if not isinstance(inner, dict):
                    break
            else:
                inner[key] = words[0] if words else True
                places[path] = document.places[name,]
    return Document(document.file, value, places)
