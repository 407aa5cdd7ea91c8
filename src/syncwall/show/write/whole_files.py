"""A view as a file: one HTML page that needs nothing else, or Markdown with its pictures
beside it.

Text is escaped; terms say what they mean; notes are Markdown whose own HTML and pictures are not
taken over.

Pictures are files rather than inline SVG: they show in mkdocs, on GitHub and in an editor alike.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Final

from syncwall import __version__
from syncwall.show import blocks
from syncwall.show.draw.bars import ledger_drawing
from syncwall.show.draw.svg import WIDTH, Drawing, style
from syncwall.show.terms import meaning
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
        these, key=lambda block: isinstance(block, blocks.Figure | blocks.Breakdown)
    ):
        each = map(written, alike)
        yield f'<div class="figures">{"".join(each)}</div>' if is_figure else "\n".join(each)


def written(block: blocks.Block) -> str:  # noqa: PLR0911 - one for each kind
    """One block as HTML."""
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
            links = (f'<li><a href="#{escape(blocks.anchor(t))}">{escape(t)}</a></li>' for t in headings)
            return f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>'
        case blocks.Paragraph(text, is_quiet):
            return f"<p{_quiet(is_quiet)}>{escape(text)}</p>"
        case blocks.Bullets(items):
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case blocks.Table():
            return _html_table(block)
        case blocks.Breakdown(title):
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


def _html_table(table: blocks.Table) -> str:
    name = f"<p><strong>{escape(table.label)}</strong></p>\n" if table.label else ""
    head = "".join(
        f'<th scope="col"{_kind(number, table)}>{_term(name)}</th>' for number, name in enumerate(table.head)
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
        case blocks.Breakdown():
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
        [f"**{cell}**" if row in table.strong or len(line) == 1 else cell for cell in map(_escaped, line)]
        + [""] * (count - len(line))
        for row, line in enumerate(table.rows)
    )
    written = "\n".join(map(_markdown_row, [[*map(_escaped, table.head)], marks, *rows]))
    return f"**{_escaped(table.label)}:**\n\n{written}" if table.label else written


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ledger(ledger: blocks.Breakdown) -> str:
    whole = ledger.whole or 1.0
    parts = [(one.name, one.value) for one in ledger.parts]
    rows = [
        (name, ledger.text(value), f"{value / whole:.1%}")
        for name, value in [*parts, (ledger.total, ledger.whole)]
    ]
    return _table(blocks.Table((ledger.title, "time", "%"), tuple(rows), strong=frozenset({len(parts)})))


def _escaped(text: str) -> str:
    """`text` on one line, none of it Markdown or HTML."""
    flat = " ".join(text.split())
    safe = _SPECIAL.sub(r"\\\1", flat)
    return re.sub("[&<>]", lambda found: _HTML[found[0]], safe)


def _start_of_line(text: str) -> str:
    """`text` that starts no list and no quotation."""
    return re.sub(r"^(\d+)([.)])(?=\s)", r"\1\\\2", re.sub(r"^([-+=:])", r"\\\1", text))
