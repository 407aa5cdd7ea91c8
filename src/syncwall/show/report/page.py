"""An article as one HTML file that needs nothing else.

Holds `page`. Text is escaped; notes are Markdown whose own HTML and pictures are not taken over.
"""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

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
from syncwall.show.template import filled


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
