"""What the model gets wrong on published runs, and the intervals that follow from it.

Residuals are of rows without doubt and of no judge. Widths are weights of what is uncertain
(`answer.interval.uncertainties`), not negative, learned on the register of first contacts: 80% of the
errors are smaller than the weighted sum (quantile regression, organisations count the same), and all
are then multiplied by the factor with which 80% of the errors of an organisation are covered by what
the others say, as a mean over the organisations that were frozen last: those are first contacts of
nearly the prices that are used (conformal).
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
from syncwall.answer.interval import (
    FAR,
    TABLE,
    WIDTHS,
    rare_traits,
    register_lines,
    uncertainties,
)
from syncwall.answer.site import USED, Traits, scale_of
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import evenly
from syncwall.validate.table import RowUse, corpus_part, organisation_of, row_doubt

MOST_ROWS = 150
COVERED = 0.8
FEWEST = 3
"""Rows from which on an organisation counts in full."""
LEAST = {
    "always": 0.12,
    "waiting": 0.1,
    "experts": 0.08,
    "narrow": 0.03,
    "unmeasured": 0.1,
    "rare": 0.1,
    "unsaid": 0.015,
    "distance": 0.01,
    "extrapolating": 0.05,
    "unlike": 0.1,
    "shapeless": 0.1,
}
"""Smallest half-width for an uncertainty, where few runs that have it could say: assumed. `unlike`:
nine in ten of the 91 published runs of hybrids, BERT, T5 and ViT are inside; `shapeless`: 12 of 13
published speeds of ResNet-50 and of Stable Diffusion's U-Net."""
MOST = {"rare": 0.2, "unsaid": 0.06, "experts": 0.2, "narrow": 0.2, "unlike": 0.2, "extrapolating": 0.1}
"""Largest half-width for what few organisations have, each of which would decide it alone: assumed."""


def traits_of(line: dict[str, str]) -> Traits:
    """What a line of the register or of the residuals says of its run."""
    experts, frozen, calibrated = (
        line[name] == "True" for name in ("experts", "frozen_weights", "calibrated")
    )
    used = tuple(line[name] == "True" for name in USED)
    scale = scale_of(*(float(line[name]) for name in ("gpus", "parameters", "seq")))
    words = line["architecture"], line["precision"], line["framework"]
    decoder = line.get("decoder", "True") == "True"
    return Traits(*words, experts, frozen, calibrated, used, scale, decoder)


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
    """What a version got wrong at first contact, with what was uncertain of every run."""

    names: list[str]
    uncertain: NDArray[np.float64]
    errors: NDArray[np.float64]
    organisations: NDArray[np.str_]

    def of(self, chosen: NDArray[np.bool_]) -> "Errors":
        columns: tuple[Any, ...] = (self.uncertain, self.errors, self.organisations)
        return Errors(self.names, *(column[chosen] for column in columns))

    @property
    def weights(self) -> NDArray[np.float64]:
        """Organisations weigh the same from three runs on."""
        runs = Counter(self.organisations)
        return np.array([1.0 / max(runs[owner], FEWEST) for owner in self.organisations])

    @property
    def owners(self) -> list["Errors"]:
        """Organisations with three runs."""
        each = [self.of(self.organisations == name) for name in dict.fromkeys(self.organisations)]
        return [one for one in each if len(one.errors) >= FEWEST]


def errors(frozen: str = "") -> Errors:
    """First contacts of organisations that are no judges, each as far from published runs as it is.

    Of one frozen table, or of all.
    """
    table = module._table()
    assert table is not None
    lines = [line for line in register_lines() if line["part"] != "judge"]
    lines = [line for line in lines if line["frozen"] == frozen or not frozen]
    found = []
    for line in lines:
        traits, owner = traits_of(line), line["organisation"]
        others = table.organisations != owner
        far = float(table.distances(traits)[others].min())
        found.append(
            uncertainties(
                traits,
                waiting=float(line["waiting"]),
                unsaid=int(line["unsaid"]),
                distance=far,
                extrapolating=far > FAR or table.is_beyond(traits, owner) or not traits.decoder,
                rare=len(rare_traits(traits, owner)),
            )
        )
    names = list(found[0])
    values = np.array([[one[name] for name in names] for one in found])
    logs = np.abs(np.log([float(line["ratio"]) for line in lines]))
    return Errors(names, values, logs, np.array([line["organisation"] for line in lines]))


def fitted(found: Errors) -> dict[str, float]:
    """Weight of every uncertainty: the quantile regression is a linear program."""
    rows, width = found.uncertain.shape
    above, below = COVERED * found.weights, (1 - COVERED) * found.weights
    equal = hstack([found.uncertain, identity(rows), -identity(rows)])
    least = [(LEAST.get(name, 0.0), MOST.get(name)) for name in found.names]
    costs, bounds = np.concatenate([np.zeros(width), above, below]), [(0, None)] * (2 * rows)
    answer = linprog(costs, A_eq=equal, b_eq=found.errors, bounds=least + bounds, method="highs")
    return dict(zip(found.names, map(float, answer.x), strict=False))


def widths(found: Errors, weights: dict[str, float]) -> NDArray[np.float64]:
    return np.asarray(found.uncertain @ np.array([weights[name] for name in found.names]))


def factor(found: Errors, without: dict[str, dict[str, float]]) -> float:
    """By how much everything must be wider, or narrower, to cover 80% by what the others say."""
    owners = [(one, widths(one, without[str(one.organisations[0])])) for one in found.owners]
    for percent in range(50, 200):
        wider = percent / 100
        if np.mean([np.mean(one.errors <= wider * width) for one, width in owners]) >= COVERED:
            return wider
    raise ValueError("no factor covers enough")


def report(found: Errors, without: dict[str, dict[str, float]]) -> list[str]:
    """Coverage, mean half-width and Winkler score, means over organisations with three runs.

    Beside the one half-width for all that covers as many.
    """
    covered, width, winkler = [], [], []
    for one in found.owners:
        half = widths(one, without[str(one.organisations[0])])
        late = np.maximum(one.errors - half, 0.0)
        covered.append(np.mean(one.errors <= half))
        width.append(np.mean(half))
        winkler.append(np.mean(2 * half + 2 / (1 - COVERED) * late))
    alike = next(
        half / 1000
        for half in range(1, 3000)
        if np.mean([np.mean(one.errors <= half / 1000) for one in found.owners]) >= np.mean(covered)
    )
    return [
        f"{len(covered)} organisations: covered {np.mean(covered):.1%} (sd {np.std(covered):.1%}), "
        f"half-width {np.mean(width):.3f} (one for all {alike:.3f}), Winkler {np.mean(winkler):.3f}"
    ]


def fit_widths(check: bool = False) -> int:
    """Fit catalogue/validation/widths.yaml to catalogue/validation/register.csv.

    With --check nothing is written: 1 if the file would change.
    """
    found = errors()
    owners = dict.fromkeys(found.organisations)
    without = {str(one): fitted(found.of(found.organisations != one)) for one in owners}
    latest = errors(max(line["frozen"] for line in register_lines()))
    larger = factor(latest, without)

    def scaled(weights: dict[str, float]) -> dict[str, float]:
        return {name: round(larger * value, 3) for name, value in weights.items()}

    def line(weights: dict[str, float]) -> str:
        return "{" + ", ".join(f"{name}: {value:g}" for name, value in weights.items()) + "}"

    without = {name: scaled(weights) for name, weights in without.items()}
    print("\n".join(report(found, without)), *report(latest, without), sep="\n")
    lines = [f"  {name}: {line(weights)}" for name, weights in without.items()]
    whole = f"all: {line(scaled(fitted(found)))}\nwithout:\n" + "\n".join(lines) + "\n"
    return update({WIDTHS: comments(WIDTHS) + whole}, check=check)
