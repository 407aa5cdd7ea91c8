"""Predictions beside published runs: everything that `syncwall validate` reports.

Holds `Report`, `validate` and `reported`. Rows that are in doubt count in no figure but `n_all` and
`mape_all`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from syncwall.validate.evaluation import Outcome, outcomes
from syncwall.validate.hardware import CannotRepresent
from syncwall.validate.mapping import Case, case_of
from syncwall.validate.score import (
    Baselines,
    Comparison,
    Score,
    Steps,
    Summary,
    read_baselines,
    score,
    steps_of,
    summary,
)
from syncwall.validate.sets import RunSet, run_sets
from syncwall.validate.split import doubt
from syncwall.validate.table import Row, read_tables

Progress = Callable[[float], None]
_KINDS = ("source", "named", "accelerator", "scale", "parallelism", "all")
_MAPPING = 0.5
"""Share of the time that mapping rows takes."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that cannot be predicted."""

    row: Row
    reason: str


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A row that is not taken as it is printed."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class SetReport:
    """The figures of one set of runs."""

    runs: RunSet
    score: Score | None
    """Without rows in doubt; None if all are."""
    n_all: int
    mape_all: float
    against: dict[str, Comparison]

    def to_dict(self) -> dict[str, Any]:
        """For `json.dumps`; errors are fractions."""
        names = [field.name for field in fields(Score)]
        figures = asdict(self.score) if self.score else dict.fromkeys(names) | {"n": 0}
        return {
            "name": self.runs.name,
            "kind": self.runs.kind,
            **figures,
            "held_out": self.runs.held_out,
            "n_all": self.n_all,
            "mape_all": self.mape_all,
            "against": {name: asdict(other) for name, other in self.against.items()},
        }


@dataclass(frozen=True, slots=True)
class Report:
    """How far predictions are from the runs of some tables."""

    rows: int
    outcomes: list[Outcome]
    skipped: list[Skipped]
    doubtful: list[Doubtful]
    sets: list[SetReport]
    summary: Summary

    @property
    def sure(self) -> list[Outcome]:
        """Outcomes of the rows that are taken as printed."""
        doubted = {one.outcome.case.row.id for one in self.doubtful}
        return [one for one in self.outcomes if one.case.row.id not in doubted]

    def worst(self, count: int) -> list[Outcome]:
        """The `count` rows without doubt with the largest factor between the two times."""
        order = sorted(self.sure, key=lambda one: -abs(np.log(one.ratio)))
        return order[:count]

    def to_dict(self) -> dict[str, Any]:
        """For `json.dumps`; errors are fractions."""
        return {
            "rows": self.rows,
            "skipped": [
                {
                    "id": one.row.id, "source": one.row.source, "reason": one.reason,
                    "file": one.row.file.name, "line": one.row.line,
                }
                for one in self.skipped
            ],
            "doubtful": [
                {
                    "id": one.outcome.case.row.id, "source": one.outcome.case.row.source,
                    "reason": one.reason,
                }
                for one in self.doubtful
            ],
            "sets": [one.to_dict() for one in self.sets],
            "summary": asdict(self.summary),
        }  # fmt: skip


def validate(
    path: Path | None = None, against: Path | None = None, progress: Progress | None = None
) -> Report:
    """Predict every run of the table or directory `path`, of the built-in tables if None.

    `against` is a table of other predictions; `progress` is told which share of the work is done.
    """
    baselines = read_baselines(against) if against else Baselines({})
    return reported(read_tables(path), baselines, progress)


def reported(
    rows: Sequence[Row], baselines: Baselines | None = None, progress: Progress | None = None
) -> Report:
    """Predict every run of `rows`."""
    told, baselines = progress or _nobody, baselines or Baselines({})
    cases, skipped = _cases(rows, told)
    found = outcomes(cases, lambda share: told(_MAPPING + (1 - _MAPPING) * share))
    doubtful = [
        Doubtful(one, reason) for one in found if (reason := doubt(one.case.row)) is not None
    ]
    doubted = {one.outcome.case.row.id for one in doubtful}
    steps = steps_of([one for one in found if one.case.row.id not in doubted])
    sets = [_reported(runs, doubted, baselines, steps) for runs in run_sets(found)]
    sets.sort(key=_place)
    told(1.0)
    whole = summary(found, doubted, baselines, steps)
    return Report(len(rows), found, skipped, doubtful, sets, whole)


def _place(one: SetReport) -> tuple[int, bool, int, str]:
    """Where a set stands: sources first, held-out ones before others, large ones before small."""
    return _KINDS.index(one.runs.kind), not one.runs.held_out, -one.n_all, one.runs.name


def _nobody(share: float) -> None:
    """Nobody wants to know."""


def _cases(rows: Sequence[Row], progress: Progress) -> tuple[list[Case], list[Skipped]]:
    """What can be predicted, and what not."""
    cases: list[Case] = []
    skipped: list[Skipped] = []
    for number, row in enumerate(rows):
        progress(_MAPPING * number / len(rows))
        try:
            cases.append(case_of(row))
        except CannotRepresent as error:
            skipped.append(Skipped(row, str(error)))
    return cases, skipped


def _reported(runs: RunSet, doubted: set[str], baselines: Baselines, steps: Steps) -> SetReport:
    sure = [one for one in runs.outcomes if one.case.row.id not in doubted]
    errors = np.abs(np.array([one.ratio for one in runs.outcomes]) - 1.0)
    figures = score(sure, steps) if sure else None
    return SetReport(runs, figures, len(errors), float(errors.mean()), baselines.compare(sure))
