"""Software constants from training runs: `python bench/fit/training.py DIR... [--check]`.

Each DIR holds tables of published runs. Only calibration rows are read, and none that is
doubtful. Regenerates exactly the values named in `PARAMETERS` of catalogue/frameworks and
catalogue/calibrations; prints the residuals of every source before and after. With --check nothing
is written; the exit code is 1 if a file would change.
"""

import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.fit.catalogue_values import PARAMETERS, patched, written
from bench.fit.search import Values, search
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import ValidationCase, cases_of
from syncwall.validate.score import evenly
from syncwall.validate.split import RowUse, doubt, part_of
from syncwall.validate.table import RunRow, read_tables

CLIP = 0.7
"""Largest |ln(predicted / measured)| that counts: a broken run is not worth more than that."""
STIFFNESS = 0.002
"""Loss of moving a constant by its own uncertainty away from where it started."""
MOST_ROWS = 60
"""Rows of a source that a fit reads, evenly spread; sources count the same however long."""


class Problem:
    """Calibration cases and how well given constants predict them."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        self._known: dict[tuple[str, Values | tuple[tuple[str, float], ...]], float] = {}
        self.cases: dict[str, list[ValidationCase]] = {}
        may_be_read = (r for r in rows if part_of(r) is RowUse.CALIBRATION and not doubt(r))
        for case in cases_of(may_be_read):
            self.cases.setdefault(case.row.source, []).append(case)

    @cached_property
    def read(self) -> dict[str, list[ValidationCase]]:
        """The cases that count in the loss."""
        return {source: evenly(cases, MOST_ROWS) for source, cases in self.cases.items()}

    def loss(self, values: Values) -> float:
        """Mean over sources of the mean error, and a little for leaving the start."""
        moved = sum(PARAMETERS[name].moved(value) ** 2 for name, value in values.items())
        errors = [self._error(source, values) for source in self.read]
        return float(np.mean(errors)) + STIFFNESS * moved

    def _error(self, source: str, values: Values) -> float:
        """Mean error of one source; only constants that it can see make it count anew."""
        seen = tuple((n, v) for n, v in values.items() if source in PARAMETERS[n].sources)
        if (source, seen) not in self._known:
            with patched(values):
                found = outcomes(self.read[source])
            logs = np.abs(np.log([outcome.ratio for outcome in found]))
            self._known[source, seen] = float(np.minimum(logs, CLIP).mean())
        return self._known[source, seen]


def fitted(rows: Sequence[RunRow]) -> tuple[Values, Problem]:
    """The constants that fit the calibration rows best."""
    problem = Problem(rows)
    start = {name: parameter.start for name, parameter in PARAMETERS.items()}
    limits = {name: parameter.limits for name, parameter in PARAMETERS.items()}
    return search(problem.loss, start, limits, pairs=False), problem


def _residuals(found: list[ValidatedRun]) -> str:
    ratios = np.array([outcome.ratio for outcome in found])
    errors = np.abs(ratios - 1)
    return f"mean {errors.mean():.1%}, median {np.median(errors):.1%} ({np.median(ratios):.2f})"


def main(arguments: list[str]) -> int:
    """Fit, print, and write or check."""
    directories = [Path(one) for one in arguments if not one.startswith("-")]
    values, problem = fitted([row for one in directories for row in read_tables(one)])
    for name, value in values.items():
        parameter = PARAMETERS[name]
        print(f"{name:34} {parameter.start:8g} -> {value:8g}   {', '.join(parameter.sources)}")
    start = {name: parameter.start for name, parameter in PARAMETERS.items()}
    for source, cases in problem.cases.items():
        with patched(start):
            before = _residuals(outcomes(cases))
        with patched(values):
            after = _residuals(outcomes(cases))
        print(f"{source:26} {len(cases):5} rows   {before}  ->  {after}")
    changed = written(values, write="--check" not in arguments)
    print("\n".join(f"{path.name} differs" for path in changed) or "no file differs")
    return 1 if changed and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
