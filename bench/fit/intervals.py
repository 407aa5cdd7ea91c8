"""What the model gets wrong on published runs, and the intervals that follow from it.

Residuals are of rows without doubt and of no judge. Widths are weights of the doubts of
`answer.interval`, not negative, so that 80% of the errors are smaller than the weighted sum
(quantile regression, in which the spread between sources counts), and then all larger by the factor
with which 80% of the errors of an organisation are covered, as a mean over held-out sources, by
what the others say (conformal). A pair are two runs of one organisation; its error is the
difference of both ln(predicted / measured), and its doubt, if nothing were shared, the root of both
squared half-widths, each learned without that organisation.
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog  # type: ignore[import-untyped]
from scipy.sparse import hstack, identity  # type: ignore[import-untyped]

from bench import Dirs
from bench.fit.files import comments, rows_of, update
from syncwall.answer import interval as module
from syncwall.answer.difference import ALIKE
from syncwall.answer.interval import TABLE, WIDTHS, Z80, doubts, interval
from syncwall.answer.site import USED, Traits, scale_of
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import evenly
from syncwall.validate.table import RowUse, corpus_part, organisation_of, row_doubt

MOST_ROWS = 150
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
FEWEST_PAIRS = 20
"""Pairs from which on an organisation counts."""
SETUP = ("architecture", "precision", "framework", "experts", "frozen_weights", "parameters", "seq")
KINDS = ("one setup", "another model or software", "another kind of device")


def residual(outcome: ValidatedRun) -> dict[str, str]:
    """A run, what it is like, and predicted over measured."""
    traits, case = outcome.traits, outcome.case
    names = ("architecture", "precision", "framework", "experts", "frozen_weights")
    return {
        "id": case.row.id,
        "source": case.row.source,
        "organisation": organisation_of(case.row.source),
        "part": str(corpus_part(case.row)),
        **{name: str(getattr(traits, name)) for name in names},
        **{name: str(used) for name, used in zip(USED, traits.used, strict=True)},
        "gpus": f"{outcome.layout.gpus}",
        "parameters": f"{case.model.parameters:.4g}",
        "seq": f"{case.seq}",
        "calibrated": str(traits.calibrated),
        "waiting": f"{outcome.waiting:.3f}",
        "unsaid": f"{outcome.unsaid}",
        "ratio": f"{outcome.ratio:.3f}",
    }


def residuals(directories: Sequence[Path]) -> str:
    rows = (row for row in rows_of(directories) if corpus_part(row) is not RowUse.JUDGE)
    groups: dict[tuple[str, str], list[ValidatedRun]] = {}
    for outcome in outcomes(cases_of(row for row in rows if not row_doubt(row))):
        row = outcome.case.row
        groups.setdefault((row.source, str(corpus_part(row))), []).append(outcome)
    lines = [residual(one) for members in groups.values() for one in evenly(members, MOST_ROWS)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def fit_residuals(directories: Dirs, check: bool = False) -> int:
    """Write catalogue/validation/residuals.csv from the published runs of DIR...

    With --check nothing is written: 1 if the file would change.
    """
    text = residuals(directories)
    print(f"{text.count(chr(10)) - 1} runs")
    return update({TABLE: text}, check=check)


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
        columns: tuple[Any, ...] = (
            self.doubts,
            self.errors,
            self.sources,
            self.organisations,
            self.parts,
        )
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
            known: dict[str, Any] = {"waiting": float(row["waiting"]), "unsaid": int(row["unsaid"])}
            far = float(table.distances(traits)[others].min())
            found.append(doubts(traits, distance=far, **known))
            parts.append(row["part"])
    names = list(found[0])
    values = np.array([[one[name] for name in names] for one in found])
    about = (table.sources, table.organisations, np.array(parts))
    every = Errors(names, values, np.abs(table.errors), *about)
    return every.of(every.parts != "composed")


def traits_of(row: dict[str, str]) -> Traits:
    experts, frozen, calibrated = (
        row[name] == "True" for name in ("experts", "frozen_weights", "calibrated")
    )
    used = tuple(row[name] == "True" for name in USED)
    scale = scale_of(*(float(row[name]) for name in ("gpus", "parameters", "seq")))
    words = row["architecture"], row["precision"], row["framework"]
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


def fit_widths(check: bool = False) -> int:
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
        every = self.by_organisation
        return [Pairs({n: one for n, one in every.items() if n != name}).factor() for name in every]


def pairs() -> dict[str, Pairs]:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["part"] != "composed"]
    found: dict[str, dict[str, NDArray[np.float64]]] = {kind: {} for kind in KINDS}
    for name in dict.fromkeys(row["organisation"] for row in rows):
        for kind, far in _pairs_of([row for row in rows if row["organisation"] == name]).items():
            if len(far) >= FEWEST_PAIRS:
                found[kind][name] = far
    return {kind: Pairs(one) for kind, one in found.items()}


def _pairs_of(rows: list[dict[str, str]]) -> dict[str, NDArray[np.float64]]:
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
    known: dict[str, Any] = {"waiting": float(row["waiting"]), "unsaid": int(row["unsaid"])}
    return Z80 * interval(traits_of(row), without=row["organisation"], **known).deviation


def fit_pairs(check: bool = False) -> int:
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
