"""Predictions beside published runs: everything that `syncwall validate` reports.

Holds `Report`, `validate` and `reported`. Doubtful rows count in no figure but `n_all` and
`mape_all`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from syncwall.catalogue import Folders, takes_catalogue
from syncwall.public import Answer, published
from syncwall.validate.evaluation import ValidatedRun, outcomes, run_file_cases
from syncwall.validate.mapping import ValidationCase, case_of
from syncwall.validate.score import (
    BaselineComparison,
    Baselines,
    ErrorSummary,
    RunSet,
    Score,
    Steps,
    known_run_sample,
    read_baselines,
    run_sets,
    score,
    summary,
)
from syncwall.validate.table import RunRow, read_tables, row_doubt
from syncwall.validate.table_models import CannotRepresent

Progress = Callable[[float], None]
_KINDS = ("source", "named", "accelerator", "scale", "parallelism", "all")
_MAPPING = 0.5
"""Share of the time that mapping rows takes."""


@published("id=row.id source=row.source reason file line=row.line")
@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that cannot be predicted."""

    row: RunRow
    reason: str

    @property
    def file(self) -> str:
        """Name of the table."""
        return self.row.file.name


@published("id=outcome.case.row.id source=outcome.case.row.source reason")
@dataclass(frozen=True, slots=True)
class Doubtful:
    """A row that is not taken as it is printed."""

    outcome: ValidatedRun
    reason: str


@published(
    "name=runs.name kind=runs.kind n",
    *(f"{name}=score.{name}" for name in Score.__annotations__ if name != "n"),
    "held_out=runs.held_out n_all mape_all against",
)
@dataclass(frozen=True, slots=True)
class SetReport:
    """Errors over one set of runs; None where no run is without doubt, or where too few are."""

    runs: RunSet
    score: Score | None
    """Without doubtful rows; None if all are."""
    n_all: int
    """All runs, also those in doubt."""
    mape_all: float
    """Mean error of all."""
    against: dict[str, BaselineComparison]
    """Other predictors and this one on the runs that both can predict, by name."""

    @property
    def n(self) -> int:
        """Runs that are not in doubt; the next figures are of these."""
        return self.score.n if self.score else 0


@published("rows skipped doubtful sets summary")
@dataclass(frozen=True)
class Report(Answer):
    """How far predictions are from the runs of some tables."""

    verb = "validate"
    rows: int
    """Of all tables that were read."""
    outcomes: list[ValidatedRun]
    skipped: list[SkippedRow]
    doubtful: list[Doubtful]
    sets: list[SetReport]
    summary: ErrorSummary
    """Errors over the held-out sources."""

    def __repr__(self) -> str:
        return f"<Report {len(self.outcomes):,} of {self.rows:,} rows predicted>"

    @property
    def sure(self) -> list[ValidatedRun]:
        """Outcomes of the rows that are taken as printed."""
        doubted = {one.outcome.case.row.id for one in self.doubtful}
        return [one for one in self.outcomes if one.case.row.id not in doubted]

    def worst(self, count: int) -> list[ValidatedRun]:
        """The `count` undoubted rows with the largest factor between the two times."""
        order = sorted(self.sure, key=lambda one: -abs(np.log(one.ratio)))
        return order[:count]


@takes_catalogue
def validate(
    path: str | Path | None = None,
    against: str | Path | None = None,
    progress: Progress | None = None,
    *,
    catalogue: Folders = None,
) -> Report:
    """Predict every run of the table, run file or directory `path`, of the built-in tables if None.

    `against` is a table of other predictions; `progress` is told which share of the work is done.

    Examples:
        >>> import syncwall as sw
        >>> found = sw.validate("examples/runs.csv")
        >>> found
        <Report 2 of 3 rows predicted>
        >>> [round(one.ratio, 1) for one in found.outcomes]
        [1.0, 1.0]
    """
    baselines = read_baselines(Path(against)) if against else Baselines({})
    known = [] if path is None else run_file_cases(Path(path))
    rows = [] if known else read_tables(None if path is None else Path(path))
    return reported(rows, baselines, progress, known)


def reported(
    rows: Sequence[RunRow],
    baselines: Baselines | None = None,
    progress: Progress | None = None,
    known: Sequence[ValidationCase] = (),
) -> Report:
    """Predict every run of `rows`, and those `known` from run files."""
    told, baselines = progress or _nobody, baselines or Baselines({})
    cases, skipped = _cases(rows, told)
    found = outcomes([*cases, *known], lambda share: told(_MAPPING + (1 - _MAPPING) * share))
    doubtful = [Doubtful(one, reason) for one in found if (reason := row_doubt(one.case.row)) is not None]
    doubted = {one.outcome.case.row.id for one in doubtful}
    steps = known_run_sample([one for one in found if one.case.row.id not in doubted])
    sets = [_reported(runs, doubted, baselines, steps) for runs in run_sets(found)]
    sets.sort(key=_place)
    told(1.0)
    whole = summary(found, doubted, baselines, steps)
    return Report(len(rows) + len(known), found, skipped, doubtful, sets, whole)


def _place(one: SetReport) -> tuple[int, bool, int, str]:
    """Where a set stands: sources first, held-out ones before others, large ones before small."""
    return _KINDS.index(one.runs.kind), not one.runs.held_out, -one.n_all, one.runs.name


def _nobody(share: float) -> None:
    """Nobody wants to know."""


def _cases(rows: Sequence[RunRow], progress: Progress) -> tuple[list[ValidationCase], list[SkippedRow]]:
    """What can be predicted, and what not."""
    cases: list[ValidationCase] = []
    skipped: list[SkippedRow] = []
    for number, row in enumerate(rows):
        progress(_MAPPING * number / len(rows))
        try:
            cases.append(case_of(row))
        except CannotRepresent as error:
            skipped.append(SkippedRow(row, str(error)))
    return cases, skipped


def _reported(runs: RunSet, doubted: set[str], baselines: Baselines, steps: Steps) -> SetReport:
    sure = [one for one in runs.outcomes if one.case.row.id not in doubted]
    errors = np.abs(np.array([one.ratio for one in runs.outcomes]) - 1.0)
    figures = score(sure, steps) if sure else None
    return SetReport(runs, figures, len(errors), float(errors.mean()), baselines.compare(sure))
