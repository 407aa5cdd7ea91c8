"""A search for parameters that gives the same digits on every machine.

Parameters move on a grid of three significant digits, one or two at a time, as long as the loss
falls; no library's floating-point details can move the result by less than a grid step.
"""

from collections.abc import Callable, Mapping
from itertools import combinations, product

Values = dict[str, float]
_STRIDES = (1.4, 1.1, 1.03, 1.01, 1.003)
_BETTER = 1 - 1e-7


def search(
    loss: Callable[[Values], float],
    start: Mapping[str, float],
    limits: Mapping[str, tuple[float, float]],
    *,
    pairs: bool = True,
) -> Values:
    """The best values found from `start`; `limits` are the least and the largest allowed.

    `pairs` moves two parameters at a time too, for those that make up for each other.
    """
    best = {name: rounded(value) for name, value in start.items()}
    least = loss(best)
    moves = [[(name, sign)] for name in start for sign in (1, -1)]
    if pairs:
        signs = list(product((1, -1), repeat=2))
        moves += [[(a, i), (b, j)] for a, b in combinations(start, 2) for i, j in signs]
    for stride in _STRIDES:
        moved = True
        while moved:
            moved = False
            for move in moves:
                trial = dict(best)
                for name, sign in move:
                    smallest, largest = limits[name]
                    trial[name] = min(max(rounded(best[name] * stride**sign), smallest), largest)
                found = loss(trial)
                if found < least * _BETTER:
                    best, least, moved = trial, found, True
    return best


def rounded(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")
