"""Asking a parsed settings file for values, with complaints that point at the line.

Holds `Keys`. `Wanted`: what a writer of settings is told beside the layout. `Settings` and
`DeferredSettings`: what a settings file states of a run, and what of it waits for the model or the
GPUs. A file may say "4 micro batches a replica": the global batch follows when the number of
replicas is known.
"""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

from syncwall.describe.layout import Layout
from syncwall.describe.settings.known_keys import KNOWN
from syncwall.describe.software import Software
from syncwall.documents import Document
from syncwall.problems import InputError, Problem, did_you_mean, option

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SettingsContext:
    """What must be known to read the rest of a file; None where it is not."""

    gpus: int | None = None
    gpus_per_node: int | None = None
    layers: int | None = None
    """Layers of the model."""


@dataclass(frozen=True, slots=True)
class DeferredSettings:
    """Statements about a layout that have a meaning only on a machine or for a model."""

    replica_batch: int | None = None
    """Sequences of one replica in one optimizer step."""
    accumulated: int | None = None
    """Micro batches of one replica in one optimizer step."""
    copies: int | None = None
    """Copies of the sharded state."""
    shard_in_node: bool = False
    """The state is shared by the GPUs of a node."""
    chunk_layers: int | None = None
    """Layers in one virtual stage."""
    end_layers: int = 0
    """Layers for which embedding and head count together when stages are cut."""
    every_nth: int | None = None
    """Every n-th layer is recomputed."""


@dataclass(frozen=True)
class Settings:
    """A settings file, in the keys of a run; what it leaves open is not there."""

    format: str
    """One of `FORMATS`."""
    file: str
    layout: dict[str, Any]
    """Keys of a layout."""
    run: dict[str, Any]
    """`model`, `nodes`, `gpus_per_node`, `seq`."""
    software: dict[str, Any]
    """`framework`, `fp8_scaling`."""
    left: DeferredSettings = DeferredSettings()
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Line and column that gave "layout.tp" or "nodes"."""
    notes: tuple[Problem, ...] = ()
    """What the file says and a layout cannot: read roughly or not at all."""

    def problem(self, key: str, message: str) -> Problem:
        """A problem with what the file says of `key` ("layout.tp")."""
        return Problem(self.file, *self.places.get(key, (1, 1)), message)

    def bare(self) -> "Settings":
        """The model alone."""
        run = {key: value for key, value in self.run.items() if key == "model"}
        return Settings(self.format, self.file, {}, run, {}, places=self.places)

    def layout_on(self, machine: SettingsContext, beside: Mapping[str, Any] = _NOTHING) -> Layout:
        """The layout of the file on `machine`, with the keys `beside` it over its own."""
        fields = {**self.layout, **beside}
        return Layout.model_validate({**fields, **self.solved(fields, machine, beside)})

    def solved(
        self, layout: Mapping[str, Any], machine: SettingsContext, beside: Collection[str] = ()
    ) -> dict[str, Any]:
        """Keys of a layout that follow from `left` where the other keys are those of `layout`.

        Keys that were stated `beside` the file win: they are not contradicted, nor returned.
        """
        tp, cp, pp = (_whole(layout, name) or 1 for name in ("tp", "cp", "pp"))
        dp = _whole(layout, "dp")
        if dp is None and machine.gpus is not None:
            dp = max(1, machine.gpus // (tp * cp * pp))
        found: dict[str, Any] = {}
        other_batch = "global_batch" in beside or (
            "micro_batch" in beside and "global_batch" in self.layout
        )
        if dp is not None and not other_batch:
            found |= self._batch(layout, dp)
        if dp is not None and self.left.copies and "shard_degree" not in beside:
            found["shard_degree"] = self._degree(dp * cp)
        if self.left.shard_in_node and machine.gpus_per_node is not None:
            found["shard_degree"] = machine.gpus_per_node
        if machine.layers is not None and "virtual_stages" not in beside:
            found |= self._stages(machine.layers, pp)
        return {key: value for key, value in found.items() if key not in beside}

    def _degree(self, ranks: int) -> int:
        degree, odd = divmod(ranks, self.left.copies or 1)
        if odd or not degree:
            message = f"{self.left.copies} copies do not divide the {ranks} ranks of dp x cp"
            raise InputError([self.problem("layout.shard", message)])
        return degree

    def _batch(self, layout: Mapping[str, Any], dp: int) -> dict[str, Any]:
        micro, batch = _whole(layout, "micro_batch"), _whole(layout, "global_batch")
        each, accumulated = self.left.replica_batch, self.left.accumulated
        if each is not None:
            if batch is None:
                return {"global_batch": each * dp}
            if batch != each * dp:
                message = (
                    f"{each} sequences a replica x {dp} replicas are not the batch of {batch}: "
                    "a pipeline that is emptied several times a step is not modelled; "
                    f"write local_batch_size {-(-batch // dp)}"
                )
                raise InputError([self.problem("layout.global_batch", message)])
        if accumulated is None:
            return {}
        if batch is not None and micro is None:
            if batch % (accumulated * dp):
                message = (
                    f"{accumulated} micro batches x {dp} replicas do not divide a batch of {batch}"
                )
                raise InputError([self.problem("layout.global_batch", message)])
            return {"micro_batch": batch // (accumulated * dp)}
        if micro is not None and batch is None:
            return {"global_batch": micro * accumulated * dp}
        if micro is None or batch == micro * accumulated * dp:
            return {}
        message = (
            f"{accumulated} micro batches of {micro} x {dp} replicas are "
            f"{micro * accumulated * dp}, not the batch of {batch}: "
            f"change one of them, or write {option('layout.global_batch')}"
        )
        raise InputError([self.problem("layout.global_batch", message)])

    def _stages(self, layers: int, pp: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.left.chunk_layers:
            stages = -(-(layers + self.left.end_layers) // self.left.chunk_layers)
            if stages % pp:
                message = f"{layers} layers make {stages} virtual stages, not a multiple of pp {pp}"
                raise InputError([self.problem("layout.virtual_stages", message)])
            found["virtual_stages"] = stages // pp
            found["schedule"] = "interleaved" if stages > pp else "1f1b"
            if "recompute_layers" in self.layout:  # said of each virtual stage
                found["recompute_layers"] = self.layout["recompute_layers"] * (stages // pp)
        if self.left.every_nth:
            found["recompute_layers"] = -(-layers // pp) // self.left.every_nth
        return found


def _whole(fields: Mapping[str, Any], key: str) -> int | None:
    """A count as a run file may state it; what is none is for others to complain about."""
    found = fields.get(key)
    usable = isinstance(found, int) and not isinstance(found, bool) and found > 0
    return int(found) if usable and isinstance(found, int) else None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The run around a layout, as far as it is known."""

    seq: int | None = None
    """Tokens in a sequence."""
    nodes: int | None = None
    gpus_per_node: int | None = None
    layers: int | None = None
    """Layers of the model."""
    experts: bool = False
    """The model has experts."""
    software: Software = field(default_factory=Software)
    """What runs it."""


Value = TypeVar("Value")
_LARGEST = 2**40
_MISSPELT: Final = 0.9
"""How alike two keys are if one is taken for a misspelling of the other."""


class Keys:
    """A file that is asked for the values at paths of keys, and what was made of them so far.

    A value that is absent, null or "auto" is open: None. One of the wrong kind is written down as
    a problem and read as open, so that one reading finds all of them.
    """

    def __init__(self, document: Document) -> None:
        self.layout: dict[str, Any] = {}
        self.run: dict[str, Any] = {}
        self.software: dict[str, Any] = {}
        self._document = document
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._places: dict[str, tuple[int, int]] = {}
        self._asked: set[tuple[str, ...]] = set()
        if not isinstance(document.value, dict):
            raise InputError([document.problem((), "settings are written as keys with values")])

    @property
    def file(self) -> str:
        """Where it was read."""
        return self._document.file

    def value(self, *path: str) -> Any:
        """Whatever is at `path`."""
        self._asked.add(path)
        found = self._document.value
        for depth, key in enumerate(path):
            if not isinstance(found, dict):
                self.complain(f'"{path[depth - 1]}" must hold keys with values', *path[:depth])
                return None
            found = found.get(key)
            if found is None:
                return None
        return None if found == "auto" else found

    def whole(self, *path: str, least: int = 1) -> int | None:
        """The whole number at `path`, of at least `least`."""
        found = self.value(*path)
        if isinstance(found, str) and found.lstrip("-").isascii() and found.lstrip("-").isdigit():
            found = int(found) if len(found) < 15 else _LARGEST
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int):
            self.complain(f'"{path[-1]}" must be a whole number, not {shown(found)}', *path)
            return None
        if not least <= found < _LARGEST:
            self.complain(f'"{path[-1]}" is {found}: at least {least} is needed', *path)
            return None
        return found

    def flag(self, *path: str) -> bool | None:
        """The boolean at `path`."""
        found = self.value(*path)
        if isinstance(found, str) and found.lower() in ("true", "false"):
            found = found.lower() == "true"
        if found is None or isinstance(found, bool):
            return found
        self.complain(f'"{path[-1]}" must be true or false, not {shown(found)}', *path)
        return None

    def word(self, options: Mapping[str, Value], *path: str) -> Value | None:
        """What the word at `path` stands for; its case does not matter."""
        found = self.value(*path)
        if found is None:
            return None
        known = {option.lower(): meant for option, meant in options.items()}
        text = str(found).lower()
        if text in known:
            return known[text]
        hint = did_you_mean(text, options) or f"; known: {', '.join(options)}"
        self.complain(f'"{path[-1]}" cannot be {shown(found)}{hint}', *path)
        return None

    def take(self, field: str, value: Any, *path: str) -> None:
        """State `field` of the layout, unless `value` is open; `path` is where it was found."""
        if value is not None:
            self.layout[field] = value
            self._places[f"layout.{field}"] = self._document.place(path)

    def take_run(self, field: str, value: Any, *path: str) -> None:
        """The same for a field of the run."""
        if value is not None:
            self.run[field] = value
            self._places[field] = self._document.place(path)

    def complain(self, message: str, *path: str) -> None:
        """Write down what is wrong at `path`."""
        self._problems.append(self._document.problem(path, message))

    def note(self, message: str, *path: str) -> None:
        """Write down what was read only roughly, or not at all, at `path`."""
        self._notes.append(self._document.problem(path, message))

    def settings(self, name: str, framework: str, left: DeferredSettings) -> Settings:
        """Everything that was read; InputError if anything was wrong."""
        if self._problems:
            raise InputError(self._problems)
        self._note_misspelt(self._document.value, ())
        self._note_unknown(KNOWN.get(name, {}))
        software = {"framework": framework} | self.software
        file = self._document.file
        notes = tuple(sorted(self._notes))
        return Settings(name, file, self.layout, self.run, software, left, self._places, notes)

    def _note_unknown(self, sections: Mapping[str, Collection[str]]) -> None:
        """Keys of sections that are known as a whole; those nearly right were noted before."""
        noted = {(one.line, one.column) for one in self._notes}
        for section, known in sections.items():
            stated = self._document.value.get(section)
            for key in stated if isinstance(stated, Mapping) else ():
                if key not in known and self._document.place((section, key)) not in noted:
                    self.note(f'"{key}" is not a known key of {section}: not read', section, key)

    def _note_misspelt(self, table: Mapping[str, Any], path: tuple[str, ...]) -> None:
        """Keys that nobody asked for and that are nearly one of those that are missing."""
        depth = len(path)
        asked = {one[depth] for one in self._asked if len(one) > depth and one[:depth] == path}
        for key in table:
            near = difflib.get_close_matches(key, asked - set(table), n=1, cutoff=_MISSPELT)
            if key not in asked and near:
                said = f'"{key}" is not a known key and is not read: did you mean "{near[0]}"?'
                self.note(said, *path, key)
            elif key in asked and isinstance(table[key], Mapping):
                self._note_misspelt(table[key], (*path, key))


def shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value)
    return f'"{text[:40]}"' if len(text) <= 40 else f'"{text[:40]}..."'
