"""Experiments of the lab, for the terminal.

Holds `comparison_page`.
"""

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncwall.lab.comparison import RUN_TO_RUN
from syncwall.show.headed import table
from syncwall.show.numbers import duration

if TYPE_CHECKING:
    from syncwall.lab.comparison import Compared, Comparison, Order

_COLUMNS = ("place", "link", "step", "measured", "spread", "predicted", "error",
            "compute", "exposed", "optimizer")  # fmt: skip


def comparison_page(found: "Comparison") -> RenderableType:
    """Measured beside predicted steps, line by line of the ledger."""
    if not found.rows:
        return Text("no step was measured and predicted")
    worst = found.worst
    summary = (
        f"{len(found.rows)} steps: mean error {found.mean_error:.1%}, worst {worst.error:+.1%} "
        f"({worst.place} {worst.link} {worst.what})"
    )
    parts: list[RenderableType] = [table(_COLUMNS, map(_cells, found.rows), words=3), Text()]
    parts.append(Text("ledger columns: measured / predicted", "dim"))
    parts.append(Text.assemble(("Verdict   ", "bold"), summary))
    orders = found.orders()
    if orders:
        right = sum(order.is_right for order in orders)
        said = f"order of places right in {right} of {len(orders)} groups"
        said += f" (less than {RUN_TO_RUN:.0%} apart is a tie)"
        parts.append(Text(f"          {said}"))
        parts += [Text(f"          {_wrong(order)}") for order in orders if not order.is_right]
    return Group(*parts)


def _cells(row: "Compared") -> list[str]:
    times = row.measured.times
    ledgers = (f"{duration(a)} / {duration(b)}" for a, b in row.ledgers().values())
    return [
        row.place, row.link, row.what, duration(times.median_s), f"± {times.spread:.0%}",
        duration(row.predicted.step_s), f"{row.error:+.1%}", *ledgers,
    ]  # fmt: skip


def _wrong(order: "Order") -> str:
    measured, predicted = " < ".join(order.measured), " < ".join(order.predicted)
    return f"{order.what} {order.link}: measured {measured}, predicted {predicted}"
