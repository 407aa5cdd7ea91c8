"""An article as one HTML file that needs nothing else, or as Markdown with its pictures beside it.

Holds `page` with `notes_html`, `markdown` with `Written`, and `filled` (a template without gaps).
Text is escaped; notes are Markdown whose own HTML and pictures are not taken over. Pictures beside
Markdown are files rather than inline SVG: they show in mkdocs, on GitHub and in an editor alike.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Final

from syncwall import __version__
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
from syncwall.show.report.svg import style


def filled(template: str, parts: Mapping[str, str]) -> str:
    """`template` with every `@@name@@` replaced; what is put in is not looked at again."""
    head, *rest = template.split("@@")  # text, name, text, name, ..., text
    names, texts = rest[::2], rest[1::2]
    return head + "".join(parts[name] + text for name, text in zip(names, texts, strict=True))


def page(article: Article) -> str:
    """The whole file."""
    frame = files("syncwall.show.report").joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "title": escape(article.title),
        "style": style(),
        "body": "\n".join(_body(article.blocks)),
        "version": escape(__version__),
    }
    return filled(frame, parts)


def _body(blocks: Sequence[Block]) -> Iterator[str]:
    """Figures that follow each other stand side by side where there is room."""
    for is_figure, alike in groupby(blocks, key=lambda block: isinstance(block, Figure)):
        written = map(_written, alike)
        yield f'<div class="figures">{"".join(written)}</div>' if is_figure else "\n".join(written)


def _written(block: Block) -> str:  # noqa: PLR0911 - one for each kind
    match block:
        case Heading(level, text):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Paragraph(text, is_quiet, is_lead):
            kind = ' class="quiet"' if is_quiet else ' class="lead"' if is_lead else ""
            return f"<p{kind}>{escape(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case Table():
            return _table(block)
        case Figure(drawing, caption):
            return f"<figure>{drawing.markup()}<figcaption>{escape(caption)}</figcaption></figure>"
        case Code(text):
            return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
        case Notes(markdown):
            return notes_html(markdown)


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_kind(number, table)}>{escape(name)}</th>'
        for number, name in enumerate(table.head)
    )
    lines = "\n".join(
        "<tr>"
        + "".join(f"<td{_kind(n, table)}>{escape(cell)}</td>" for n, cell in enumerate(row))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _kind(number: int, table: Table) -> str:
    return ' class="words"' if number < table.words else ""


def notes_html(markdown: str) -> str:
    """Notes as HTML; headings go two levels down, HTML is shown as text, pictures are left out."""
    from markdown_it import MarkdownIt  # comes with rich

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = reader.parse(markdown)
    for token in tokens:
        if token.type.startswith("heading_"):
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
    return str(reader.renderer.render(tokens, reader.options, {}))


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
            parts.append(_as_markdown(block))
    return Written("\n\n".join(parts) + "\n", pictures)


def _as_markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {_escaped(text)}"
        case Paragraph(text, is_lead=is_lead):
            return f"**{_escaped(text)}**" if is_lead else _start_of_line(_escaped(text))
        case Bullets(items):
            return "\n".join(f"- {_start_of_line(_escaped(item))}" for item in items)
        case Table():
            return _markdown_table(block)
        case Code(text):
            return _indented(text)
        case Notes(text):
            return text.strip()
        case Figure():
            raise AssertionError("pictures are written by `markdown`")


def _indented(text: str) -> str:
    """Code by its indentation: no line of it can end it."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _markdown_table(table: Table) -> str:
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
