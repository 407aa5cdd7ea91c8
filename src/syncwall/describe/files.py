"""Run files and job files, read once: the run, the job, and sections that ask another question.

Holds `RunFile`, `Section` (`rl` and `islands`, which say what a step of the run is part of),
`run_and` (a run with its section, described or in files), and `run_text`, a run as a run file.
Only `predict` answers for a section; whoever does not refuses it instead of answering for the bare
run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import yaml
from pydantic import ValidationError

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import CatalogueEntry, Description
from syncwall.describe.faults import faults_of
from syncwall.describe.job import Job
from syncwall.describe.names import load
from syncwall.describe.reading import validated
from syncwall.describe.run import Run
from syncwall.documents import Document, KeyPath, parse_document, read_document
from syncwall.problems import InputError, Problem, option

SECTIONS: Final = ("rl", "islands")
"""Keys of sections."""
SITE: Final = "site"
"""Key of the site file: what `syncwall measure node` wrote about the machine of the run."""
_SETTINGS: Final = (".toml", ".sh")
"""Of files that hold settings of a framework, never a run."""
_LENGTH: Final = ("tokens", "steps")
"""Keys of a job that have flags of their own; of which one takes the place of the other."""


class Section(Description):
    """What a section describes."""

    section: ClassVar[str]
    """Its key, one of `SECTIONS`."""


Stated = TypeVar("Stated", bound=Section)


@dataclass(frozen=True)
class RunFile:
    """A run file, or a job file, in which the run stands under `run`; or none at all."""

    path: Path | None = None
    text: Document | None = None
    """What it holds, where that was read already."""

    @cached_property
    def document(self) -> Document:
        """What it holds; read when first asked for."""
        if self.text is not None:
            return self.text
        if self.path is not None and self.path.suffix in _SETTINGS:
            said = f"is no run file: settings of a framework are given with {option('from')} {self.path.name}"
            raise InputError.of(said, file=str(self.path))
        return read_document(self.path) if self.path is not None else Document()

    @property
    def exists(self) -> bool:
        """True if there is a file."""
        return self.path is not None or bool(self.document.file)

    @property
    def directory(self) -> Path:
        """Where paths inside the file start."""
        return self.path.parent if self.path is not None else Path(self.document.file).parent

    @property
    def is_job(self) -> bool:
        """True for a job file."""
        return isinstance(self.document.value, dict) and "run" in self.document.value

    @property
    def sections(self) -> list[str]:
        """Keys of the sections of a run file; a job file has none."""
        value = self.document.value
        if not isinstance(value, dict) or self.is_job:
            return []
        return [key for key in SECTIONS if key in value]

    @property
    def keys(self) -> set[str]:
        """Keys of the run."""
        value = self.document.inside("run").value if self.is_job else self.document.value
        return set(value) if isinstance(value, dict) else set()

    @property
    def site(self) -> Path | None:
        """The site file that the run names."""
        value = self.document.inside("run").value if self.is_job else self.document.value
        named = value.get(SITE) if isinstance(value, dict) else None
        return None if named is None else self.directory / str(named)

    def run(self, *, sections: bool = False, site: bool = False) -> Document:
        """What the file says of the run.

        InputError for a section, which makes it another question, unless the caller reads
        `sections`; and for a `site`, unless the caller reads that.
        """
        if self.is_job:
            return RunFile(text=self.document.inside("run")).run(site=site)
        inside = self.sections
        if inside and not sections:
            raise InputError(self.document.problem((key,), _only_predict(key)) for key in inside)
        if SITE in self.keys:
            if not site:
                raise InputError([self.document.problem((SITE,), _SITE_BESIDE)])
            inside = [*inside, SITE]
        if not inside:
            return self.document
        value = {key: one for key, one in self.document.value.items() if key not in inside}
        return Document(self.document.file, value, self.document.places)

    def job(self, run: Run, keys: Mapping[str, Any] | None = None) -> Job | None:
        """The job of `run`: that of the file, with `keys` ("failures.repair": "1 days") over it.

        None if neither says a word about a job.
        """
        keys = _dotted(keys or {})
        fields = dict(self.document.value) if self.is_job else {}
        if not fields and not keys:
            return None
        for given, other in (_LENGTH, _LENGTH[::-1]):
            if given in keys:
                fields.pop(other, None)
        for name, value in keys.items():
            key, _, inner = name.partition(".")
            before = fields.get(key)
            kept = before if isinstance(before, dict) else {}
            fields[key] = {**kept, inner: value} if inner else value
        fields["run"] = run
        if not {*_LENGTH, "phases"} & set(fields):
            written = f"write {option('tokens')} 15T, or {option('steps')} 100000"
            raise InputError.of(f"how long is the job? {written}")
        context = {"in_file": True, "directory": self.directory}
        try:
            return Job.model_validate(fields, context=context)
        except ValidationError as error:
            found = [self._job_problem(at, said, keys) for at, said in faults_of(error, Job)]
            raise InputError(found) from None

    def _job_problem(self, path: KeyPath, message: str, keys: Mapping[str, Any]) -> Problem:
        """What is wrong with a value of a job, at the key or the line that gave it."""
        for key in (".".join(map(str, path[:2])), str(path[0]) if path else ""):
            if key in keys:
                return Problem("", 0, 0, message, job_key(key))
        if self.exists:
            return self.document.problem(path, message)
        return Problem("", 0, 0, message, job_key(".".join(map(str, path))) if path else "")

    def section(self, kind: type[Stated], stated: str | None = None) -> Stated:
        """The section of the file, with what is `stated` over it.

        `stated` names a file whose keys are those of the section, or is such keys:
        "{every: 100}".
        """
        key = kind.section
        if self.is_job:
            said = f"a job is not predicted with `{key}`: name a run file"
            raise InputError([self.document.problem(("run",), said)])
        below = _mapping(self.document.inside(key)) if key in self.sections else Document()
        above = _mapping(_stated(key, stated)) if stated is not None else Document()
        context = {"in_file": True, "directory": Path(above.file or below.file).parent}
        try:
            return kind.model_validate({**below.value, **above.value}, context=context)
        except ValidationError as error:
            raise InputError(
                _section_problem(at, message, above, below) for at, message in faults_of(error, kind)
            ) from None


def _dotted(keys: Mapping[str, Any]) -> dict[str, Any]:
    """`keys` with those of parts after a dot: "failures.repair"."""
    flat: dict[str, Any] = {}
    for key, value in keys.items():
        inside = value.items() if isinstance(value, Mapping) else ()
        flat |= {f"{key}.{inner}": one for inner, one in inside} or {key: value}
    return flat


def job_key(key: str) -> str:
    """A key of a job as it stands beside those of a run: "job.spares", but "tokens"."""
    return key if key in _LENGTH else f"job.{key}"


def run_and(
    kind: type[Stated], run: Run | str | Path, stated: Stated | str | Path | None
) -> tuple[Run, Stated]:
    """A run and its section, each described or in a file; None: in the file of the run."""
    file = RunFile(None if isinstance(run, Run) else Path(run))
    if not file.exists and stated is None:
        raise TypeError(f"give the {kind.__name__} beside the run, or the name of its file")
    if isinstance(stated, kind):
        section = stated
    else:
        section = file.section(kind, None if stated is None else str(stated))
    return run if isinstance(run, Run) else validated(file.run(sections=True), Run), section


_SITE_BESIDE: Final = (
    '"site" is read by `predict`, `plan` and `compare`; elsewhere give it beside the run: '
    'sw.predict(run, site=sw.site_of(["site.yaml"]))'
)


def _only_predict(key: str) -> str:
    return (
        f'"{key}" is read by `syncwall predict` and `sw.predict_{key}` only: keep it in a file of '
        f"its own (`syncwall predict run.yaml --{key} {key}.yaml`)"
    )


def _stated(key: str, text: str) -> Document:
    """What is stated for a section, or the file that it names."""
    return parse_document(text, f"--{key}") if text.startswith("{") else read_document(Path(text))


def _mapping(document: Document) -> Document:
    if not isinstance(document.value, dict):
        raise InputError([document.problem((), "is written as `key: value` lines")])
    return document


def _section_problem(path: KeyPath, message: str, above: Document, below: Document) -> Problem:
    """What is wrong with a value, where it stands; what is missing, where it may be written."""
    has = [one for one in (above, below) if path and path[0] in one.value]
    return next(one for one in (*has, above, below) if one.file).problem(path, message)


def run_text(run: Run) -> str:
    """`run` as a run file (YAML), which gives the same run when it is read; without open keys."""
    return yaml.safe_dump(run_keys(run), sort_keys=False, allow_unicode=True)


def run_keys(run: Run, *, brief: bool = False) -> dict[str, Any]:
    """The keys of `run` in a run file; if `brief`, those of its layout that say something."""
    machine = run.cluster
    part = {"nodes": machine.nodes, "gpus_per_node": machine.gpus_per_node}
    fields: dict[str, Any] = {
        "model": _entry(CatalogueKind.MODEL, run.model, {}),
        "cluster": _entry(CatalogueKind.CLUSTER, machine, part),
        "nodes": int(run.nodes),
        "gpus_per_node": int(run.gpus_per_node),
        "seq": int(run.seq),
        "layout": _plain(run.layout, brief=brief),
        "software": _plain(run.software, brief=brief),
    }
    if run.measured is not None:
        fields["measured"] = _plain(run.measured)
    return fields


def _entry(kind: CatalogueKind, entry: CatalogueEntry, stated_beside: dict[str, Any]) -> Any:
    """Its name where the catalogue has the same but for what is `stated_beside`; else all of it."""
    if entry.name in catalogue.names(kind):
        known = load(kind, type(entry), entry.name)
        if known.model_copy(update=stated_beside) == entry:
            return entry.name
    return _plain(entry)


def _plain(description: Description, *, brief: bool = False) -> dict[str, Any]:
    """Every field that has a value, numbers in SI units under names that say so."""
    plain: dict[str, Any] = description.model_dump(mode="json", exclude_none=True, exclude_defaults=brief)
    return plain
