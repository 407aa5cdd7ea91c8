"""A view as one HTML file that needs nothing else.

Holds `page`, `body` and `notes_html`. Text is escaped; terms say what they mean; notes are Markdown
whose own HTML and pictures are not taken over.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby

from syncwall import __version__
from syncwall.show import blocks
from syncwall.show.draw.ledger import ledger_drawing
from syncwall.show.draw.svg import WIDTH, Drawing, style
from syncwall.show.words.terms import meaning
from syncwall.show.write.template import filled


def page(view: blocks.View) -> str:
    """The whole file."""
    scripts = {one.script for one in view.blocks if isinstance(one, blocks.Figure) and one.script}
    allowed = " ".join(f"'sha256-{_digest(_file(name))}'" for name in scripts)
    parts = {
        "scripts": f"; script-src {allowed}" if scripts else "",
        "title": escape(view.title),
        "style": style(),
        "body": body(view),
        "version": escape(__version__),
    }
    return filled(_file("page.html"), parts)


def _file(name: str) -> str:
    return files("syncwall.show.write").joinpath(name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """What the policy of a page calls a script that may run."""
    return b64encode(sha256(script.encode()).digest()).decode()


def body(view: blocks.View) -> str:
    """All of it without its title."""
    return "\n".join(_body((*view.blocks, *view.details)))


def _body(these: Sequence[blocks.Block]) -> Iterator[str]:
    """Pictures that follow each other stand side by side where there is room."""
    for is_figure, alike in groupby(
        these, key=lambda block: isinstance(block, blocks.Figure | blocks.Ledger)
    ):
        written = map(_written, alike)
        yield f'<div class="figures">{"".join(written)}</div>' if is_figure else "\n".join(written)


def _written(block: blocks.Block) -> str:  # noqa: PLR0911 - one for each kind
    match block:
        case blocks.Verdict(lines, about):
            more = f'<p class="quiet">{escape(about)}</p>' if about else ""
            return "".join(f'<p class="lead">{escape(line)}</p>' for line in lines) + more
        case blocks.Lines(label, lines, is_quiet):
            said = "<br>".join(map(escape, lines))
            name = f"<strong>{_term(label)}</strong> " if label else ""
            return f"<p{_quiet(is_quiet)}>{name}{said}</p>"
        case blocks.Heading(level, text):
            name = f' id="{escape(blocks.anchor(text))}"' if level == 2 else ""
            return f"<h{level}{name}>{escape(text)}</h{level}>"
        case blocks.Contents(headings):
            links = (
                f'<li><a href="#{escape(blocks.anchor(t))}">{escape(t)}</a></li>' for t in headings
            )
            return f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>'
        case blocks.Paragraph(text, is_quiet):
            return f"<p{_quiet(is_quiet)}>{escape(text)}</p>"
        case blocks.Bullets(items):
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case blocks.Table():
            return _table(block)
        case blocks.Ledger(title):
            return _figure(ledger_drawing(block), title)
        case blocks.Figure(draw, caption, _, script):
            explored = f"<script>{_file(script)}</script>" if script else ""
            return _figure(draw(), caption) + explored
        case blocks.Code(text):
            return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
        case blocks.Notes(markdown):
            return notes_html(markdown)


def _term(words: str) -> str:
    """`words`, with their meaning for those who point at them if they are a term."""
    known = meaning(words)
    return f'<abbr title="{escape(known)}">{escape(words)}</abbr>' if known else escape(words)


def _quiet(is_quiet: bool) -> str:
    return ' class="quiet"' if is_quiet else ""


def _figure(drawing: Drawing, caption: str) -> str:
    said = escape(blocks.sentence(caption))
    whole = ' class="whole"' if drawing.width > WIDTH else ""
    return f"<figure{whole}>{drawing.markup()}<figcaption>{said}</figcaption></figure>"


def _table(table: blocks.Table) -> str:
    name = f"<p><strong>{escape(table.label)}</strong></p>\n" if table.label else ""
    head = "".join(
        f'<th scope="col"{_kind(number, table)}>{_term(name)}</th>'
        for number, name in enumerate(table.head)
    )
    lines = "\n".join(_row(table, number) for number in range(len(table.rows)))
    return (
        f'{name}<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _row(table: blocks.Table, number: int) -> str:
    row = table.rows[number]
    if len(row) == 1:
        wide = f'scope="rowgroup" colspan="{len(table.head)}" class="words"'
        return f"<tr><th {wide}>{escape(row[0])}</th></tr>"
    texts = [_term(row[0]), *map(escape, row[1:])]
    cells = "".join(f"<td{_kind(n, table)}>{text}</td>" for n, text in enumerate(texts))
    strong = ' class="strong"' if number in table.strong else ""
    return f"<tr{strong}>{cells}</tr>"


def _kind(number: int, table: blocks.Table) -> str:
    return ' class="words"' if table.is_words(number) else ""


def notes_html(markdown: str) -> str:
    """Notes as HTML; headings go two levels down, HTML is shown as text, pictures are left out."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = reader.parse(markdown)
    for token in tokens:
        if token.type.startswith("heading_"):
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
    return str(reader.renderer.render(tokens, reader.options, {}))
