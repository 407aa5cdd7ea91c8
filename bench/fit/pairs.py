"""How much of their error two predictions share, from catalogue/validation/residuals.csv.

Two runs of one organisation are a pair; its error is the difference of both ln(predicted /
measured), and its doubt, if nothing were shared, the root of both squared half-widths, each learned
without that organisation.
"""

import csv
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.fit.widths import COVERED, traits_of
from syncwall.answer.difference import ALIKE
from syncwall.answer.interval import TABLE, Z80, interval

FEWEST = 20
"""Pairs from which on an organisation counts."""
SETUP = ("architecture", "precision", "framework", "experts", "frozen_weights", "parameters", "seq")
KINDS = ("one setup", "another model or software", "another kind of device")


@dataclass(frozen=True)
class Pairs:
    """Errors of pairs over their doubt, by organisation."""

    by_organisation: dict[str, NDArray[np.float64]]

    def covered(self, factor: float = 1.0) -> float:
        """Share of pairs within `factor` times the doubt, a mean over organisations."""
        inside = [np.mean(one <= factor) for one in self.by_organisation.values()]
        return float(np.mean(inside))

    def factor(self) -> float:
        """The smallest factor, in hundredths, that covers four of five."""
        return next(n / 100 for n in range(1, 500) if self.covered(n / 100) >= COVERED)

    def factors_without_one(self) -> list[float]:
        """The same without each organisation."""
        every = self.by_organisation
        return [Pairs({n: one for n, one in every.items() if n != name}).factor() for name in every]


def pairs() -> dict[str, Pairs]:
    """Pairs of published runs, by what both have in common."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["part"] != "composed"]
    found: dict[str, dict[str, NDArray[np.float64]]] = {kind: {} for kind in KINDS}
    for name in dict.fromkeys(row["organisation"] for row in rows):
        for kind, far in _of([row for row in rows if row["organisation"] == name]).items():
            if len(far) >= FEWEST:
                found[kind][name] = far
    return {kind: Pairs(one) for kind, one in found.items()}


def _of(rows: list[dict[str, str]]) -> dict[str, NDArray[np.float64]]:
    """Errors over doubts of all pairs of one organisation, by kind."""
    errors = np.log([float(row["ratio"]) for row in rows])
    widths = np.array([_half_width(row) for row in rows])
    first, second = np.triu_indices(len(rows), 1)
    far = np.abs(errors[first] - errors[second]) / np.hypot(widths[first], widths[second])
    setups = np.unique([[row[key] for key in SETUP] for row in rows], axis=0, return_inverse=True)
    devices = np.array([row["architecture"] for row in rows])
    same = setups[1].ravel()[first] == setups[1].ravel()[second]
    near = devices[first] == devices[second]
    return dict(zip(KINDS, (far[same], far[near & ~same], far[~near]), strict=True))


def _half_width(row: dict[str, str]) -> float:
    known = {"waiting": float(row["waiting"]), "unsaid": int(row["unsaid"])}
    return Z80 * interval(traits_of(row), without=row["organisation"], **known).deviation


def fit(check: bool = False) -> int:
    """Print how much of their error two predictions share; `answer.difference.ALIKE` is from it.

    For pairs of one setup (same model, sequence, kind of device, precision, framework) and for
    others: the share of pairs that the doubt covers and the factor on it that covers 80%, means
    over organisations, and that factor without any one of them. ALIKE is the largest of these of
    one setup: with --check 1 if it is not.
    """
    found = pairs()
    for kind, one in found.items():
        count = sum(map(len, one.by_organisation.values()))
        without = one.factors_without_one()
        print(
            f"{kind}: {count:,} pairs of {len(one.by_organisation)} organisations, covered "
            f"{one.covered():.1%}; 80% by {one.factor():.2f} ({min(without):.2f} to "
            f"{max(without):.2f} without one)"
        )
    return int(check and max(found["one setup"].factors_without_one()) != ALIKE)
