"""The Predict page in other forms.

Holds `ExportKind` and `exported`, from what was asked to the text of a file.
"""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import yaml

from syncwall.answer.improvements import improvements
from syncwall.answer.timeline import trace
from syncwall.show.prediction import prediction_record
from syncwall.web.answers.known import prediction_of
from syncwall.web.asked import AskedRun


def run_file(asked: AskedRun) -> str:
    """What was asked, as a run file."""
    asked.run()
    text: str = yaml.safe_dump(asked.fields(), sort_keys=False, allow_unicode=True)
    return text


def as_json(asked: AskedRun) -> str:
    """What `syncwall predict --json` prints."""
    prediction = prediction_of(asked)
    record = prediction_record(prediction, improvements(prediction))
    return json.dumps(record, indent=2, ensure_ascii=False)


def as_trace(asked: AskedRun) -> str:
    """One micro batch for Perfetto."""
    return json.dumps(trace(prediction_of(asked)))


def as_page(asked: AskedRun) -> str:
    """What `syncwall report run.yaml --html` writes."""
    from syncwall.show.report.answered import answered
    from syncwall.show.report.article import article
    from syncwall.show.report.page import page
    from syncwall.show.report.stated import Stated

    return page(article([answered(Stated("run.yaml", run_file(asked), asked.run()))]))


class ExportKind(StrEnum):
    """Kinds of files."""

    YAML = "yaml"
    JSON = "json"
    PERFETTO = "perfetto"
    HTML = "html"


_MADE: Final[dict[ExportKind, Callable[[AskedRun], str]]] = {
    ExportKind.YAML: run_file,
    ExportKind.JSON: as_json,
    ExportKind.PERFETTO: as_trace,
    ExportKind.HTML: as_page,
}


def exported(kind: ExportKind, asked: AskedRun) -> str:
    """The text of a file of this kind."""
    return _MADE[kind](asked)
