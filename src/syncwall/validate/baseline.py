"""Other predictors on the same runs.

Holds `Baselines`, read from a CSV with a column `id` and one column `<name>_step_s` a predictor,
and `Comparison`, the errors of one of them beside ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from syncwall.problems import InputError, Problem
from syncwall.validate.evaluation import Outcome
from syncwall.validate.table import read_csv

_ENDING = "_step_s"
_NO_PREDICTOR = "measured_step_s"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors of a baseline and ours over the runs that both can predict."""

    n: int
    mape: float
    mape_ours: float
    median_ape: float
    median_ape_ours: float


@dataclass(frozen=True, slots=True)
class Baselines:
    """Step times of other predictors."""

    step_s: dict[str, dict[str, float]]
    """Seconds by the name of the predictor and the id of the run."""

    def compare(self, outcomes: Sequence[Outcome]) -> dict[str, Comparison]:
        """Every predictor that has some of `outcomes`."""
        found = {}
        for name, seconds in self.step_s.items():
            common = [one for one in outcomes if one.case.row.id in seconds]
            if common:
                found[name] = _compared(common, seconds)
        return found


def read_baselines(path: Path) -> Baselines:
    """The predictors in the table `path`."""
    step_s: dict[str, dict[str, float]] = {}
    problems: list[Problem] = []
    for cells, line in read_csv(path, ["id"]):
        for column in _predictors(cells):
            seconds = _seconds(cells[column])
            if seconds is None:
                said = f'"{cells[column]}" in column {column} is no number of seconds'
                problems.append(Problem(str(path), line, 1, said))
            else:
                known = step_s.setdefault(column.removesuffix(_ENDING), {})
                known[cells.get("id", "").strip()] = seconds
    if problems:
        raise InputError(problems)
    if not step_s:
        said = f"has no predictions: a column such as calculon{_ENDING} holds seconds by id"
        raise InputError.of(said, file=str(path))
    return Baselines(step_s)


def _predictors(cells: dict[str, str]) -> list[str]:
    """Filled columns of predictors."""
    return [
        name
        for name, cell in cells.items()
        if name.endswith(_ENDING) and name != _NO_PREDICTOR and cell.strip()
    ]


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < 1e12 else None


def _compared(common: Sequence[Outcome], seconds: dict[str, float]) -> Comparison:
    measured = np.array([one.case.measured_s for one in common])
    theirs = np.abs(np.array([seconds[one.case.row.id] for one in common]) / measured - 1.0)
    ours = np.abs(np.array([one.step_s for one in common]) / measured - 1.0)
    return Comparison(
        n=len(common),
        mape=float(theirs.mean()),
        mape_ours=float(ours.mean()),
        median_ape=float(np.median(theirs)),
        median_ape_ours=float(np.median(ours)),
    )
