"""Arithmetic for one layout or for many.

Holds `Number` and `Truth`, and `least`, `most`, `rounded_up`, `where`, `anywhere`, `negated` and
`is_one`: what NumPy does, but for plain numbers in plain Python. There a call of NumPy takes ten
times as long, and its result slows down all that follows.
"""

from math import ceil
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Number: TypeAlias = float | NDArray[Any]
"""One number, or an array with one for each layout; arrays broadcast together."""
Truth: TypeAlias = bool | NDArray[Any]
"""The same for booleans."""


def least(first: Number, second: Number) -> Number:
    """The smaller of two numbers, layout by layout."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        smaller: Number = np.minimum(first, second)
        return smaller
    return min(first, second)


def most(first: Number, second: Number) -> Number:
    """The larger of two numbers, layout by layout."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        larger: Number = np.maximum(first, second)
        return larger
    return max(first, second)


def rounded_up(value: Number) -> Number:
    """The next whole number."""
    return np.ceil(value) if isinstance(value, np.ndarray) else ceil(value)


def where(condition: Truth, yes: Number, no: Number) -> Number:
    """`yes` where the condition holds, else `no`."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def anywhere(condition: Truth | Number) -> bool:
    """True if it holds (or is not zero) in any layout."""
    return bool(condition.any() if isinstance(condition, np.ndarray) else condition)


def negated(truth: Truth) -> Truth:
    """True where it does not hold."""
    return ~truth if isinstance(truth, np.ndarray) else not truth


def is_one(factor: Number) -> bool:
    """True for the plain number 1, with which arrays need not be multiplied."""
    return not isinstance(factor, np.ndarray) and factor == 1
