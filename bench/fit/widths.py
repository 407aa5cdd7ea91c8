"""How wide intervals are: weights of the doubts of `answer.interval`.

Not negative, so that 80% of the errors of residuals.csv are smaller than the weighted sum (quantile
regression, in which the spread between sources counts), and then all larger by the factor with
which 80% of the errors of an organisation are covered, as a mean over held-out sources, by what the
others say (conformal). Written once for all, and once without each organisation, with which its own
runs are tested; the figures printed are of those.
"""

import csv
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog  # type: ignore[import-untyped]
from scipy.sparse import hstack, identity  # type: ignore[import-untyped]

from bench.fit.files import comments, update
from syncwall.answer import interval as module
from syncwall.answer.interval import TABLE, WIDTHS, doubts
from syncwall.answer.traits import USED, Traits, scale_of

COVERED = 0.8
READ_BY_FITS = 0.5
"""What a source that fits have read counts beside one that they have not."""
FEWEST = 3
"""Rows from which on a source counts in full."""
LEAST = {"always": 0.12, "waiting": 0.1, "experts": 0.08, "unmeasured": 0.12} | {
    "unfitted": 0.03,
    "unsaid": 0.015,
    "distance": 0.01,
}
"""Smallest weight of a doubt, where few runs that have it could say: assumed."""


@dataclass(frozen=True)
class Errors:
    """What the model gets wrong, with the doubts of every run."""

    names: list[str]
    doubts: NDArray[np.float64]
    errors: NDArray[np.float64]
    sources: NDArray[np.str_]
    organisations: NDArray[np.str_]
    parts: NDArray[np.str_]

    def of(self, chosen: NDArray[np.bool_]) -> "Errors":
        columns = (self.doubts, self.errors, self.sources, self.organisations, self.parts)
        return Errors(self.names, *(column[chosen] for column in columns))

    @property
    def weights(self) -> NDArray[np.float64]:
        """Sources weigh the same, many of one organisation together as much as the root of them."""
        rows = Counter(self.sources)
        sources = Counter(dict(zip(self.sources, self.organisations, strict=True)).values())
        each = [
            1.0 / max(rows[source], FEWEST) / sources[owner] ** 0.5
            for source, owner in zip(self.sources, self.organisations, strict=True)
        ]
        return np.array(each) * np.where(self.parts == "calibration", READ_BY_FITS, 1.0)


def errors() -> Errors:
    """The measured runs of residuals.csv, each as far from those of others as it is."""
    table = module._table()
    assert table is not None
    found, parts = [], []
    with TABLE.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            traits, others = traits_of(row), table.organisations != row["organisation"]
            known = {"waiting": float(row["waiting"]), "unsaid": int(row["unsaid"])}
            far = float(table.distances(traits)[others].min())
            found.append(doubts(traits, distance=far, **known))
            parts.append(row["part"])
    names = list(found[0])
    values = np.array([[one[name] for name in names] for one in found])
    about = (table.sources, table.organisations, np.array(parts))
    every = Errors(names, values, np.abs(table.errors), *about)
    return every.of(every.parts != "composed")


def traits_of(row: dict[str, str]) -> Traits:
    """What a line of residuals.csv says of its run."""
    words = (row[name] for name in ("architecture", "precision", "framework"))
    experts, frozen, calibrated = (
        row[name] == "True" for name in ("experts", "frozen_weights", "calibrated")
    )
    used = tuple(row[name] == "True" for name in USED)
    scale = scale_of(*(float(row[name]) for name in ("gpus", "parameters", "seq")))
    return Traits(*words, experts, frozen, calibrated, used, scale)


def fitted(found: Errors) -> dict[str, float]:
    """Weight of every doubt: the quantile regression is a linear program."""
    rows, width = found.doubts.shape
    above, below = COVERED * found.weights, (1 - COVERED) * found.weights
    equal = hstack([found.doubts, identity(rows), -identity(rows)])
    least = [(LEAST.get(name, 0.0), None) for name in found.names]
    costs, bounds = np.concatenate([np.zeros(width), above, below]), [(0, None)] * (2 * rows)
    answer = linprog(costs, A_eq=equal, b_eq=found.errors, bounds=least + bounds, method="highs")
    return dict(zip(found.names, map(float, answer.x), strict=False))


def held_out(found: Errors) -> list[Errors]:
    """Every source that no fit has read and that has enough runs."""
    some = found.of(found.parts != "calibration")
    sources = [some.of(some.sources == name) for name in dict.fromkeys(some.sources)]
    return [one for one in sources if len(one.errors) >= FEWEST]


def widths(found: Errors, weights: dict[str, float]) -> NDArray[np.float64]:
    return np.asarray(found.doubts @ np.array([weights[name] for name in found.names]))


def factor(found: Errors, without: dict[str, dict[str, float]]) -> float:
    """By how much everything must be wider to cover what the others say it covers."""
    sources = [(one, widths(one, without[str(one.organisations[0])])) for one in held_out(found)]
    for percent in range(100, 200):
        wider = percent / 100
        if np.mean([np.mean(one.errors <= wider * width) for one, width in sources]) >= COVERED:
            return wider
    raise ValueError("no factor covers enough")


def report(found: Errors, without: dict[str, dict[str, float]]) -> list[str]:
    """Coverage and Winkler score of every source with three runs, and their means."""
    lines, covered, winkler = [], [], []
    for source in dict.fromkeys(found.sources):
        mine = found.of(found.sources == source)
        width = widths(mine, without[str(mine.organisations[0])])
        late = np.maximum(mine.errors - width, 0.0)
        score = float(np.mean(2 * width + 2 / (1 - COVERED) * late))
        share = float(np.mean(mine.errors <= width))
        lines.append(
            f"{source:32} {len(width):4} runs  covered {share:4.0%}  width {width.mean():.3f}"
            f"  Winkler {score:.3f}"
        )
        if len(width) >= FEWEST and mine.parts[0] != "calibration":
            covered.append(share)
            winkler.append(score)
    means = f"covered {np.mean(covered):.1%} (sd {np.std(covered):.1%})"
    return [*lines, f"mean over sources: {means}, Winkler {np.mean(winkler):.3f}"]


def fit(check: bool = False) -> int:
    """Fit catalogue/validation/widths.yaml to catalogue/validation/residuals.csv.

    With --check nothing is written: 1 if the file would change.
    """
    found = errors()
    owners = dict.fromkeys(found.organisations)
    without = {str(one): fitted(found.of(found.organisations != one)) for one in owners}
    larger = factor(found, without)

    def scaled(weights: dict[str, float]) -> dict[str, float]:
        return {name: round(larger * value, 3) for name, value in weights.items()}

    def line(weights: dict[str, float]) -> str:
        return "{" + ", ".join(f"{name}: {value:g}" for name, value in weights.items()) + "}"

    without = {name: scaled(weights) for name, weights in without.items()}
    print("\n".join(report(found, without)))
    lines = [f"  {name}: {line(weights)}" for name, weights in without.items()]
    whole = f"all: {line(scaled(fitted(found)))}\nwithout:\n" + "\n".join(lines) + "\n"
    return update({WIDTHS: comments(WIDTHS) + whole}, check=check)
