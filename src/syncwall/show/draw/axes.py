"""Axes: where a value stands, which values are written beside it, and in which unit.

Holds `Axis`, `Unit`, `unit_for` and `binary_ticks`.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from syncwall import units
from syncwall.units import Dimension

_TICKS = 5


@dataclass(frozen=True)
class Unit:
    """What one is called on an axis, and how much it is in SI."""

    name: str
    size: float = 1.0

    def text(self, value: float) -> str:
        """`value` in this unit, as a number only."""
        return f"{value / self.size:.6g}"


def unit_for(dimension: Dimension, most: float) -> Unit:
    """The unit in which `most` is written."""
    if most <= 0:
        return Unit(units.si_unit(dimension))
    name = units.format(most, dimension, digits=3).split(" ")[-1]
    return Unit(name, units.parse(f"1 {name}", dimension))


@dataclass(frozen=True)
class Axis:
    """Values from `least` to `most`, drawn from `start` to `end`."""

    least: float
    most: float
    start: float
    end: float
    is_log: bool = False

    @classmethod
    def from_zero(cls, values: Iterable[float], start: float, end: float) -> "Axis":
        """A linear axis from zero that has room for `values`."""
        return cls(0.0, max([*values, 0.0]) * 1.03 or 1.0, start, end)

    @classmethod
    def log(cls, values: Iterable[float], start: float, end: float, room: float = 1.15) -> "Axis":
        """A logarithmic axis that has room for those of `values` above zero."""
        above = [value for value in values if value > 0] or [1.0]
        return cls(min(above) / room, max(above) * room, start, end, is_log=True)

    def at(self, value: float) -> float:
        """Where `value` is drawn; what lies outside is drawn at the nearer end."""
        value = min(max(value, self.least), self.most)
        if self.is_log:
            share = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            share = (value - self.least) / (self.most - self.least)
        return self.start + share * (self.end - self.start)

    def ticks(self, unit: Unit) -> list[float]:
        """Round values on the axis, counted in `unit`."""
        if self.is_log:
            return self._log_ticks(unit)
        step = _round_step((self.most - self.least) / unit.size / _TICKS) * unit.size
        first, last = math.ceil(self.least / step), math.floor(self.most / step + 1e-9)
        return [number * step for number in range(first, min(last, first + 20) + 1)]

    def _log_ticks(self, unit: Unit) -> list[float]:
        low, high = (math.log10(value / unit.size) for value in (self.least, self.most))
        decades = range(math.floor(low), math.ceil(high) + 1)
        choices: list[Callable[[int], tuple[int, ...]]] = [
            lambda _: (1, 2, 3, 5, 7), lambda _: (1, 2, 5), lambda _: (1, 3), lambda _: (1,),
            lambda decade: () if decade % 2 else (1,), lambda decade: () if decade % 4 else (1,),
        ]  # fmt: skip
        for chosen in choices:
            found = [m * 10.0**decade * unit.size for decade in decades for m in chosen(decade)]
            found = [value for value in found if self.least <= value <= self.most]
            if len(found) <= 7:
                return found
        return found[:: len(found) // 6]


def binary_ticks(axis: Axis) -> list[float]:
    """Powers of two on a logarithmic axis of bytes, a constant factor apart, 7 at most."""
    low, high = math.ceil(math.log2(axis.least)), math.floor(math.log2(axis.most))
    step = next(step for step in (1, 2, 5, 10, 20, 40, 100, 1000) if (high - low) / step <= 6)
    return [2.0**power for power in range(low, high + 1) if power % step == 0]


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5, 10, ... that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
