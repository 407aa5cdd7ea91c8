"""Rates between ranks as a matrix of shaded cells.

Holds `rate_matrix` and `WIDEST`.
"""

from collections.abc import Mapping, Sequence

from syncwall.show.measurement import rate
from syncwall.show.report.axes import unit_for
from syncwall.show.report.svg import WIDTH, Drawing, shortened
from syncwall.units import Dimension

WIDEST = 32
"""Ranks of which the whole matrix is drawn."""
_WITH_TEXT = 9
_LEFT, _TOP = 78.0, 44.0


def rate_matrix(names: Sequence[str], rates: Mapping[tuple[int, int], float]) -> Drawing:
    """From the rank of a row to that of a column; the stronger the colour, the faster."""
    count = max(len(names), 1)
    side = min(46.0, (WIDTH - _LEFT - 6) / count)
    most = max(rates.values(), default=0.0)
    unit = unit_for(Dimension.BYTES_PER_S, most)
    drawing = Drawing(f"rates between {count} ranks in {unit.name}", _TOP + side * count + 8)
    drawing.text(_LEFT, 12, f"{unit.name}, from the rank on the left to the one above")
    for number, name in enumerate(names):
        middle = side * (number + 0.5)
        drawing.text(_LEFT - 6, _TOP + middle + 4, shortened(name, _LEFT - 10), "small", "end")
        drawing.text(_LEFT + middle, _TOP - 6, str(number), "small", "middle")
    for (source, target), value in rates.items():
        x, y = _LEFT + side * target, _TOP + side * source
        share = value / most if most else 0.0
        note = f"{names[source]} to {names[target]}: {rate(value)}"
        drawing.rect(x + 1, y + 1, side - 2, side - 2, "panel")
        drawing.rect(x + 1, y + 1, side - 2, side - 2, f"f0 shade{_shade(share)}", note)
        if count <= _WITH_TEXT:
            kind = "small inside" if _shade(share) > 6 else "small strong"
            drawing.text(x + side / 2, y + side / 2 + 4, f"{value / unit.size:.3g}", kind, "middle")
    return drawing


def _shade(share: float) -> int:
    """From 0 to 10."""
    return round(10 * min(max(share, 0.0), 1.0))
