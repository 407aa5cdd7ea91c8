"""Numbers as people say them: three figures, one minus sign, "13%", "µs", "1 step" and "2 steps".

Holds `duration`, `rate`, `byte_size` and `gigabytes`; `percent`, `signed`, `signed_percent` and
`minus`; for what is long or large `span` (a time), `many`, `money`, `energy` and
`mass`; and `plural`.
"""

from math import copysign, isfinite

from syncwall import units
from syncwall.units import Dimension

plural = units.plural
_JOULES_PER_KWH = 3.6e6
_LONG_S = 1000.0
_SPANS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "h"), (120.0, 60.0, "min"))


def rate(bytes_per_s: float) -> str:
    """A data rate to three figures."""
    return units.format(bytes_per_s, Dimension.BYTES_PER_S, digits=3)


def duration(seconds: float) -> str:
    """A time to three figures: in seconds or less, from `_LONG_S` on as a `span`."""
    if _LONG_S <= seconds < float("inf"):
        return span(seconds)
    return units.format(seconds, Dimension.SECONDS, digits=3)


def byte_size(count: float) -> str:
    """Bytes: whole binary units as such, others to three figures."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if 1 <= count / 1024**power < 10_000 and count % 1024**power == 0:
            return f"{count / 1024**power:.0f} {unit}"
    return units.format(float(count), Dimension.BYTES, digits=3)


def gigabytes(count: float) -> str:
    """Memory in GB of 1e9 bytes, to a tenth."""
    return f"{count / 1e9:,.1f} GB"


def percent(share: float, digits: int = 0) -> str:
    """A share: "13%", "12.5%" with one of `digits`."""
    return minus(f"{share:.{digits}%}")


def likelihood(probability: float) -> str:
    """A probability that is never quite none or certain: "1%" to "99%"."""
    return percent(min(max(probability, 0.01), 0.99))


def signed_percent(share: float, digits: int = 1) -> str:
    """A difference as a share: "+1.2%", "−3.0%"."""
    return minus(f"{share:+.{digits}%}")


def signed(seconds: float) -> str:
    """A difference of times: "+1.2 s", "−300 ms"."""
    return f"{'−' if copysign(1.0, seconds) < 0 else '+'}{duration(abs(seconds))}"


def minus(text: str) -> str:
    """`text` with a minus sign in the place of a hyphen before a number."""
    return f"−{text[1:]}" if text.startswith("-") else text


def span(seconds: float) -> str:
    """`seconds` in the unit that fits: "54.2 days", "3.1 h", "12 min", "40 s"."""
    if not isfinite(seconds):
        return "never"
    for least, unit_s, name in _SPANS:
        if seconds >= least:
            return f"{_short(seconds / unit_s)} {name}"
    return f"{_short(seconds)} s"


def money(usd: float) -> str:
    """`usd` with three figures: "$1.25M"."""
    if not isfinite(usd):
        return "–"
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(usd) >= size:
            return f"${_short(usd / size)}{letter}"
    return f"${usd:.2f}"


def many(count: float) -> str:
    """A large number to three figures: "319,000", "1.98M"."""
    for size, letter in ((1e9, "B"), (1e6, "M")):
        if abs(count) >= size:
            return f"{count / size:.3g}{letter}"
    return f"{float(f'{count:.3g}'):,.10g}"


def energy(joules: float) -> str:
    """`joules` in kWh, MWh or GWh."""
    if not isfinite(joules):
        return "–"
    kwh = joules / _JOULES_PER_KWH
    for size, unit in ((1e6, "GWh"), (1e3, "MWh")):
        if kwh >= size:
            return f"{_short(kwh / size)} {unit}"
    return f"{_short(kwh)} kWh"


def mass(kilograms: float) -> str:
    """`kilograms` as such, or in tonnes."""
    if not isfinite(kilograms):
        return "–"
    return f"{_short(kilograms / 1e3)} t" if kilograms >= 1e3 else f"{_short(kilograms)} kg"


def _short(number: float) -> str:
    """Three figures, or all of them before the point."""
    if abs(number) >= 99.95:
        return f"{number:,.0f}"
    return f"{number:.3g}"
