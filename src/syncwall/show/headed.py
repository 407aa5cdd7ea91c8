"""What pages are set from, and how they are printed.

Holds `Headed` (a head with text beside it), `Fitting` (a table that gives way), `plain_table`,
`table`, `ledger_table` (seconds by cause with bars), `print_page`, `print_json` and `print_answer`.
"""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from syncwall.show.numbers import duration
from syncwall.timeline.ledger import Ledger

INDENT: Final = 10
"""Columns that heads have."""
_LEAST: Final = 20


@dataclass(frozen=True, slots=True)
class Headed:
    """Text beside its head; lines that are too long for the terminal go on under the text."""

    head: str
    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - INDENT, _LEAST)
        lines = Text(self.text, self.style).wrap(console, width)
        for number, line in enumerate(lines or [Text()]):
            line.rstrip()
            head = self.head if number == 0 else ""
            yield Text.assemble((f"{head:<{INDENT}}", self.style or "bold"), line)


def plain_table(
    *heads: str, words: int = 1, gap: int = 2, style: str = "bold", overflow: str = "ellipsis",
    header: bool = False,
) -> Table:  # fmt: skip
    """A table without lines; its first `words` columns are texts, the others numbers.

    Without `heads` it has a `header` only if columns with heads are added later.
    """
    made = Table(
        box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style=style,
        show_header=bool(heads) or header,
    )  # fmt: skip
    for number, head in enumerate(heads):
        justify: Any = "left" if number < words else "right"
        made.add_column(head, justify=justify, overflow=cast("Any", overflow))
    return made


def table(
    columns: Iterable[str], lines: Iterable[Iterable[str]], *, words: int = 1,
    overflow: str = "ellipsis",
) -> Table:  # fmt: skip
    """The same with its `lines`."""
    made = plain_table(*columns, words=words, style="dim", overflow=overflow)
    for line in lines:
        made.add_row(*map(Text, line))
    return made


@dataclass(frozen=True, slots=True)
class Fitting:
    """A table, or a narrower one where the terminal has not enough columns for it."""

    wide: Table
    narrow: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = Measurement.get(console, options.update(width=10_000), self.wide).maximum
        yield self.wide if needed <= options.max_width else self.narrow


_WIDTH_OF_FILES: Final = 200


def print_page(page: RenderableType) -> None:
    """Print `page`, in colour and as wide as the terminal; plain and wide into a file or pipe."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_FILES)
    console.print(page)


def print_answer(
    answer: Any, *, as_json: bool, page: Callable[..., RenderableType], record: Callable[..., Any]
) -> None:
    """Print `answer`, or several parts of it, as a `page` or as the JSON of a `record`."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    if as_json:
        print_json(record(*parts))
    else:
        print_page(page(*parts))


def print_json(data: Any) -> None:
    """Print `data` as JSON."""
    json.dump(data, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def ledger_table(
    title: str,
    ledger: Ledger,
    least_s: float,
    *,
    total: str = "step",
    width: int = 22,
    text: Callable[[float], str] = duration,
) -> Table:
    """Causes of at least `least_s`, the largest first, and what all of them add up to.

    `total` is the name of the last line, `width` the longest bar, `text` writes the times.
    """
    whole_s = float(ledger.total)
    table = plain_table(f"  {title}", "", "time", "%", words=2)
    causes: list[tuple[str, Any]] = sorted(ledger.items(), key=lambda pair: -float(pair[1]))
    for cause, seconds in causes:
        share = float(seconds) / whole_s
        if float(seconds) >= least_s:
            bar = "█" * round(width * share) or "▏"
            table.add_row(f"    {cause}", Text(bar, "cyan"), text(float(seconds)), f"{share:.1%}")
    table.add_row(f"    {total}", "", text(whole_s), "100%")
    return table
