"""What somebody stated of a run, whatever they stated it with.

Holds `StatedRun`: a run file, settings of a framework, and keys of flags, Python or a page.
`stated_keys` reads the texts of flags as a file would be read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from syncwall.catalogue import CatalogueKind
from syncwall.describe.choice import text_of
from syncwall.describe.faults import faults_of
from syncwall.describe.files import RunFile
from syncwall.describe.names import load
from syncwall.describe.run import ClusterRef, ModelRef, Run
from syncwall.describe.software import Framework
from syncwall.documents import KeyPath, parse_document
from syncwall.problems import InputError, Problem, option

if TYPE_CHECKING:
    from syncwall.describe.settings import Settings, SettingsContext

_PARTS: Final = ("layout", "software")
_EITHER: Final = {"gpus": "nodes", "nodes": "gpus"}
_BATCH: Final = ("micro_batch", "global_batch")
_RENAMED: Final = {"async_tp", "recompute"}
"""Keys of a layout that some framework means something else by (`Framework.meanings`)."""


def stated_keys(texts: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """The texts of flags by key ("layout.tp": "8"), each read as the same text in a file would be.

    `prefix` is what stands before the keys in messages.
    """
    found: dict[str, Any] = {}
    for key, text in texts.items():
        try:
            found[key] = parse_document(text, "").value if text else text
        except InputError as error:
            raise InputError(Problem("", 0, 0, one.message, prefix + key) for one in error.problems) from None
    return found


@dataclass(frozen=True)
class StatedRun:
    """What is stated of a run, and where; the rest is open.

    Settings of a framework go over a run file, and keys of flags, Python or a page over both.
    """

    keys: Mapping[str, Any] = field(default_factory=dict)
    """By name, those of layout and software with a dot: "layout.tp"."""
    settings: "Settings | None" = None
    file: RunFile = field(default_factory=RunFile)
    reads_sections: bool = False
    """The asker reads the sections of the file (`rl`, `islands`); else they are refused."""

    @classmethod
    def of_keys(cls, keys: Mapping[str, Any]) -> "StatedRun":
        """Keys of a run as a run file nests them, or with dots."""
        flat: dict[str, Any] = {}
        for key, value in keys.items():
            if key in _PARTS and isinstance(value, Mapping):
                flat |= {f"{key}.{inner}": one for inner, one in value.items()}
            else:
                flat[key] = value
        return cls(flat)

    @classmethod
    def of_file(cls, path: Path | RunFile) -> "StatedRun":
        """The run of a run file or of a job file."""
        return cls(file=path if isinstance(path, RunFile) else RunFile(path))

    def with_keys(self, keys: Mapping[str, Any]) -> "StatedRun":
        """The run with these keys; of `gpus` and `nodes` one takes the place of the other."""
        kept = {key: value for key, value in self.keys.items() if _EITHER.get(key) not in keys}
        return replace(self, keys={**kept, **keys})

    def without_layout(self) -> "StatedRun":
        """Model, machine and sequence, without a layout that the machine might be too small for."""
        keys = {key: value for key, value in self.keys.items() if not key.startswith("layout.")}
        settings = self.settings.bare() if self.settings else None
        return replace(self, keys={**keys, "layout": {}}, settings=settings)

    @cached_property
    def values(self) -> dict[str, Any]:
        """All that is stated, as a run file writes it: {"model": ..., "layout": {"tp": 8}}.

        Words of the framework that is named have the meaning that they have there.
        """
        found = dict(self._literal)
        for key, other, value in _meant(found):
            layout = {name: one for name, one in found["layout"].items() if name != key}
            found["layout"] = {**layout, other: value}
        return found

    @property
    def notes(self) -> list[str]:
        """A sentence for each key that means something else in the framework that is named."""
        stated = self._literal
        return [
            f"{key} {text_of(stated['layout'][key])} is read as {stated['software']['framework']} means it: "
            f"{other} {text_of(value)}"
            for key, other, value in _meant(stated)
        ]

    @cached_property
    def _literal(self) -> dict[str, Any]:
        """What is stated, in the words in which it is."""
        document = self.file.run(sections=self.reads_sections, site=True)
        if not isinstance(document.value, dict):
            raise InputError([document.problem((), "a run is written as `key: value` lines")])
        found = dict(document.value)
        if self.settings is not None:
            found |= self.settings.run
            if isinstance(found.get("layout", {}), dict):
                found["layout"] = {**_mapping(found.get("layout")), **self.settings.layout}
            if isinstance(found.get("software", {}), dict):  # a framework only if none is named
                found["software"] = {**self.settings.software, **_mapping(found.get("software"))}
        for key, other in _EITHER.items():
            if key in self.keys and other not in self.keys:
                found.pop(other, None)
        for name, value in self.keys.items():
            key, _, inner = name.partition(".")
            found[key] = {**_mapping(found.get(key)), inner: value} if inner else value
        return found

    def __contains__(self, key: str) -> bool:
        """True if `key` ("layout.tp") is stated."""
        return self.get(key) is not None

    def get(self, key: str) -> Any:
        """The value of `key`; None if it is open."""
        part, _, inner = key.partition(".")
        value = self.values.get(part)
        return _mapping(value).get(inner) if inner else value

    @property
    def layout(self) -> dict[str, Any]:
        """Keys of the layout that are stated."""
        return _mapping(self.values.get("layout"))

    @property
    def has_batch(self) -> bool:
        """True if the global batch is stated, or follows from settings."""
        left = self.settings.left if self.settings else None
        piped = left is not None and (left.pipeline_micro_batch is None or self.layout.get("pp", 1) != 1)
        follows = left is not None and ((left.replica_batch and piped) or left.accumulated)
        return bool(follows) or "layout.global_batch" in self

    @property
    def has_gpus(self) -> bool:
        """True if the number of nodes or of GPUs is stated."""
        return "nodes" in self or "gpus" in self

    def run(self) -> Run:
        """The run that is meant; each problem names the place of what is wrong."""
        if not self.file.exists and not {"model", "cluster"} <= self.values.keys():
            names = " and ".join(f"{option(key)} NAME" for key in ("model", "cluster"))
            raise InputError.of(f"write {names}, or a run file")
        context = self._context
        try:
            return Run.model_validate(self.fields(), context=context)
        except ValidationError as error:
            found = [self._problem(at, said) for at, said in faults_of(error, Run)]
            raise InputError(found) from None

    def fields(self) -> dict[str, Any]:
        """All that is stated, with what settings state only for this model on this machine."""
        settings = self.settings
        if settings is None or not settings.is_deferred:
            return self.values
        try:
            machine = self._machine()
        except (ValidationError, InputError):  # the run says what is wrong with it
            return self.values
        beside = {key.removeprefix("layout.") for key in self.keys}
        counted = {  # the batch of a run file is not that of the settings
            key: value
            for key, value in self.layout.items()
            if key not in _BATCH or key in settings.layout or key in beside
        }
        solved = settings.solved(counted, machine, beside)
        return {**self.values, "layout": {**self.layout, **solved}}

    @property
    def _context(self) -> dict[str, Any]:
        return {"in_file": True, "directory": self.file.directory}

    def _machine(self) -> "SettingsContext":
        from syncwall.describe.settings import SettingsContext

        stated, context = self.values, self._context
        cluster = TypeAdapter(ClusterRef).validate_python(stated.get("cluster"), context=context)
        used = cluster.using(stated.get("nodes"), stated.get("gpus_per_node"))
        gpus = stated.get("gpus")
        if stated.get("nodes") is None and isinstance(gpus, int) and gpus > 0:
            used = used.with_gpus(gpus)
        model = TypeAdapter(ModelRef).validate_python(stated.get("model"), context=context)
        return SettingsContext(used.gpus, used.gpus_per_node, model.layers)

    def _problem(self, path: KeyPath, message: str) -> Problem:
        """What is wrong with a value, at the key or the line that gave it."""
        for key in (".".join(map(str, path[:2])), str(path[0]) if path else ""):
            if key in self.keys:
                return Problem("", 0, 0, message, key)
            if self.settings is not None and key in self.settings.places:
                return self.settings.problem(key, message)
        if self.file.exists:
            return self.file.run(sections=self.reads_sections, site=True).problem(path, message)
        return Problem("", 0, 0, message, ".".join(map(str, path)))


def _meant(stated: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Keys of the layout that the framework calls otherwise, with our key and its value."""
    layout, name = _mapping(stated.get("layout")), _mapping(stated.get("software")).get("framework")
    if not _RENAMED & layout.keys() or not isinstance(name, str):
        return
    try:
        meanings = load(CatalogueKind.FRAMEWORK, Framework, name).meanings
    except InputError:  # the run says what is wrong with it
        return
    for key in layout.keys() & meanings.keys():
        other = meanings[key]
        if isinstance(other, str) and layout[key] and other not in layout:
            yield key, other, layout[key]
        elif isinstance(other, dict) and isinstance(layout[key], str) and layout[key] in other:
            yield key, key, other[layout[key]]


def _mapping(value: Any) -> dict[str, Any]:
    """`value`, or nothing if it is not a mapping."""
    return value if isinstance(value, dict) else {}
