"""Settings as two-way tables: what a key of a file means for a layout, read and written.

Holds `Table`, made of `Row` (a field of the layout and its key, of some `Kind`) and `Rule` (keys
that mean something only together). `Keys` asks a parsed file for values, with complaints that point
at the line; `WriterContext` is what a writer is told beside the layout.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

from syncwall.describe.layout import Layout, Shard
from syncwall.describe.settings.settings import DeferredSettings, Settings
from syncwall.describe.software import Software
from syncwall.documents import Document
from syncwall.problems import InputError, Problem, did_you_mean

Value = TypeVar("Value")
_LARGEST: Final = 2**40
_MISSPELT: Final = 0.9
"""How alike two keys are if one is taken for a misspelling of the other."""


class Keys:
    """A file that is asked for the values at dotted paths, and what was made of them so far.

    A value that is absent, null or "auto" is open: None. One of the wrong kind is written down as
    a problem and read as open, so that one reading finds all of them.
    """

    def __init__(self, document: Document) -> None:
        self.layout: dict[str, Any] = {}
        self.run: dict[str, Any] = {}
        self.software: dict[str, Any] = {}
        self.deferred: dict[str, Any] = {}
        """Fields of `DeferredSettings`."""
        self.file = document.file
        self._document = document
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._places: dict[str, tuple[int, int]] = {}
        self._asked: set[tuple[str, ...]] = set()
        if not isinstance(document.value, dict):
            raise InputError([document.problem((), "settings are written as keys with values")])

    def degree(self, axis: str) -> int:
        """Ranks along `axis` as far as they are read: 1 where nothing is said."""
        return int(self.layout.get(axis, 1))

    def value(self, key: str) -> Any:
        """Whatever is at `key`, such as "training.seq_len"."""
        path = tuple(key.split("."))
        self._asked.add(path)
        found = self._document.value
        for depth, part in enumerate(path):
            if not isinstance(found, dict):
                outer = ".".join(path[:depth])
                self.complain(f'"{path[depth - 1]}" must hold keys with values', outer)
                return None
            found = found.get(part)
            if found is None:
                return None
        return None if found == "auto" else found

    def whole(self, key: str, least: int = 1) -> int | None:
        """The whole number at `key`, of at least `least`."""
        found = self.value(key)
        if isinstance(found, str) and found.lstrip("-").isascii() and found.lstrip("-").isdigit():
            found = int(found) if len(found) < 15 else _LARGEST
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int):
            self._wrong(key, f"must be a whole number, not {_shown(found)}")
        elif not least <= found < _LARGEST:
            self._wrong(key, f"is {found}: at least {least} is needed")
        else:
            return found
        return None

    def flag(self, key: str) -> bool | None:
        """The boolean at `key`."""
        found = self.value(key)
        if isinstance(found, str) and found.lower() in ("true", "false"):
            found = found.lower() == "true"
        if found is None or isinstance(found, bool):
            return found
        self._wrong(key, f"must be true or false, not {_shown(found)}")
        return None

    def word(self, options: Mapping[str, Value], key: str) -> Value | None:
        """What the word at `key` stands for; its case does not matter."""
        found = self.value(key)
        if found is None:
            return None
        known = {option.lower(): meant for option, meant in options.items()}
        text = str(found).lower()
        if text in known:
            return known[text]
        hint = did_you_mean(text, options) or f"; known: {', '.join(options)}"
        self._wrong(key, f"cannot be {_shown(found)}{hint}")
        return None

    def _wrong(self, key: str, said: str) -> None:
        self.complain(f'"{key.rpartition(".")[2]}" {said}', key)

    def take(self, field: str, value: Any, key: str) -> None:
        """State `field` of the layout, or "run.seq", unless `value` is open; `key` said it."""
        if value is None:
            return
        outside, _, name = field.rpartition(".")
        stated: dict[str, Any] = getattr(self, outside or "layout")
        stated[name] = value
        place = self._document.place(tuple(key.split(".")))
        self._places[name if outside else f"layout.{name}"] = place

    def complain(self, message: str, key: str) -> None:
        """Write down what is wrong at `key`."""
        self._problems.append(self._document.problem(tuple(key.split(".")), message))

    def note(self, message: str, key: str) -> None:
        """Write down what was read only roughly, or not at all, at `key`."""
        self._notes.append(self._document.problem(tuple(key.split(".")), message))

    def settings(
        self, name: str, framework: str, known: Mapping[str, str] = MappingProxyType({})
    ) -> Settings:
        """Everything that was read; InputError if anything was wrong.

        `known` are all keys of a section, with blanks between them; others in it are noted.
        """
        if self._problems:
            raise InputError(self._problems)
        self._note_misspelt(self._document.value, ())
        self._note_unknown(known)
        return Settings(
            name,
            self.file,
            self.layout,
            self.run,
            {"framework": framework} | self.software,
            DeferredSettings(**self.deferred),
            self._places,
            tuple(sorted(self._notes)),
        )

    def _note_unknown(self, sections: Mapping[str, str]) -> None:
        """Those nearly right were noted before."""
        noted = {(one.line, one.column) for one in self._notes}
        for section, known in sections.items():
            stated = self._document.value.get(section)
            for key in stated if isinstance(stated, Mapping) else ():
                if key not in known.split() and self._document.place((section, key)) not in noted:
                    said = f'"{key}" is not a known key of {section}: not read'
                    self._notes.append(self._document.problem((section, key), said))

    def _note_misspelt(self, table: Mapping[str, Any], path: tuple[str, ...]) -> None:
        """Keys that nobody asked for and that are nearly one of those that are missing."""
        depth = len(path)
        asked = {one[depth] for one in self._asked if len(one) > depth and one[:depth] == path}
        for key in table:
            near = difflib.get_close_matches(key, asked - set(table), n=1, cutoff=_MISSPELT)
            if key not in asked and near:
                said = f'"{key}" is not a known key and is not read: did you mean "{near[0]}"?'
                self._notes.append(self._document.problem((*path, key), said))
            elif key in asked and isinstance(table[key], Mapping):
                self._note_misspelt(table[key], (*path, key))


def _shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value)
    return f'"{text[:40]}"' if len(text) <= 40 else f'"{text[:40]}..."'


@dataclass(frozen=True, slots=True)
class WriterContext:
    """The run around a layout, as far as it is known."""

    seq: int | None = None
    """Tokens in a sequence."""
    nodes: int | None = None
    gpus_per_node: int | None = None
    layers: int | None = None
    """Layers of the model."""
    experts: bool = False
    """The model has experts."""
    further_tokens: int = 0
    """Tokens that the model predicts beside the next one (MTP)."""
    software: Software = field(default_factory=Software)
    """What runs it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How the value of a key is spelt: as a whole number from 1 on, unless something else is said.

    `read` gives what `Keys` have at a key, `write` what stands there for a value; None is nothing.
    """

    read: Callable[[Any, str], Any] = Keys.whole
    write: Callable[[Any], Any] = int

    @classmethod
    def whole(cls, least: int) -> "Kind":
        """A number for which 0 or -1, if they are allowed, say nothing."""

        def read(keys: Keys, key: str) -> int | None:
            found = keys.whole(key, least)
            return found if found is not None and found > 0 else None

        return cls(read)

    @classmethod
    def flag(cls, on: Any = True, off: Any = False) -> "Kind":
        """True or false, and what they stand for; None for nothing."""
        return cls(
            lambda keys, key: {True: on, False: off}.get(keys.flag(key)),
            lambda value: None if value not in (on, off) else bool(value == on),
        )

    @classmethod
    def words(cls, options: Mapping[str, Any]) -> "Kind":
        """Words and what they stand for; of several for the same, the first one is written."""
        spelt = {meant: word for word, meant in reversed(list(options.items()))}
        return cls(lambda keys, key: keys.word(options, key), spelt.get)

    @classmethod
    def implied(cls, meant: Any) -> "Kind":
        """What the framework does anyway: `meant`; nothing has to be written."""
        return cls(lambda keys, key: meant, lambda value: None)

    @property
    def unwritten(self) -> "Kind":
        """The same, but only read."""
        return Kind(self.read, lambda value: None)


WHOLE: Final = Kind()


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A field ("tp" of the layout, "run.seq", "deferred.copies") and the key that says it."""

    field: str
    key: str
    kind: Kind = WHOLE
    where: Callable[[Any], bool] = lambda stated: True
    """Where it means anything at all, given an object with the fields of the layout."""
    usual: Any = None
    """What the framework does where the key is left out."""
    only: Callable[[Layout, WriterContext], bool] = lambda layout, context: True
    """Where it is written."""

    def read(self, keys: Keys) -> None:
        """State the field if the file has the key."""
        if self.where(_Stated(keys.layout)):
            found = self.kind.read(keys, self.key)
            keys.take(self.field, self.usual if found is None else found, self.key)

    def write(self, layout: Layout, context: WriterContext) -> dict[str, Any]:
        """The key and its value, or nothing."""
        if not self.where(layout) or not self.only(layout, context):
            return {}
        outside, _, name = self.field.rpartition(".")
        value = getattr(context if outside else layout, name, None)
        spelt = None if value is None else self.kind.write(value)
        return {} if spelt is None else {self.key: spelt}


class _Stated:
    """What a file has said so far; axes of which it has said nothing have one rank."""

    def __init__(self, layout: Mapping[str, Any]) -> None:
        self._layout = layout

    def __getattr__(self, field: str) -> Any:
        return self._layout.get(field, 1)


@dataclass(frozen=True, slots=True)
class Rule:
    """Keys that mean something only together, or that are only read or only written."""

    read: Callable[[Any], None] = lambda keys: None
    write: Callable[[Layout, WriterContext], Mapping[str, Any]] = lambda layout, context: {}


class SettingTable:
    """All that settings of one format say of a layout, in the order in which a file is written."""

    def __init__(self, *rows: SettingRow | Rule) -> None:
        self.rows: Final = [one for one in rows if isinstance(one, SettingRow)]
        self._all: Final = rows

    def read(self, keys: Keys) -> None:
        """State what a file says: first the rows, then the rules, which may build on them."""
        for one in sorted(self._all, key=lambda one: isinstance(one, Rule)):
            one.read(keys)

    def write(self, layout: Layout, context: WriterContext) -> dict[str, Any]:
        """Dotted keys and their values, in order."""
        return {key: it for one in self._all for key, it in one.write(layout, context).items()}


def nested_mapping(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings inside each other for dotted keys."""
    found: dict[str, Any] = {}
    for key, value in flat.items():
        *outer, name = key.split(".")
        inside = found
        for part in outer:
            inside = inside.setdefault(part, {})
        inside[name] = value
    return found


OFFLOADED: Final = ("offload_weights", "offload_gradients", "offload_optimizer")
"""What `fully_shard(offload_policy=CPUOffloadPolicy())` keeps on the host, where the optimizer
runs."""


def take_cpu_offload(keys: Keys, key: str) -> None:
    """State what `key`, which is true, keeps on the host; the sharding is known by now."""
    if keys.layout.get("shard") != Shard.FSDP or keys.degree("pp") > 1:
        keys.note("offloading is modelled for fully sharded weights only: ignored", key)
        return
    for name in OFFLOADED:
        keys.take(name, True, key)


def cpu_offload(key: str) -> Rule:
    """FSDP's CPU offload, which all frameworks on it switch by one key."""

    def read(keys: Keys) -> None:
        if keys.flag(key):
            take_cpu_offload(keys, key)

    def write(layout: Layout, _: WriterContext) -> dict[str, Any]:
        return {key: True} if all(getattr(layout, name) for name in OFFLOADED) else {}

    return Rule(read, write)
