"""Every flag of a verb as data, for its help, for completion and for what is misspelt.

Holds `Flag`, `flags_of` and `with_values`. Read from the signatures that tyro parses, texts from
the docstrings; for the flags of a layout, its software and a job from the descriptions that they
fill in.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from inspect import Parameter, getdoc, signature
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import tyro

from syncwall import catalogue, units
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import MAY_BE_OPEN, Description, dimension_of
from syncwall.describe.choice import Choice, text_of
from syncwall.describe.docs import documented
from syncwall.describe.framework import Month
from syncwall.describe.other_words import ours
from syncwall.problems import InputError, did_you_mean
from syncwall.units import Dimension

_DIMENSIONS: Final = {
    Dimension.BYTES: "SIZE", Dimension.BYTES_PER_S: "RATE", Dimension.SECONDS: "TIME",
    Dimension.TOKENS: "TOKENS", Dimension.USD_PER_GPU_HOUR: "PRICE", Dimension.USD: "MONEY",
}  # fmt: skip
_TYPES: Final = {int: "N", float: "X", datetime: "DATE"}
_OF_OUTPUT: Final = (
    "json", "html", "markdown", "timeline", "explain_assumptions", "chart", "drawing", "save",
    "settings", "save_settings", "keep_logs", "quiet", "profile", "store",
)  # fmt: skip
"""Arguments of verbs that say what is written, and where."""
_SWITCH: Final = ("true", "false")
_SHORT_LIST: Final = 12
"""Letters up to which a choice is written out in place of a word that stands for it."""


@dataclass(frozen=True)
class Flag:
    """One flag, or one argument without a name."""

    name: str
    """In full, "--layout.tp"; of an argument what stands for it, "FILE"."""
    short: str
    """Without what stands before the dot, "--tp", where that is a flag, too; else the name."""
    takes: str
    """What stands for its value; nothing if it takes none."""
    text: str
    """What it means, in a sentence."""
    choices: tuple[str, ...]
    """Words that it takes."""
    default: str
    """Its value if it is left out; empty if the text says, or if there is none."""
    group: str
    is_required: bool = False
    is_repeated: bool = False

    @property
    def is_named(self) -> bool:
        """False for an argument that stands by itself."""
        return self.name.startswith("--")


def flags_of(function: Callable[..., int]) -> list[Flag]:
    """Every flag and argument of a verb, in the order of its signature."""
    said = (getdoc(function) or "").partition("Args:\n")[2]
    texts = dict(re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", said, re.MULTILINE))
    taken = signature(function).parameters
    own = "job" if "job" in taken else "options"
    found: list[Flag] = []
    for name, one in taken.items():
        group = "output" if name in _OF_OUTPUT else own
        default = MISSING if one.default is Parameter.empty else one.default
        found += _flags(name, one.annotation, default, texts.get(name, ""), group)
    return found


def _flags(
    name: str, annotation: Any, default: Any, text: str, group: str, before: str = ""
) -> Iterator[Flag]:
    """The flag of one parameter or field, or all of them if it is a dataclass of flags."""
    plain, marks = _unwrapped(annotation)
    config: Any = next((mark for mark in marks if hasattr(mark, "metavar")), tyro.conf.arg())
    said = f"{before}{name if config.name is None else config.name}"
    if isinstance(plain, type) and is_dataclass(plain):
        yield from _inside(plain, default, group, said)
        return
    choices = () if plain is bool else _choices(plain)
    takes = "" if plain is bool else config.metavar or _joined(choices)
    flag = takes if tyro.conf.Positional in marks else _dashed(said)
    shown = "" if default is False or default in (MISSING, ()) else _written(default, None)
    yield Flag(
        flag, flag, takes, _first_sentence(text), choices, shown, group,
        is_required=default is MISSING, is_repeated=get_origin(plain) is tuple,
    )  # fmt: skip


def _inside(flags: type, default: Any, group: str, said: str) -> Iterator[Flag]:
    """The flags of a dataclass, after `said`, or after nothing."""
    before = f"{said}." if said else ""
    described: type[Description] | None = getattr(flags, "described", None)
    if not (described and "." in said):
        group = flags.__name__.removesuffix("Flags").lower()
    texts = documented(flags)
    for one in fields(flags):
        if described is None or is_dataclass(one.type):
            value = getattr(default, one.name)
            yield from _flags(one.name, one.type, value, texts.get(one.name, ""), group, before)
        else:
            yield _of_description(described, one.name, _unwrapped(one.type)[1], group, before)


def _of_description(
    described: type[Description], word: str, marks: Sequence[Any], group: str, before: str
) -> Flag:
    """A flag that fills in a field of a description, which files call `word`."""
    key, field = next(
        (key, one) for key, one in described.model_fields.items() if word in (key, one.alias)
    )
    text = _first_sentence(documented(described).get(key, ""))
    choices = _choices(field.annotation)
    dimension = dimension_of(field.annotation, *field.metadata)
    flag = _dashed(f"{before}{word}")
    takes = _DIMENSIONS[dimension] if dimension else _value(field.annotation, choices)
    if MAY_BE_OPEN in field.metadata and "if not given" not in text:
        default = "chosen"
    else:
        default = "off" if field.is_required() else _written(field.default, dimension)
    aliases = next((mark.aliases for mark in marks if hasattr(mark, "aliases")), None)
    return Flag(flag, aliases[0] if aliases else flag, takes, text, choices, default, group)


def _value(annotation: Any, choices: tuple[str, ...]) -> str:
    """What stands for the value of a field that has no unit."""
    inner = {annotation, *get_args(annotation)}
    if any(get_origin(one) is tuple for one in inner):
        return "LIST"
    if any(isinstance(one, type) and issubclass(one, Description) for one in _bare(inner)):
        return '"{KEY: VALUE}"'
    if choices:
        return _joined(choices)
    if Month in inner:
        return "MONTH"
    return next((word for kind, word in _TYPES.items() if kind in _bare(inner)), "NAME")


def _bare(annotations: set[Any]) -> set[Any]:
    return {get_args(one)[0] if get_origin(one) is Annotated else one for one in annotations}


def _choices(annotation: Any) -> tuple[str, ...]:
    """Words that a value may be, or each one of a list."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        return tuple(annotation.words())
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return tuple(one.value for one in annotation)
    if annotation is bool:
        return _SWITCH
    return next(filter(None, map(_choices, get_args(annotation))), ())


def _joined(choices: tuple[str, ...]) -> str:
    joined = "|".join(choices)
    return joined if len(joined) <= _SHORT_LIST else "KIND"


def _written(value: Any, dimension: Dimension | None) -> str:
    """A default as people would write it; nothing for none."""
    if value is None:
        return ""
    if dimension is None:
        return f"{value:g}" if isinstance(value, float) else text_of(value)
    days = "days" if dimension is Dimension.SECONDS and value % 86400 == 0 else None
    return units.format(value, dimension, unit=days)


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """What is in an `Annotated`, and what is said of it."""
    if get_origin(annotation) is Annotated:
        plain, *marks = get_args(annotation)
        return plain, tuple(marks)
    return annotation, ()


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<!\.)\.(?:\s|$)", " ".join(text.split()))[0]


def with_values(function: Callable[..., int], words: Sequence[str]) -> list[str]:
    """`words`, in which a switch that stands alone has its value: `--sp` is `--sp true`.

    InputError for a flag that the verb does not have, with the nearest one that it has, and for one
    that has no value; also for a model or a cluster that stands where a file would.
    """
    known = {name: one for one in flags_of(function) for name in (one.short, one.name)}
    found: list[str] = []
    takes: Flag | None = None
    for word, behind in zip_longest(words, words[1:], fillvalue="--"):
        found.append(word)
        if not word.startswith("--") or len(word) <= len("--"):
            if takes is None:
                _refuse_name(word, known)
            takes = takes if takes is not None and takes.is_repeated else None
            continue
        flag = _known(word.partition("=")[0], known)
        takes = flag if flag.takes and "=" not in word else None
        if not flag.takes or flag.is_repeated or "=" in word or not behind.startswith("--"):
            continue
        if flag.choices != _SWITCH:
            raise InputError.of(f"{word} has no value: write `{word} {flag.takes}`")
        found.append("true")
    return found


def _known(word: str, known: Mapping[str, Flag]) -> Flag:
    """The flag that is written as `word`."""
    flag = known.get(word.replace("_", "-"))
    if flag is None:
        behind = "; flags of the script stand behind --" if "--arguments" in known else ""
        raise InputError.of(f'unknown flag "{word}"{_instead(word, known)}{behind}')
    return flag


def _instead(word: str, known: Mapping[str, Flag]) -> str:
    """What to write in the place of `word`, by what it means elsewhere or by how it is spelt."""
    flag = known.get(_dashed(ours(word) or ""))
    if flag is None:
        return did_you_mean(word, known)
    takes = "|".join(flag.choices) or flag.takes
    return f": write `{flag.short} {takes}`"


def _refuse_name(word: str, known: Mapping[str, Flag]) -> None:
    """InputError if `word` is no file but the name of something that has its flag."""
    for kind in (CatalogueKind.MODEL, CatalogueKind.CLUSTER):
        if f"--{kind}" in known and not Path(word).exists() and catalogue.known(kind, word):
            raise InputError.of(f'"{word}" is a {kind}, not a file: write --{kind} {word}')
