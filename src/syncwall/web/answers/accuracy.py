"""The numbers of the Accuracy page: every published run beside its prediction.

Holds `accuracy`, which takes long: pages show it as `python -m bench docs accuracy` computed it for
this release; `as_run`, one of the runs as Predict opens it; and `alike`, those
most like the run that somebody has in mind.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import cache, lru_cache
from typing import Any, Final

from syncwall.answer.interval import nearest_runs
from syncwall.describe.base import Description
from syncwall.problems import InputError
from syncwall.show.layout import run_words
from syncwall.show.validation import outcome_words
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.machine import CannotRepresent
from syncwall.validate.mapping import case_of
from syncwall.validate.report import Report, validate
from syncwall.validate.table import RowUse, RunRow, corpus_part, read_tables
from syncwall.web.answers.catalogue import source_text
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.questions import AskedRun

_DIGITS: Final = 6
"""Of times in answers: errors counted from them are those of the report."""
_ALIKE: Final = 400
"""Runs that are looked at for the nearest; a page shows the first of those that it has."""
_PARTS: Final = [str(part) for part in RowUse]


class Words(dict[str, int]):
    """Numbers for words in the order in which they come."""

    def number(self, word: str) -> int:
        """The number of `word`."""
        return self.setdefault(word, len(self))


def accuracy(*, progress: Callable[[float], None] = lambda share: None) -> dict[str, Any]:
    """Every published run with its prediction, interval and source, computed now.

    Runs are short lists, and refer to words by number.
    """
    report = validate(progress=lambda share: progress(0.8 * share))
    words = {name: Words() for name in ("source", "model", "device", "framework", "doubt")}
    doubts = {one.outcome.case.row.id: one.reason for one in report.doubtful}
    runs = []
    for number, one in enumerate(report.outcomes):
        if number % 50 == 0:
            progress(0.8 + 0.2 * number / len(report.outcomes))
        runs.append(_line(one, doubts.get(one.case.row.id), words))
    return {
        "columns": [
            "id",
            "measured_s",
            "predicted_s",
            "low_s",
            "high_s",
            "source",
            "model",
            "device",
            "framework",
            "gpus",
            "layout",
            "part",
            "doubt",
        ],
        "runs": runs,
        "words": {name: list(known) for name, known in words.items()},
        "parts": _PARTS,
        "sources": {key: source_text(key) for key in words["source"]},
        **_totals(report),
    }


def _line(one: ValidatedRun, doubt: str | None, words: dict[str, Words]) -> list[Any]:
    row, cluster = one.case.row, one.case.cluster
    return [
        row.id,
        *map(_rounded, (one.case.measured_s, one.step_s, *one.interval_s)),
        words["source"].number(row.source),
        words["model"].number(row.text("model")),
        words["device"].number(cluster.device.name),
        words["framework"].number(row.text("framework")),
        cluster.gpus,
        outcome_words(one),
        _PARTS.index(str(corpus_part(row))),
        -1 if doubt is None else words["doubt"].number(doubt),
    ]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{_DIGITS}g}")


def _totals(report: Report) -> dict[str, Any]:
    held = asdict(report.summary)
    held.pop("against")
    reasons: dict[str, int] = {}
    for one in report.skipped:
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    common = sorted(reasons.items(), key=lambda pair: -pair[1])
    return {
        "rows": report.rows,
        "skipped": len(report.skipped),
        "why_skipped": common,
        "held_out": held,
        "held_out_parts": [str(part) for part in RowUse if part.is_held_out],
    }


@cache
def _known_rows() -> dict[str, RunRow]:
    return {row.id: row for row in read_tables()}


@lru_cache(maxsize=64)
def as_run(name: str) -> dict[str, Any]:
    """One published run as a run to predict: what the source leaves open is as it was validated."""
    row = _known_rows().get(name)
    if row is None:
        raise InputError.of("there is no published run of this name")
    try:
        case = case_of(row)
    except CannotRepresent as error:
        raise InputError.of(f"cannot be predicted: {error}") from None
    (found,) = outcomes([case])
    return {
        "run": {
            "model": _stated(case.model),
            "cluster": _stated(case.cluster),
            "gpus": case.cluster.gpus,
            "seq": case.seq,
            "layout": _stated(found.layout, unset=True),
            "software": _stated(case.software),
        },
        "open": list(case.open_fields),
        "cited": row.text("cited"),
        "predicted_s": found.step_s,
    }


def _stated(described: Description, *, unset: bool = False) -> dict[str, Any]:
    return described.model_dump(mode="json", exclude_unset=not unset, exclude_none=True)


def alike(asked: AskedRun) -> dict[str, Any]:
    """The published runs most like one that is asked for, the nearest first.

    `distance` is the one that intervals use: 1 is about another kind of machine or model.
    """
    prediction = prediction_of(asked)
    found = nearest_runs(prediction.traits, _ALIKE)
    return {
        "what": run_words(prediction.run),
        "runs": [{"id": one.id, "distance": one.distance} for one in found],
    }
