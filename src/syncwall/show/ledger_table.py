"""Seconds by cause as a table with bars.

Holds `ledger_table`.
"""

from collections.abc import Callable
from typing import Any

from rich.table import Table
from rich.text import Text

from syncwall.show.measurement import duration
from syncwall.timeline.ledger import Ledger


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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(f"  {title}")
    table.add_column("")
    table.add_column("time", justify="right")
    table.add_column("%", justify="right")
    causes: list[tuple[str, Any]] = sorted(ledger.items(), key=lambda pair: -float(pair[1]))
    for cause, seconds in causes:
        share = float(seconds) / whole_s
        if float(seconds) >= least_s:
            bar = "█" * round(width * share) or "▏"
            table.add_row(f"    {cause}", Text(bar, "cyan"), text(float(seconds)), f"{share:.1%}")
    table.add_row(f"    {total}", "", text(whole_s), "100%")
    return table
