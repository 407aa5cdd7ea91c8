"""What a view is made of, before anybody decides how it is written.

Holds `View` and its blocks: `Verdict`, `Lines`, `Heading`, `Contents`, `Paragraph`, `Bullets`,
`Table` of texts or `Cell`s, `Ledger` with its `Share`s, `Figure`, `Code` and `Notes`; `table`,
`ledger`, `contents`, `sentence` and `wrapped` make parts of them, `anchor` names a heading. All
text is plain text; whoever writes it out escapes it.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from syncwall.cause import Cause
from syncwall.show.numbers import duration

if TYPE_CHECKING:
    from syncwall.show.draw.svg import Drawing


@dataclass(frozen=True)
class Verdict:
    """The answer in a sentence or two; `about` says quietly of what."""

    lines: tuple[str, ...]
    about: str = ""


@dataclass(frozen=True)
class Lines:
    """A label of at most nine letters, and sentences beside it."""

    label: str
    lines: tuple[str, ...]
    is_quiet: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading; `level` 2 stands right under the title."""

    level: int
    text: str


@dataclass(frozen=True)
class Contents:
    """Links to the sections of a page; a terminal has none."""

    headings: tuple[str, ...]


@dataclass(frozen=True)
class Paragraph:
    """A few sentences; `is_quiet` for what explains a table or picture."""

    text: str
    is_quiet: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


class Cell(str):
    """A cell with what only pages show of it; everywhere else it is its text."""

    __slots__ = ("below", "data", "keys", "kind", "row", "text")

    def __new__(
        cls,
        text: str,
        kind: str = "",
        *,
        below: str = "",
        data: Mapping[str, Any] | None = None,
        row: Mapping[str, Any] | None = None,
        keys: Mapping[str, Any] | None = None,
    ) -> "Cell":
        """`kind` is a class and `data` are attributes of the cell, `row` those of its row."""
        cell = str.__new__(cls, text)
        cell.kind, cell.below, cell.data, cell.row = kind, below, data or {}, row or {}
        cell.keys, cell.text = keys, text
        return cell

    text: str
    """What was given, which may be markup already."""
    kind: str
    below: str
    """Stands under it, quietly."""
    data: Mapping[str, Any]
    row: Mapping[str, Any]
    keys: Mapping[str, Any] | None
    """What a click on it sets in the address of the page; None: it is no button."""


@dataclass(frozen=True)
class Table:
    """Cells of text; the first `words` columns are words, the others numbers.

    A row of one cell is a heading for those below it.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    ends_in_words: int = 0
    """So many of the last columns are of words, too; True for one."""
    texts: tuple[str, ...] = ()
    """Further columns of words, by their names."""
    label: str = ""
    """Stands beside the rows like that of `Lines`; the head is then left out on a terminal."""
    spare: tuple[str, ...] = ()
    """Columns that narrow screens do without, those of least worth first."""
    strong: frozenset[int] = frozenset()
    """Rows that stand out."""

    def is_words(self, column: int) -> bool:
        """True for a column of words: it may wrap, and stands at the left."""
        is_last = column >= len(self.head) - self.ends_in_words
        return column < self.words or is_last or self.head[column] in self.texts

    def only(self, kept: Sequence[int]) -> "Table":
        """The same with these columns only."""
        rows = (tuple(row[n] for n in kept) if len(row) > 1 else row for row in self.rows)
        return replace(
            self,
            head=tuple(self.head[n] for n in kept),
            rows=tuple(rows),
            words=sum(n < self.words for n in kept),
            ends_in_words=sum(n >= len(self.head) - self.ends_in_words for n in kept),
        )


@dataclass(frozen=True)
class Share:
    """One part of a ledger."""

    name: str
    value: float
    is_wait: bool = False
    """Drawn as time that is waited or lost, rather than worked."""


@dataclass(frozen=True)
class Breakdown:
    """What a whole is made of: parts that add up to it, the largest first."""

    title: str
    parts: tuple[Share, ...]
    whole: float
    """What all parts add up to, also those too small to be listed."""
    total: str = "step"
    """What the whole is called."""
    text: Callable[[float], str] = duration
    kinds: tuple[str, str] = ("works", "waits")
    """What the two colours mean."""


@dataclass(frozen=True)
class Figure:
    """A picture and what it shows."""

    draw: "Callable[[], Drawing]"
    """Makes the picture, where it is wanted."""
    caption: str
    lines: Callable[[int], Sequence[str]] | Table | None = None
    """The same for a terminal, as a table or as lines of so many columns; else it shows nothing."""
    script: str = ""
    """A file of `show.write` that lets people explore the picture in a page."""


@dataclass(frozen=True)
class Code:
    """A file or a command, line by line as it is."""

    text: str


@dataclass(frozen=True)
class Notes:
    """Markdown that the author wrote."""

    markdown: str


Block = Verdict | Lines | Heading | Contents | Paragraph | Bullets | Table | Breakdown | Figure | Code | Notes


@dataclass(frozen=True)
class View:
    """An answer for people: a title and what follows."""

    title: str
    blocks: tuple[Block, ...]
    details: tuple[Block, ...] = ()
    """Sections that follow on a page; a terminal does without."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], **more: Any) -> list[Block]:
    """A `Table` of `rows`, or nothing if there are none; columns without any text are left out."""
    lines = tuple(tuple(row) for row in rows)
    if not lines:
        return []
    made = Table(tuple(head), lines, **more)
    full = [row for row in lines if len(row) > 1]
    return [made.only([n for n in range(len(head)) if n == 0 or any(row[n] for row in full)])]


def contents(blocks: Iterable[Block]) -> list[Block]:
    """Links to the sections among `blocks`, or nothing if there is only one."""
    found = tuple(one.text for one in blocks if isinstance(one, Heading) and one.level == 2)
    return [Contents(found)] if len(found) > 1 else []


def anchor(heading: str) -> str:
    """What a link to a heading is called, as GitHub and mkdocs make it."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def ledger(
    title: str,
    seconds: Mapping[Cause, float],
    *,
    least: float,
    whole: float | None = None,
    **more: Any,
) -> Breakdown:
    """Causes of at least `least` seconds, the largest first."""
    ordered = sorted(seconds.items(), key=lambda pair: -float(pair[1]))
    parts = (Share(str(c), float(s), c.is_wait) for c, s in ordered if float(s) >= least)
    total = sum(map(float, seconds.values())) if whole is None else whole
    return Breakdown(title, tuple(parts), total, **more)


def sentence(text: str) -> str:
    """`text` with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


_HOLDS: Final = re.compile(r"(?<=\d) (?=[A-Za-zµ×])|(?:(?<=\b[cdept]p)|(?<=batch)) (?=\d)")
"""The spaces of "3 GB", "tp 8" and "batch 1"."""
HELD: Final = "\N{NO-BREAK SPACE}"
NARROWEST: Final = 18
"""Columns below which words are not wrapped."""


def held(text: str) -> str:
    """`text` in which no line ends between a number and its unit, or a key and its number."""
    return _HOLDS.sub(HELD, text)


def lead(text: str) -> int:
    """Spaces before `text`."""
    return len(text) - len(text.lstrip(" "))


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of `width`; a number keeps its unit, and what is longer is left whole."""
    lines = textwrap.wrap(
        held(text),
        max(width, NARROWEST),
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=" " * lead(text),
    )
    return [line.replace(HELD, " ") for line in lines] or [""]
