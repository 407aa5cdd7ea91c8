"""An article as Markdown, with every picture as an SVG file beside it.

Holds `markdown` and `Written`. Files rather than inline SVG: they show in mkdocs, on GitHub and in
an editor alike, and the text stays readable.
"""

import re
from dataclasses import dataclass
from typing import Final

from syncwall.show.report.blocks import (
    Article,
    Block,
    Bullets,
    Code,
    Figure,
    Heading,
    Notes,
    Paragraph,
    Table,
)

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]|~!#])")
_HTML: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


@dataclass(frozen=True)
class Written:
    """A text and the files it refers to, by name."""

    text: str
    pictures: dict[str, str]


def markdown(article: Article, stem: str) -> Written:
    """`article` with pictures called `stem`-1.svg and so on."""
    pictures: dict[str, str] = {}
    parts = [f"# {_escaped(article.title)}"]
    for block in article.blocks:
        if isinstance(block, Figure):
            name = f"{stem}-{len(pictures) + 1}.svg"
            pictures[name] = block.drawing.file()
            parts += [f"![{_escaped(block.caption)}]({name})", f"*{_escaped(block.caption)}*"]
        else:
            parts.append(_written(block))
    return Written("\n\n".join(parts) + "\n", pictures)


def _written(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {_escaped(text)}"
        case Paragraph(text, is_lead=is_lead):
            return f"**{_escaped(text)}**" if is_lead else _start_of_line(_escaped(text))
        case Bullets(items):
            return "\n".join(f"- {_start_of_line(_escaped(item))}" for item in items)
        case Table():
            return _table(block)
        case Code(text):
            return _indented(text)
        case Notes(text):
            return text.strip()
        case Figure():
            raise AssertionError("pictures are written by `markdown`")


def _indented(text: str) -> str:
    """Code by its indentation: no line of it can end it."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _table(table: Table) -> str:
    count = len(table.head)
    marks = ("---" if number < table.words else "---:" for number in range(count))
    lines = [table.head, tuple(marks), *table.rows]
    cells = (map(_escaped, line) if number != 1 else line for number, line in enumerate(lines))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _escaped(text: str) -> str:
    """`text` on one line, none of it Markdown or HTML."""
    flat = " ".join(text.split())
    safe = _SPECIAL.sub(r"\\\1", flat)
    return re.sub("[&<>]", lambda found: _HTML[found[0]], safe)


def _start_of_line(text: str) -> str:
    """`text` that starts no list and no quotation."""
    return re.sub(r"^(\d+)([.)])(?=\s)", r"\1\\\2", re.sub(r"^([-+=:])", r"\\\1", text))
