"""Files that a report is made of: results, and runs and jobs that are still to be computed.

Holds `ReportRequest` (a run or a job with the text of its file), `read_stated` and `read_any`,
which tells them from results by what they hold.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syncwall.describe import Job, Run
from syncwall.describe.files import RunFile
from syncwall.describe.stated import StatedRun
from syncwall.documents import read_document, read_text
from syncwall.problems import InputError
from syncwall.report.results import Source, read_source


@dataclass(frozen=True)
class ReportRequest:
    """A run or a job to report on."""

    file: str
    text: str
    run: Run
    job: Job | None = None


def read_any(path: Path) -> Source | ReportRequest:
    """The result, the run or the job in the file at `path`; InputError says what is wrong."""
    value = read_document(path).value
    if _is_answer(value):
        raise InputError.of(
            "is what `predict --json` printed: write the run file or the job file instead, the "
            "report computes it again",
            file=str(path),
        )
    return read_stated(path) if _is_stated(value) else read_source(path)


def read_stated(path: Path) -> ReportRequest:
    """The run or the job in the file at `path`."""
    file = RunFile(path)
    run = StatedRun.of_file(file).run()
    return ReportRequest(str(path), read_text(path), run, file.job(run))


def _is_stated(value: Any) -> bool:
    """True for a run file and a job file; a result has a kind and data."""
    if not isinstance(value, dict) or {"kind", "data"} & set(value):
        return False
    return "run" in value or bool({"model", "cluster"} & set(value))


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and {"verdict", "ledger_s", "run"} <= set(value)
