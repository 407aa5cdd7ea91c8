"""A run from a file, from flags, or from a file with flags over it.

Holds `run_with`.
"""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from syncwall.describe.reading import faults_of
from syncwall.describe.run import Run
from syncwall.documents import Document, KeyPath, parse_document, read_document
from syncwall.problems import InputError, Problem


def run_with(path: Path | None, flags: dict[str, str]) -> Run:
    """The run in `path` with `flags` ("layout.tp": "8") in place of what it says.

    A flag's text is read as the same text would be in a file; problems name the flag.
    """
    document = read_document(path) if path else Document("", {}, {})
    if not isinstance(document.value, dict):
        raise InputError([document.problem((), "a run is written as `key: value` lines")])
    fields = _merged(document.value, flags)
    directory = path.parent if path else Path()
    try:
        return Run.model_validate(fields, context={"in_file": True, "directory": directory})
    except ValidationError as error:
        faults = faults_of(error, Run)
        raise InputError([_problem(path, said, flags, document) for path, said in faults]) from None


def _merged(value: dict[str, Any], flags: dict[str, str]) -> dict[str, Any]:
    fields = dict(value)
    for name, text in flags.items():
        key, _, inner = name.partition(".")
        read = parse_document(text, f"--{name}").value if text else text
        if inner:
            before = fields.get(key)
            fields[key] = {**(before if isinstance(before, dict) else {}), inner: read}
        else:
            fields[key] = read
    return fields


def _problem(path: KeyPath, message: str, flags: dict[str, str], document: Document) -> Problem:
    """What is wrong with a value, said of the flag or of the line that gave it."""
    for flag in (".".join(map(str, path[:2])), str(path[0]) if path else ""):
        if flag in flags:
            return Problem(f"--{flag}", 0, 0, message)
    return document.problem(path, message) if document.file else Problem("", 0, 0, message)
