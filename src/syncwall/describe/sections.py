"""Sections of a run file that say what a step of the run is part of: `rl` and `islands`.

Holds `Section` (what they describe), `section_with` (one from a run file and from a flag),
`run_and` (a run with its section, described or in files), `is_job`, `stated_sections`,
`without_sections` and `refuse_sections`. Only `predict` answers for a section; whoever does not
refuses it instead of answering for the bare run.
"""

from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from pydantic import ValidationError

from syncwall.describe.base import Description
from syncwall.describe.faults import faults_of
from syncwall.describe.reading import validated
from syncwall.describe.run import Run
from syncwall.documents import Document, KeyPath, parse_document, read_document
from syncwall.problems import InputError, Problem

SECTIONS: Final = ("rl", "islands")
"""Their keys."""


class Section(Description):
    """What such a section describes."""

    section: ClassVar[str]
    """Its key, one of `SECTIONS`."""


Stated = TypeVar("Stated", bound=Section)


def is_job(document: Document) -> bool:
    """True for a job file, in which the run stands under `run`."""
    return isinstance(document.value, dict) and "run" in document.value


def stated_sections(path: Path | None) -> list[str]:
    """Keys of the sections that the run file at `path` has."""
    document = read_document(path) if path else Document()
    return _inside(document)


def without_sections(document: Document) -> Document:
    """The run of a file alone."""
    inside = _inside(document)
    if not inside:
        return document
    value = {key: one for key, one in document.value.items() if key not in inside}
    return Document(document.file, value, document.places)


def refuse_sections(document: Document) -> Document:
    """`document` itself; InputError if it has a section."""
    found = [document.problem((key,), _only_predict(key)) for key in _inside(document)]
    if found:
        raise InputError(found)
    return document


def _only_predict(key: str) -> str:
    return (
        f'"{key}" is read by `syncwall predict` and `sw.predict_{key}` only: keep it in a file of '
        f"its own (`syncwall predict run.yaml --{key} {key}.yaml`)"
    )


def section_with(kind: type[Stated], path: Path | None, flag: str | None = None) -> Stated:
    """The section of the run file at `path`, with the keys of `flag` over it.

    `flag` names a file whose keys are those of the section, or is such keys: "{every: 100}".
    Problems name the file and line, or the flag.
    """
    key = kind.section
    document = read_document(path) if path else Document()
    if is_job(document):
        said = f"a job is not predicted with `{key}`: name a run file"
        raise InputError([document.problem(("run",), said)])
    below = _mapping(document.inside(key)) if key in _inside(document) else Document()
    above = _mapping(_flag(key, flag)) if flag is not None else Document()
    context = {"in_file": True, "directory": Path(above.file or below.file).parent}
    try:
        return kind.model_validate({**below.value, **above.value}, context=context)
    except ValidationError as error:
        raise InputError(
            [_problem(at, message, above, below) for at, message in faults_of(error, kind)]
        ) from None


def run_and(
    kind: type[Stated], run: Run | str | Path, stated: Stated | str | Path | None
) -> tuple[Run, Stated]:
    """A run and its section, each described or in a file; None: in the file of the run."""
    whole = None if isinstance(run, Run) else Path(run)
    if whole is None and stated is None:
        raise TypeError(f"give the {kind.__name__} beside the run, or the name of its file")
    if isinstance(stated, kind):
        section = stated
    else:
        section = section_with(kind, whole, None if stated is None else str(stated))
    if isinstance(run, Run):
        return run, section
    return validated(without_sections(read_document(Path(run))), Run), section


def _inside(document: Document) -> list[str]:
    """Keys of the sections of a run file; a job file has none."""
    value = document.value
    if not isinstance(value, dict) or is_job(document):
        return []
    return [key for key in SECTIONS if key in value]


def _flag(key: str, text: str) -> Document:
    """What the flag says, or the file that it names."""
    return parse_document(text, f"--{key}") if text.startswith("{") else read_document(Path(text))


def _mapping(document: Document) -> Document:
    if not isinstance(document.value, dict):
        raise InputError([document.problem((), "is written as `key: value` lines")])
    return document


def _problem(path: KeyPath, message: str, above: Document, below: Document) -> Problem:
    """What is wrong with a value, where it stands; what is missing, where it may be written."""
    stands = (*(one for one in (above, below) if _has(one.value, path)), above, below)
    where = next(one for one in stands if one.file)
    return where.problem(path, message)


def _has(value: Any, path: KeyPath) -> bool:
    return bool(path) and isinstance(value, dict) and path[0] in value
