"""What an article is made of, before anybody decides how it is written.

Holds `Article`, and its blocks: `Heading`, `Paragraph`, `Bullets`, `Table`, `Figure`, `Code` and
`Notes`; `table` and `sentence` make parts of them.
All text is plain text; whoever writes it out escapes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from syncwall.show.report.svg import Drawing


@dataclass(frozen=True)
class Heading:
    """A heading; `level` 2 stands right under the title."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A few sentences; `is_quiet` for what explains a table or picture, `is_lead` for a verdict."""

    text: str
    is_quiet: bool = False
    is_lead: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Cells of text; the first `words` columns are words, the others numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


@dataclass(frozen=True)
class Figure:
    """A picture and what it shows."""

    drawing: Drawing
    caption: str


@dataclass(frozen=True)
class Code:
    """A file or a command, line by line as it is."""

    text: str


@dataclass(frozen=True)
class Notes:
    """Markdown that the author wrote."""

    markdown: str


Block = Heading | Paragraph | Bullets | Table | Figure | Code | Notes


@dataclass(frozen=True)
class Article:
    """A title and what follows."""

    title: str
    blocks: tuple[Block, ...]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> list[Block]:
    """A table of `rows`, or nothing if there are none."""
    return [Table(tuple(head), tuple(map(tuple, rows)), words)] if rows else []


def sentence(text: str) -> str:
    """`text` with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
