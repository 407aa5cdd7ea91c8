"""A ledger as bars: what works in one colour, what waits or is lost in another.

Holds `ledger_drawing`.
"""

from syncwall.show.blocks import Ledger
from syncwall.show.draw.bars import Bar, Names, bar_chart
from syncwall.show.draw.curves import span_unit
from syncwall.show.draw.frame import Entry
from syncwall.show.draw.svg import Drawing
from syncwall.show.words.terms import meaning
from syncwall.units import Dimension

_LONG_S = 120.0
"""Times from which on axes are in minutes, hours or days."""


def ledger_drawing(ledger: Ledger) -> Drawing:
    """A bar for each part, with its value and its share."""
    bars = [
        Bar(one.name, one.value, note=f"{one.name}: {ledger.text(one.value)}. {meaning(one.name)}",
            kind="f1" if one.is_wait else "f0")
        for one in ledger.parts
    ]  # fmt: skip
    works, waits = ledger.kinds
    most = max((bar.value for bar in bars), default=0.0)
    names = Names(
        f"time of the {ledger.total}", kinds=(Entry(works, "f0"), Entry(waits, "f1")),
        unit=span_unit(most) if most >= _LONG_S else None,
    )  # fmt: skip
    whole = ledger.whole or 1.0
    return bar_chart(bars, Dimension.SECONDS, names, lambda s: f"{ledger.text(s)}, {s / whole:.1%}")
