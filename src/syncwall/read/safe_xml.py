"""XML from strangers: no entities, no outside files, bounded size.

Holds `read_xml` and `Element`. A document type is accepted only if it declares nothing (hwloc
writes one), so that neither entity bombs nor files named in it can do harm.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from syncwall.problems import InputError, Problem
from syncwall.read.limited import UnpackLimits, open_limited

LIMITS: Final = UnpackLimits(raw_bytes=32 << 20)
"""Topologies are small: 32 MiB is a hundred times the largest that we know."""
_ELEMENTS: Final = 100_000
_DEPTH: Final = 200
_CHUNK: Final = 1 << 16


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
            while chunk := stream.read(_CHUNK):
                builder.parser.Parse(chunk, False)
            builder.parser.Parse(b"", True)
        except InputError:
            raise
        except expat.ExpatError as error:
            problem = Problem(
                file, error.lineno, error.offset + 1, f"is not XML from here on: {error}"
            )
        except (LookupError, ValueError) as error:
            problem = Problem(file, 0, 0, f"is not readable as XML: {error}")
        problem = stream.problem or problem
    if builder.root is None:
        raise InputError([problem or Problem(file, 0, 0, "holds no XML element")])
    return builder.root, (problem,) if problem else ()
