"""Quantities as people write them, and as SI floats inside.

Holds `Dimension` (what kind of quantity is meant), `parse` (text to float), `format` (float to
text) and `plural` (a count of things). Bits and bytes, GB and GiB, one way and duplex are different
things here; text that could be read two ways is refused with what to write instead.

    >>> parse("400Gb/s", Dimension.BYTES_PER_S)
    50000000000.0
    >>> parse("900 GB/s duplex", Dimension.BYTES_PER_S)     # both ways together: halved
    450000000000.0
    >>> format(3.35e12, Dimension.BYTES_PER_S)
    '3.35 TB/s'
"""

import difflib
import re
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isfinite
from typing import Final


class Dimension(Enum):
    """What a quantity measures; the value is an example of how to write it."""

    BYTES = "80 GB"
    BYTES_PER_S = "50 GB/s"
    FLOP = "1.8e25 FLOP"
    FLOP_PER_S = "989 TFLOP/s"
    SECONDS = "2.5 µs"
    HERTZ = "1.83 GHz"
    WATTS = "700 W"
    TOKENS = "15T tokens"
    USD = "$1.5M"
    USD_PER_GPU_HOUR = "$2.99/GPU-hour"

    @property
    def words(self) -> str:
        """The dimension in words, for messages."""
        return _WORDS[self]


_WORDS: Final = {
    Dimension.BYTES: "an amount of data",
    Dimension.BYTES_PER_S: "a data rate",
    Dimension.FLOP: "an amount of arithmetic",
    Dimension.FLOP_PER_S: "an arithmetic rate",
    Dimension.SECONDS: "a time",
    Dimension.HERTZ: "a frequency",
    Dimension.WATTS: "a power",
    Dimension.TOKENS: "a number of tokens",
    Dimension.USD: "an amount of money",
    Dimension.USD_PER_GPU_HOUR: "a price",
}

_SI: Final = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "Z": 21, "Y": 24}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_COUNT: Final = {"": 0, "k": 3, "M": 6, "B": 9, "T": 12}


def _si(unit: str) -> dict[str, Fraction]:
    return {prefix + unit: Fraction(10) ** power for prefix, power in _SI.items()}


def _data() -> dict[str, Fraction]:
    binary = {prefix + "B": Fraction(1024) ** power for prefix, power in _BINARY.items()}
    bits = {name: scale / 8 for unit in ("b", "bit") for name, scale in _si(unit).items()}
    return _si("B") | binary | bits


def _counted(suffix: str) -> dict[str, Fraction]:
    return {prefix + suffix: Fraction(10) ** power for prefix, power in _COUNT.items()}


# Every accepted unit of a dimension with its size in the SI unit that the code computes in.
_UNITS: Final[dict[Dimension, dict[str, Fraction]]] = {
    Dimension.BYTES: _data(),
    Dimension.BYTES_PER_S: {name + "/s": scale for name, scale in _data().items()},
    Dimension.FLOP: _si("FLOP"),
    Dimension.FLOP_PER_S: {name + "/s": scale for name, scale in _si("FLOP").items()},
    Dimension.SECONDS: {
        "ns": Fraction(1, 10**9),
        "µs": Fraction(1, 10**6),
        "us": Fraction(1, 10**6),
        "ms": Fraction(1, 10**3),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
        "days": Fraction(86400),
    },
    Dimension.HERTZ: _si("Hz"),
    Dimension.WATTS: _si("W"),
    Dimension.TOKENS: _counted(" tokens") | _counted(""),
    Dimension.USD: _counted(""),
    Dimension.USD_PER_GPU_HOUR: {"/GPU-hour": Fraction(1)},
}

# The units that `format` chooses from: powers of ten, so that the text is exact and short.
_WRITTEN: Final[dict[Dimension, tuple[str, ...]]] = {
    Dimension.BYTES: ("B", "kB", "MB", "GB", "TB", "PB", "EB"),
    Dimension.BYTES_PER_S: ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"),
    Dimension.FLOP: tuple(_si("FLOP")),
    Dimension.FLOP_PER_S: tuple(unit + "/s" for unit in _si("FLOP")),
    Dimension.SECONDS: ("ns", "µs", "ms", "s"),
    Dimension.HERTZ: tuple(_si("Hz")),
    Dimension.WATTS: tuple(_si("W")),
    Dimension.TOKENS: tuple(_counted(" tokens")),
    Dimension.USD: tuple(_counted("")),
    Dimension.USD_PER_GPU_HOUR: ("/GPU-hour",),
}

_MONEY: Final = (Dimension.USD, Dimension.USD_PER_GPU_HOUR)
_COUNTED: Final = (Dimension.TOKENS, Dimension.USD)
_TEXT: Final = re.compile(r"(\$?)\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)\s*(.*)", re.DOTALL)
_GROUPED: Final = re.compile(r"\$?\s*\d{1,3}(,\d{3})+(?![\d,])")
"""2,000,000: a count or a sum as people write it; of a rate, 1,500 could be one and a half."""
_MAX_NUMBER_CHARS: Final = 400


def parse(text: str, dimension: Dimension) -> float:
    """The SI value of `text`, one way if it is a rate; ValueError says what to write instead.

    A rate marked `duplex` counts both directions together and is halved.
    """
    stated = text.strip()
    plain = stated.replace(",", "") if _GROUPED.match(stated) and dimension in _COUNTED else stated
    match = _TEXT.fullmatch(plain)
    if match is None or len(match[2]) > _MAX_NUMBER_CHARS:
        raise ValueError(f'"{_short(stated)}" is not {dimension.words}: {_write(dimension)}')
    dollar, number, unit = match[1], match[2], " ".join(match[3].split())
    duplex = unit.endswith(" duplex") and dimension is Dimension.BYTES_PER_S
    scale = _scale(dollar, number, unit.removesuffix(" duplex") if duplex else unit, dimension)
    try:
        value = float(Fraction(number) * scale / (2 if duplex else 1))
    except OverflowError:
        value = float("inf")
    if not isfinite(value):
        raise ValueError(f'"{_short(stated)}" is too large to be {dimension.words}')
    return value


def format(  # noqa: A001 - `units.format` mirrors `units.parse`; the builtin is not used here
    value: float, dimension: Dimension, *, digits: int | None = None, unit: str | None = None
) -> str:
    """Text for `value` (SI, one way): exact and readable back, or rounded to `digits` figures.

    `unit` forces one of the units that `parse` takes, for example "Gb/s" or "GiB".
    """
    if not isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is not {dimension.words}")
    exact = Fraction(Decimal(repr(float(value))))
    chosen = unit if unit is not None else _fitting_unit(exact, dimension)
    number = _decimal_text(exact / _UNITS[dimension][chosen], digits)
    if dimension in _MONEY:
        return f"${number}{chosen}"
    return f"{number}{chosen}" if dimension in _COUNTED else f"{number} {chosen}"


def si_unit(dimension: Dimension) -> str:
    """The unit of the floats inside, as `parse` takes it."""
    return next(unit for unit in _WRITTEN[dimension] if _UNITS[dimension][unit] == 1)


def _scale(dollar: str, number: str, unit: str, dimension: Dimension) -> Fraction:
    """Size of `unit` in SI, or the refusal that explains what is ambiguous or missing."""
    known = _UNITS[dimension]
    if bool(dollar) != (dimension in _MONEY):
        raise ValueError(f'"{dollar}{number}{unit}" is not {dimension.words}: {_write(dimension)}')
    if dimension is Dimension.TOKENS and unit in known | {"tokens": None}:
        return known[unit] if unit in known else Fraction(1)
    if unit in known:
        return known[unit]
    raise ValueError(_refusal(dollar + number, unit, dimension))


# Spellings that people use and that can be read in two ways: pattern, where, what to say.
_ADVICE: Final[tuple[tuple[str, tuple[Dimension, ...], str], ...]] = (
    (
        r"([kMGTPE]?i?)[bB]ps",
        (Dimension.BYTES_PER_S,),
        '"{stated}" can mean bits or bytes: write "{number}{prefix}b/s" or "{number}{prefix}B/s"',
    ),
    (
        r"([kMGTPEZ]?)(?:FLOPS|FLOPs|flops|Flops)(?:/s)?",
        (Dimension.FLOP, Dimension.FLOP_PER_S),
        '"{stated}" can mean an amount or a rate: write "{number} {prefix}FLOP" or "{number} {prefix}FLOP/s"',
    ),
    (
        r"()K[bB](?:/s|ps)?",
        (Dimension.BYTES, Dimension.BYTES_PER_S),
        '"{stated}" can mean 1000 or 1024: write "{number} kB" or "{number} KiB"',
    ),
    (
        r"()m",
        (Dimension.SECONDS,),
        '"{stated}" can mean minutes or milliseconds: write "{number} min" or "{number} ms"',
    ),
    (
        r"(.*?/s).*(?:bi-?dir|two-?way|both).*",
        (Dimension.BYTES_PER_S,),
        'for both directions together write "{number} {prefix} duplex"',
    ),
)


def _refusal(number: str, unit: str, dimension: Dimension) -> str:
    """Why `unit` is not taken, and what to write instead."""
    stated = f"{number}{_short(unit)}"
    if not unit:
        return f'"{stated}" has no unit: {_with_unit(number, dimension)}'
    for pattern, dimensions, advice in _ADVICE:
        match = re.fullmatch(pattern, unit) if dimension in dimensions else None
        if match:
            return advice.format(stated=stated, number=number, prefix=match[1])
    for other, known in _UNITS.items():
        if unit in known and other not in _COUNTED:
            return f'"{stated}" is {other.words}, not {dimension.words}: {_write(dimension)}'
    near = [known for known in _UNITS[dimension] if known.lower() == unit.lower()]
    near = near or difflib.get_close_matches(unit, _UNITS[dimension], n=2)
    meant = " or ".join(f'"{number} {known.strip()}"' for known in near)
    instead = f"did you mean {meant}?" if meant and "$" not in number else _write(dimension)
    return f'unknown unit "{_short(unit)}": {instead}'


def _with_unit(number: str, dimension: Dimension) -> str:
    """Advice for a bare number: the same value with the unit that the code computes in."""
    if dimension in _MONEY:
        return _write(dimension)
    meant = parse(f"{number} {si_unit(dimension)}", dimension)
    return f'write "{format(meant, dimension)}" if that is meant'


def _write(dimension: Dimension) -> str:
    return f'write for example "{dimension.value}"'


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _fitting_unit(exact: Fraction, dimension: Dimension) -> str:
    """The largest written unit that leaves a number of at least one; the base unit for zero.

    Memory that comes in whole MiB but not in whole MB is written in binary units.
    """
    if exact == 0:
        return si_unit(dimension)
    written = _WRITTEN[dimension]
    if dimension is Dimension.BYTES and exact % 2**20 == 0 and exact % 10**6:
        written = ("MiB", "GiB", "TiB", "PiB")
    fitting = [unit for unit in written if _UNITS[dimension][unit] <= exact]
    return fitting[-1] if fitting else written[0]


def _decimal_text(number: Fraction, digits: int | None) -> str:
    """`number` as a decimal: exact if it has an end, else 17 figures (enough for a float)."""
    if digits is not None:
        number = Fraction(Decimal(f"{number.numerator / number.denominator:.{digits - 1}e}"))
    twos = (number.denominator & -number.denominator).bit_length() - 1
    rest = number.denominator >> twos
    fives = 0
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    if rest != 1:
        return f"{number.numerator / number.denominator:.17g}"
    places = max(twos, fives)
    unscaled = str(number.numerator * 2 ** (places - twos) * 5 ** (places - fives))
    return _with_point(unscaled, places)


def _with_point(unscaled: str, places: int) -> str:
    """Decimal text of `unscaled` / 10 ** `places`, in powers of ten where zeros would pile up."""
    figures = unscaled.rstrip("0") or "0"
    exponent = len(unscaled) - 1 - places
    if -4 <= exponent < 21:
        whole, part = unscaled[: exponent + 1] if exponent >= 0 else "", unscaled[exponent + 1 :]
        if exponent < 0:
            whole, part = "0", "0" * (-exponent - 1) + unscaled
        return f"{whole}.{part}".rstrip("0").rstrip(".") if part else whole
    mantissa = f"{figures[0]}.{figures[1:]}".rstrip(".")
    return f"{mantissa}e{exponent}"


def plural(count: float, one: str, many: str = "") -> str:
    """A count of things: "1 node", "2,048 nodes"; `many` where an "s" is not enough."""
    return f"{count:,.0f} {one if round(count) == 1 else many or f'{one}s'}"
