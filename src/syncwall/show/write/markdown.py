"""A view as Markdown, with its pictures beside it.

Holds `markdown` and `Written`. Pictures are files rather than inline SVG: they show in mkdocs, on
GitHub and in an editor alike.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncwall.show import blocks

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]|~!#])")
_HTML: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


@dataclass(frozen=True)
class Written:
    """A text and the files it refers to, by name."""

    text: str
    pictures: dict[str, str]


def markdown(view: blocks.View, stem: str) -> Written:
    """`view` with pictures called `stem`-1.svg and so on."""
    pictures: dict[str, str] = {}
    parts = [f"# {_escaped(view.title)}"]
    for block in (*view.blocks, *view.details):
        if isinstance(block, blocks.Figure):
            name = f"{stem}-{len(pictures) + 1}.svg"
            pictures[name] = block.draw().file()
            parts += [f"![{_escaped(block.caption)}]({name})", f"*{_escaped(block.caption)}*"]
        else:
            parts.append(_as_markdown(block))
    return Written("\n\n".join(parts) + "\n", pictures)


def _as_markdown(block: blocks.Block) -> str:  # noqa: PLR0911 - one for each kind
    match block:
        case blocks.Verdict(lines, about):
            more = [_start_of_line(_escaped(about))] if about else []
            return "\n\n".join([*(f"**{_escaped(line)}**" for line in lines), *more])
        case blocks.Lines(label, lines):
            said = "  \n".join(_start_of_line(_escaped(line)) for line in lines)
            return f"**{_escaped(label)}:** {said}" if label else said
        case blocks.Heading(level, text):
            return f"{'#' * level} {_escaped(text)}"
        case blocks.Contents(headings):
            return "\n".join(f"- [{_escaped(text)}](#{blocks.anchor(text)})" for text in headings)
        case blocks.Paragraph(text):
            return _start_of_line(_escaped(text))
        case blocks.Bullets(items):
            return "\n".join(f"- {_start_of_line(_escaped(item))}" for item in items)
        case blocks.Table():
            return _table(block)
        case blocks.Ledger():
            return _ledger(block)
        case blocks.Code(text):
            return _indented(text)
        case blocks.Notes(text):
            return text.strip()
        case blocks.Figure():
            raise AssertionError("pictures are written by `markdown`")


def _indented(text: str) -> str:
    """Code by its indentation: no line of it can end it."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _table(table: blocks.Table) -> str:
    count = len(table.head)
    marks = ["---" if table.is_words(number) else "---:" for number in range(count)]
    rows = (
        [f"**{cell}**" if row in table.strong or len(line) == 1 else cell for cell in
         map(_escaped, line)] + [""] * (count - len(line))
        for row, line in enumerate(table.rows)
    )  # fmt: skip
    written = "\n".join(map(_row, [[*map(_escaped, table.head)], marks, *rows]))
    return f"**{_escaped(table.label)}:**\n\n{written}" if table.label else written


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ledger(ledger: blocks.Ledger) -> str:
    whole = ledger.whole or 1.0
    parts = [(one.name, one.value) for one in ledger.parts]
    rows = [
        (name, ledger.text(value), f"{value / whole:.1%}")
        for name, value in [*parts, (ledger.total, ledger.whole)]
    ]
    return _table(
        blocks.Table((ledger.title, "time", "%"), tuple(rows), strong=frozenset({len(parts)}))
    )


def _escaped(text: str) -> str:
    """`text` on one line, none of it Markdown or HTML."""
    flat = " ".join(text.split())
    safe = _SPECIAL.sub(r"\\\1", flat)
    return re.sub("[&<>]", lambda found: _HTML[found[0]], safe)


def _start_of_line(text: str) -> str:
    """`text` that starts no list and no quotation."""
    return re.sub(r"^(\d+)([.)])(?=\s)", r"\1\\\2", re.sub(r"^([-+=:])", r"\\\1", text))
