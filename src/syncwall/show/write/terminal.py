"""A view on a terminal: no number or name is ever cut, however narrow it is.

Holds `rendered` (the lines of a view at a width) and `print_view`. Tables give up their spare
columns first; then words wrap, and where that is not enough the rest of a row stands under it.
Control characters, which only files of others have in them, are shown and never sent.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from syncwall.problems import visible
from syncwall.show import blocks

_INDENT: Final = 10
"""Columns that labels have."""
_GAP: Final = 2
_BAR: Final = 24
"""Columns of the longest bar."""
_WIDEST_FILE: Final = 200
"""Columns of what goes into a file or a pipe, unless $COLUMNS says otherwise."""


def print_view(view: blocks.View) -> None:
    """Print `view`, in colour and as wide as the terminal; plain and wide into a file or pipe."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=int(os.environ.get("COLUMNS") or _WIDEST_FILE))
    with console.capture() as captured:  # rich ends the process where a pipe is closed
        for line in rendered(view, console.width):
            console.print(line, soft_wrap=True)
    sys.stdout.write(captured.get())


def rendered(view: blocks.View, width: int) -> Iterator[Text]:
    """The lines of `view` on a terminal with `width` columns."""
    before: blocks.Block | None = None
    for block in map(_shown, view.blocks):
        lines = list(_written(block, width))
        if lines and before is not None and not _belong_together(before, block):
            yield Text()
        yield from lines
        before = block if lines else before


def _shown(part: Any) -> Any:
    """A block, or a part of one, with control characters written out in all its texts."""
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, tuple):
        return tuple(map(_shown, part))
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{one.name: _shown(getattr(part, one.name)) for one in fields(part)})
    return part


def _belong_together(before: blocks.Block, block: blocks.Block) -> bool:
    """True for blocks between which no line is left free."""
    if isinstance(before, blocks.Heading):
        return True
    return all(isinstance(one, blocks.Lines) or getattr(one, "label", "") for one in (before, block))


def _written(block: blocks.Block, width: int) -> Iterator[Text]:
    match block:
        case blocks.Verdict(lines, about):
            yield from _beside("Verdict", lines, width)
            yield from _beside("", (about,) if about else (), width, "dim")
        case blocks.Lines(label, lines, is_quiet):
            yield from _beside(label, lines, width, "dim" if is_quiet else "")
        case blocks.Heading(_, text):
            yield Text(text, "bold")
        case blocks.Paragraph(text, is_quiet):
            yield from (Text(line, "dim" if is_quiet else "") for line in blocks.wrapped(text, width))
        case blocks.Bullets(items):
            for item in items:
                first, *rest = blocks.wrapped(item, width - 4)
                yield Text(f"  - {first}")
                yield from (Text(f"    {line}") for line in rest)
        case blocks.Table():
            yield from _table(block, width)
        case blocks.Breakdown():
            yield from _ledger(block, width)
        case blocks.Figure(_, caption, drawn):
            if drawn is not None:
                yield from (Text(f"  {line}", "bold") for line in blocks.wrapped(caption, width - 2))
                yield from _drawn(drawn, width)
        case blocks.Code(text):
            yield from (Text(f"  {line}") for line in text.splitlines())
        case blocks.Notes(markdown):
            yield from (Text(line) for line in markdown.strip().splitlines())


def _drawn(drawn: blocks.Table | Callable[[int], Sequence[str]], width: int) -> Iterator[Text]:
    if isinstance(drawn, blocks.Table):
        return _table(drawn, width)
    return (Text(f"  {visible(line)}") for line in drawn(width - 2))


def _beside(label: str, texts: Iterable[str], width: int, style: str = "") -> Iterator[Text]:
    """`texts` beside their label; what is too long goes on under them."""
    for text in texts:
        for line in blocks.wrapped(text, width - _INDENT):
            yield Text.assemble((f"{label:<{_INDENT}}", style or "bold"), (line, style))
            label = ""


def _table(table: blocks.Table, width: int) -> Iterator[Text]:
    room = width - (_INDENT if table.label else 2)
    shown = _fitting(_grouped(table), room)
    widths = _widths(shown)
    if _total(widths) > room:
        widths = _squeezed(shown, widths, room)
    lines = _rows(shown, widths) if widths else _stacked(shown, room)
    for number, line in enumerate(lines):
        label = table.label if number == 0 else ""
        before = f"{label:<{_INDENT}}" if table.label else "  "
        yield Text.assemble((before, "bold"), line)


def _grouped(table: blocks.Table) -> blocks.Table:
    """`table` with what stands under headings a little to the right."""
    if all(len(row) > 1 for row in table.rows):
        return table
    rows = (row if len(row) == 1 else (f"  {row[0]}", *row[1:]) for row in table.rows)
    return replace(table, rows=tuple(rows))


def _fitting(table: blocks.Table, room: int) -> blocks.Table:
    """`table` without as many of its spare columns as it takes to fit; two stay, as one cell is a
    heading.
    """
    for name in table.spare:
        if _total(_widths(table)) <= room or len(table.head) == 2:
            break
        table = table.only([n for n, head in enumerate(table.head) if head != name])
    return table


def _widths(table: blocks.Table) -> list[int]:
    heads = [0 if table.label else cell_len(name) for name in table.head]
    full = [row for row in table.rows if len(row) > 1]
    return [max([w, *(cell_len(row[n]) for row in full)]) for n, w in enumerate(heads)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _squeezed(table: blocks.Table, widths: list[int], room: int) -> list[int]:
    """Widths at which words wrap so that all fits, or none if they would get too narrow."""
    widths = list(widths)
    while (over := _total(widths) - room) > 0:
        words = [n for n in range(len(widths)) if table.is_words(n)]
        widest = max(words, key=lambda n: widths[n], default=0)
        cells = (row[widest] for row in table.rows if len(row) > 1)
        least = max([blocks.NARROWEST, cell_len(table.head[widest]), *map(_longest_word, cells)])
        if not words or widths[widest] <= least:
            return []
        widths[widest] -= min(over, widths[widest] - least)
    return widths


def _longest_word(text: str) -> int:
    return blocks.lead(text) + max(map(cell_len, blocks.held(text).split(" ")), default=0)


def _rows(table: blocks.Table, widths: Sequence[int]) -> Iterator[Text]:
    if any(table.head) and not table.label:
        yield Text(_row(table, table.head, widths), "bold")
    for number, row in enumerate(table.rows):
        if len(row) == 1:
            yield Text(row[0], "bold")
            continue
        cells = [
            blocks.wrapped(cell, widths[n]) if table.is_words(n) else [cell] for n, cell in enumerate(row)
        ]
        for line in range(max(map(len, cells))):
            texts = [cell[line] if line < len(cell) else "" for cell in cells]
            style = "bold" if number in table.strong else ""
            yield Text(_row(table, texts, widths), style)


def _row(table: blocks.Table, cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = (
        _padded(cell, width, left=table.is_words(n))
        for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return (" " * _GAP).join(texts).rstrip()


def _padded(text: str, width: int, *, left: bool) -> str:
    room = " " * (width - cell_len(text))
    return text + room if left else room + text


def _stacked(table: blocks.Table, room: int) -> Iterator[Text]:
    """The first cell of each row, and under it the others with the names of their columns."""
    if table.head[0] and not table.label:
        yield Text(table.head[0], "bold")
    for number, row in enumerate(table.rows):
        style = "bold" if number in table.strong or len(row) == 1 else ""
        yield from (Text(line, style) for line in blocks.wrapped(row[0], room))
        parts = [
            f"{name}: ".removeprefix(": ").replace(" ", blocks.HELD) + cell
            for name, cell in zip(table.head[1:], row[1:], strict=False)
            if cell
        ]
        under = " " * (blocks.lead(row[0]) + 2)
        for line in blocks.wrapped("   ".join(parts), room - len(under)) if parts else []:
            yield Text(under + line.strip(), style)


def _ledger(ledger: blocks.Breakdown, width: int) -> Iterator[Text]:
    """Names, bars, values and shares."""
    whole = ledger.whole or 1.0
    rows = [(f"  {one.name}", one.value, f"{one.value / whole:.1%}") for one in ledger.parts]
    rows.append((f"  {ledger.total}", ledger.whole, "100%"))
    texts = [ledger.text(value) for _, value, _ in rows]
    names = max(map(cell_len, [ledger.title, *(name for name, _, _ in rows)]))
    right = max(map(cell_len, ["time", *texts]))
    bar = max(0, min(_BAR, width - names - right - 14))
    title = _padded(ledger.title, names + bar + 4, left=True)
    yield Text(f"  {title}{'time':>{right}}       %", "bold")
    for (name, value, share), text in zip(rows, texts, strict=True):
        drawn = ("█" * round(bar * value / whole) or "▏") * (name != rows[-1][0])
        yield Text.assemble(
            f"  {_padded(name, names, left=True)}  ",
            (f"{drawn[:bar]:<{bar}}", "cyan"),
            f"  {_padded(text, right, left=False)}  {share:>6}",
        )
