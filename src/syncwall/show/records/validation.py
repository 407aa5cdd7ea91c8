"""How far predictions are from published runs, as plain data: errors are fractions.

Holds `ValidateRecord` with `validation_record`, and `set_record`.
"""

from dataclasses import asdict, fields
from typing import cast

from typing_extensions import TypedDict

from syncwall.show.records.interface import record
from syncwall.validate.report import Report, SetReport
from syncwall.validate.score import BaselineComparison, Score, Summary


@record
class SkippedRecord(TypedDict):
    """A row that cannot be predicted."""

    id: str
    source: str
    reason: str
    file: str
    line: int


@record
class DoubtfulRecord(TypedDict):
    """A row that is not taken as it is printed."""

    id: str
    source: str
    reason: str


@record
class SetRecord(TypedDict):
    """Errors over one set of runs; null where no run is without doubt, or where too few are."""

    name: str
    kind: str
    """source, named, accelerator, scale, parallelism or all."""
    held_out: bool
    """True if no fit may read any of the runs."""
    n: int
    """Runs that are not in doubt; the next figures are of these."""
    mape: float | None
    """Mean of |predicted / measured − 1|."""
    median_ape: float | None
    """Median of it."""
    ratio_median: float | None
    """Predicted over measured."""
    ratio_p10: float | None
    ratio_p90: float | None
    coverage80: float | None
    """Share of the runs inside their 80% interval."""
    mape_one_known_run: float | None
    """Mean error of the others after one run was given as known, over all choices."""
    mape_three_known_runs: float | None
    """After three, drawn by lot."""
    mape_five_known_runs: float | None
    """After five."""
    mape_without_bias: float | None
    """Mean error after dividing by the median ratio."""
    n_memory: int | None
    """Runs whose memory the source gives."""
    memory_mape: float | None
    """Mean error of their memory."""
    memory_median_ape: float | None
    """Median error of it."""
    not_fitting: float | None
    """Share of the runs, which did run, that are predicted not to fit."""
    n_all: int
    """All runs, also those in doubt."""
    mape_all: float
    """Mean error of all."""
    against: dict[str, BaselineComparison]
    """Other predictors and this one on the runs that both can predict, by name."""


@record
class ValidateRecord(TypedDict):
    """Predictions beside published measurements."""

    rows: int
    """Of all tables that were read."""
    skipped: list[SkippedRecord]
    doubtful: list[DoubtfulRecord]
    sets: list[SetRecord]
    summary: Summary
    """Errors over the held-out sources."""


def validation_record(report: Report) -> ValidateRecord:
    """All of it."""
    return {
        "rows": report.rows,
        "skipped": [
            {"id": one.row.id, "source": one.row.source, "reason": one.reason,
             "file": one.row.file.name, "line": one.row.line}
            for one in report.skipped
        ],
        "doubtful": [
            {"id": one.outcome.case.row.id, "source": one.outcome.case.row.source,
             "reason": one.reason}
            for one in report.doubtful
        ],
        "sets": [set_record(one) for one in report.sets],
        "summary": report.summary,
    }  # fmt: skip


def set_record(one: SetReport) -> SetRecord:
    """The figures of a set."""
    nothing = dict.fromkeys(field.name for field in fields(Score)) | {"n": 0}
    found = {
        "name": one.runs.name,
        "kind": one.runs.kind,
        **(asdict(one.score) if one.score else nothing),
        "held_out": one.runs.held_out,
        "n_all": one.n_all,
        "mape_all": one.mape_all,
        "against": one.against,
    }
    return cast("SetRecord", found)
