"""The numbers of the Accuracy page: every published run beside its prediction.

Holds `accuracy`.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from syncwall.show.views.validation import outcome_words
from syncwall.validate.evaluation import ValidatedRun
from syncwall.validate.report import Report, validate
from syncwall.validate.split import RowUse, part_of
from syncwall.web.answers.catalogue import source_text

_PARTS: Final = [str(part) for part in RowUse]


class Words(dict[str, int]):
    """Numbers for words in the order in which they come."""

    def number(self, word: str) -> int:
        """The number of `word`."""
        return self.setdefault(word, len(self))


def accuracy(*, progress: Callable[[float], None] = lambda share: None) -> dict[str, Any]:
    """All runs as short lists, and what they refer to by number."""
    report = validate(progress=lambda share: progress(0.8 * share))
    words = {name: Words() for name in ("source", "model", "device", "framework", "doubt")}
    doubts = {one.outcome.case.row.id: one.reason for one in report.doubtful}
    runs = []
    for number, one in enumerate(report.outcomes):
        if number % 50 == 0:
            progress(0.8 + 0.2 * number / len(report.outcomes))
        runs.append(_line(one, doubts.get(one.case.row.id), words))
    return {
        "columns": ["id", "measured_s", "predicted_s", "low_s", "high_s", "source", "model",
                    "device", "framework", "gpus", "layout", "part", "doubt"],
        "runs": runs,
        "words": {name: list(known) for name, known in words.items()},
        "parts": _PARTS,
        "sources": {key: source_text(key) for key in words["source"]},
        **_totals(report),
    }  # fmt: skip


def _line(one: ValidatedRun, doubt: str | None, words: dict[str, Words]) -> list[Any]:
    row, cluster = one.case.row, one.case.cluster
    return [
        row.id, one.case.measured_s, one.step_s, *one.interval_s,
        words["source"].number(row.source), words["model"].number(row.text("model")),
        words["device"].number(cluster.device.name),
        words["framework"].number(row.text("framework")), cluster.gpus, outcome_words(one),
        _PARTS.index(str(part_of(row))), -1 if doubt is None else words["doubt"].number(doubt),
    ]  # fmt: skip


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
    }
