"""Job files, and jobs given by flags.

Holds `run_part` (the run inside a job file), `job_with` (a job of a run, from a file and flags),
`merged` and `mapping`, with which flags are laid over a file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from syncwall.describe.faults import faults_of
from syncwall.describe.job import Job
from syncwall.describe.run import Run
from syncwall.describe.sections import is_job, refuse_sections
from syncwall.documents import Document, KeyPath, parse_document, read_document
from syncwall.problems import InputError, Problem

_TOP = ("tokens", "steps")
"""Keys of a job that have flags of their own."""


def run_part(document: Document) -> Document:
    """What `document` says of the run: all of it, or in a job file what is under `run`.

    InputError for a section such as `rl`, which makes it another question than that of the run.
    """
    return refuse_sections(document.inside("run") if is_job(document) else document)


def job_with(run: Run, path: Path | None, flags: dict[str, str]) -> Job | None:
    """The job of `run` in the file `path` with `flags` ("failures.repair": "1 days") over it.

    None if neither says a word about a job.
    """
    document = read_document(path) if path else Document()
    stated = document.value if is_job(document) else {}
    if not stated and not flags:
        return None
    fields = merged(stated, flags, _TOP, _flag) | {"run": run}
    if not {"tokens", "steps", "phases"} & set(fields):
        raise InputError.of("how long is the job? write --tokens 15T, or --steps 100000")
    context = {"in_file": True, "directory": path.parent if path else Path()}
    try:
        return Job.model_validate(fields, context=context)
    except ValidationError as error:
        raise InputError(
            [_problem(at, message, flags, document) for at, message in faults_of(error, Job)]
        ) from None


def merged(
    value: dict[str, Any], flags: dict[str, str], either: tuple[str, str],
    flag: Callable[[str], str] = "--{}".format,
) -> dict[str, Any]:  # fmt: skip
    """`value` with `flags` over it; of `either` key, a flag takes the place of the other one.

    A flag's text is read as in a file; `flag` is what it is called.
    """
    fields = dict(value)
    for given, other in (either, either[::-1]):
        if given in flags:
            fields.pop(other, None)
    for name, text in flags.items():
        key, _, inner = name.partition(".")
        read = parse_document(text, flag(name)).value if text else text
        fields[key] = {**mapping(fields.get(key)), inner: read} if inner else read
    return fields


def mapping(value: Any) -> dict[str, Any]:
    """`value`, or nothing if it is not a mapping."""
    return value if isinstance(value, dict) else {}


def _flag(name: str) -> str:
    return f"--{name}" if name in _TOP else f"--job.{name}"


def _problem(path: KeyPath, message: str, flags: dict[str, str], document: Document) -> Problem:
    """What is wrong with a value, at the flag or the line that gave it."""
    for key in (".".join(map(str, path[:2])), str(path[0]) if path else ""):
        if key in flags:
            return Problem(_flag(key), 0, 0, message)
    if document.file:
        return document.problem(path, message)
    return Problem(_flag(".".join(map(str, path))) if path else "", 0, 0, message)
