"""Flags of a verb, derived from the fields of its question: for parsing, help and completion.

Holds `Flag`, `flags_of` and `parsed`. Names, choices, units and texts are those of the types that
flags fill in, so that nothing is said twice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from syncwall import catalogue, units
from syncwall.ask.question import Argument
from syncwall.catalogue import CatalogueKind
from syncwall.cli.run_flags import RunFlags
from syncwall.describe.base import MAY_BE_OPEN, Description, dimension_of, part_of, parts_of
from syncwall.describe.choice import Choice, documented, ours, text_of, translated
from syncwall.describe.faults import example
from syncwall.describe.software import Month
from syncwall.describe.stated import StatedRun, stated_keys
from syncwall.problems import InputError, did_you_mean
from syncwall.units import Dimension

KeyPath = tuple[str, ...]
_DIMENSIONS: Final = {
    Dimension.BYTES: "SIZE",
    Dimension.BYTES_PER_S: "RATE",
    Dimension.SECONDS: "TIME",
    Dimension.TOKENS: "TOKENS",
    Dimension.USD_PER_GPU_HOUR: "PRICE",
    Dimension.USD: "MONEY",
}
_TYPES: Final = {int: "N", float: "X", datetime: "DATE"}
_SWITCH: Final = ("true", "false")
_SHORT_LIST: Final = 12
"""Letters up to which a choice is written out in place of a word that stands for it."""
_PLAIN: Final = Argument()


@dataclass(frozen=True)
class Flag:
    """One flag, or one argument without a name."""

    path: KeyPath
    """Where its value goes: ("run", "layout", "tp")."""
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
    letter: str = ""
    """Such as -o."""
    is_text: bool = False
    """Its value is taken as it is; else it is read as in a run file."""

    @property
    def is_named(self) -> bool:
        """False for an argument that stands by itself."""
        return self.name.startswith("--")


def flags_of(target: type[Description], output: type[Description] | None = None) -> list[Flag]:
    """Every flag and argument of a question or a command, and of what is written."""
    found = [*_flags(target, (), "", "options")]
    return found if output is None else [*found, *_flags(output, (), "", "output")]


def _flags(described: type[Description], path: KeyPath, before: str, group: str) -> Iterator[Flag]:
    """The flags of a type, whose names start with `before`."""
    texts = documented(described)
    for key, field in described.model_fields.items():
        argument = _argument(field)
        if argument.hidden:
            continue
        here, inside = argument.group or group, (*path, key)
        if StatedRun in get_args(field.annotation):
            yield from _flags(RunFlags, inside, before, "run")
            continue
        part = argument.keys_of or part_of(field.annotation)
        if part is None:
            yield _flag(key, field, texts.get(key, ""), inside, before, here)
        elif argument.inline:
            yield from _flags(part, inside, before, here)
        elif argument.keys_of is not None:
            yield from _keys(part, inside, f"{before}{key}.", argument)
        else:
            yield from _flags(part, inside, f"{before}{key}.", argument.group or key)


def _argument(field: FieldInfo) -> Argument:
    """How a field is written; what was said last counts."""
    marks = [one for one in parts_of(field.annotation) if isinstance(one, Argument)]
    marks += [one for one in field.metadata if isinstance(one, Argument)]
    return marks[-1] if marks else _PLAIN


def _flag(key: str, field: FieldInfo, text: str, path: KeyPath, before: str, group: str) -> Flag:
    """A field of a question itself."""
    argument = _argument(field)
    is_switch = field.annotation is bool
    choices = () if is_switch else _choices(field.annotation)
    word = (field.alias or key).replace("_", "-")
    takes = "" if is_switch else argument.takes or _joined(choices)
    default = None if field.is_required() else field.default
    shown = "" if default in (None, False, ()) else _written(default, None)
    name = takes if argument.positional else f"--{before}{word}"
    return Flag(
        path,
        name,
        name,
        takes,
        _first_sentence(text),
        choices,
        shown,
        group,
        is_required=field.is_required(),
        letter=argument.letter,
        is_repeated=argument.many or any(get_origin(one) is tuple for one in parts_of(field.annotation)),
        is_text=takes in ("FILE", "DIR") or any(map(_is_text, parts_of(field.annotation))),
    )


def _is_text(annotation: Any) -> bool:
    textual = isinstance(annotation, type) and issubclass(annotation, str | Path)
    return textual or get_origin(annotation) is Literal


def _keys(
    described: type[Description], path: KeyPath, before: str, argument: Argument, group: str = ""
) -> Iterator[Flag]:
    """Every key of a description, which files call by its alias; a part has its own keys.

    With short forms a part is one text: --lora "{rank: 16}".
    """
    group = group or argument.group or before.removesuffix(".")
    texts = documented(described)
    for key, field in described.model_fields.items():
        word, part = field.alias or key, part_of(field.annotation)
        if key in argument.elsewhere:
            continue
        if part is not None and not argument.short:
            inner = Argument(group=group)
            yield from _keys(part, (*path, word), f"{before}{key}.".replace("_", "-"), inner, group)
            continue
        name = f"--{before}{word}".replace("_", "-")
        short = f"--{word}".replace("_", "-") if argument.short else name
        text = _first_sentence(texts.get(key, ""))
        yield _of_description(field, text, (*path, word), (name, short), group)


def _of_description(field: FieldInfo, text: str, path: KeyPath, names: tuple[str, str], group: str) -> Flag:
    """A flag that fills in a field of a description."""
    choices = _choices(field.annotation)
    dimension = dimension_of(field.annotation, *field.metadata)
    takes = _DIMENSIONS[dimension] if dimension else _value(field.annotation, choices)
    if MAY_BE_OPEN in field.metadata and "if not given" not in text:
        default = "chosen"
    else:
        default = "off" if field.is_required() else _written(field.default, dimension)
    return Flag(path, *names, takes, text, choices, default, group)


def _value(annotation: Any, choices: tuple[str, ...]) -> str:
    """What stands for the value of a field that has no unit."""
    inner = {annotation, *get_args(annotation)}
    if any(get_origin(one) is tuple for one in inner):
        return "LIST"
    bare = {get_args(one)[0] if get_origin(one) is Annotated else one for one in inner}
    part = next((one for one in bare if isinstance(one, type) and issubclass(one, Description)), None)
    if part is not None:
        return f'"{example(part)}"'
    if choices:
        return _joined(choices)
    if Month in inner:
        return "MONTH"
    return next((word for kind, word in _TYPES.items() if kind in bare), "NAME")


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


def _first_sentence(text: str) -> str:
    return re.split(r"(?<!\.)\.(?:\s|$)", " ".join(text.split()))[0]


def parsed(flags: Sequence[Flag], words: Sequence[str]) -> dict[str, Any]:
    """The texts of `words` by the paths of their flags, as nested mappings.

    A switch that stands alone is true: `--sp` is `--sp true`. InputError for a flag that the verb
    does not have, with the nearest one that it has, and for one that has no value; also for a model
    or a cluster that stands where a file would.
    """
    known = {name: one for one in flags for name in (one.letter, one.short, one.name) if name}
    words = _translated(words, known)
    free = [one for one in flags if not one.is_named]
    found: dict[str, Any] = {}
    takes: Flag | None = None
    for word, behind in zip_longest(words, words[1:]):
        if not _is_flag(word, known):
            if takes is None:
                _refuse_name(word, known)
                takes = free[0] if free and free[0].is_repeated else free.pop(0) if free else None
            if takes is None:
                raise InputError.of(f'"{word[:200]}" stands where no argument is expected')
            _put(found, takes, word)
            takes = takes if takes.is_repeated and takes.is_named else None
            continue
        name, equals, value = word.partition("=")
        flag = _known(name, known)
        takes = None
        if equals:
            _put(found, flag, value)
        elif not flag.takes:
            _put(found, flag, True)
        elif (behind is None or _is_flag(behind, known)) and not flag.is_repeated:
            if flag.choices != _SWITCH:
                raise InputError.of(f"{word} has no value: write `{word} {flag.takes}`")
            _put(found, flag, "true")
        else:
            takes = flag
    missing = [one.name for one in free if one.is_required]
    if missing:
        raise InputError.of(f"{missing[0]} is missing")
    return found


def _translated(words: Sequence[str], known: Mapping[str, Flag]) -> list[str]:
    """`words` with flags of others that have one meaning here: `--compile false` is `--kernels eager`.

    InputError where both state the same key: the later one would drop what the earlier one says.
    """
    found: list[str] = []
    own = {word.partition("=")[0] for word in words}
    rest = list(words)
    while rest:
        name, equals, value = (word := rest.pop(0)).partition("=")
        key, _ = translated(name, "") or ("", "")
        if not name.startswith("--") or f"--{key}" not in known or name in known:
            found.append(word)
            continue
        if f"--{key}" in own:
            raise InputError.of(
                f"{name} and --{key} both state {key}: write one of them, such as {name}=VALUE"
            )
        if not equals:
            value = rest.pop(0) if rest and not _is_flag(rest[0], known) else "true"
        _, said = translated(name, value) or ("", value)
        found += [f"--{key}", said]
    return found


def _is_flag(word: str, known: Mapping[str, Flag]) -> bool:
    return (word.startswith("--") and len(word) > len("--")) or word in known


def _put(found: dict[str, Any], flag: Flag, value: Any) -> None:
    *outer, last = flag.path
    for key in outer:
        found = found.setdefault(key, {})
    if isinstance(value, str) and not flag.is_text:
        key = ".".join(flag.path).removeprefix("run.")
        value = stated_keys({key: value})[key]
    found[last] = [*found.get(last, ()), value] if flag.is_repeated else value


def _known(word: str, known: Mapping[str, Flag]) -> Flag:
    """The flag that is written as `word`."""
    flag = known.get(word.replace("_", "-"))
    if flag is None:
        behind = "; flags of the script stand behind --" if "--arguments" in known else ""
        raise InputError.of(f'unknown flag "{word}"{_instead(word, known)}{behind}')
    return flag


_RECORDED: Final = (
    ": `predict`, `plan wall` and `plan network` take recorded programs with --work, `compare` and "
    "`report` as files; the layout is the program's own: record it with another one, and `compare` the two"
)


def _instead(word: str, known: Mapping[str, Flag]) -> str:
    """What to write in the place of `word`, by what it means elsewhere or by how it is spelt."""
    if word == "--work":
        return _RECORDED
    flag = known.get(f"--{ours(word) or ''}".replace("_", "-"))
    if flag is None:
        return did_you_mean(word, known)
    takes = "|".join(flag.choices) or flag.takes
    return f": write `{flag.short} {takes}`"


def _refuse_name(word: str, known: Mapping[str, Flag]) -> None:
    """InputError if `word` is no file but the name of something that has its flag."""
    for kind in (CatalogueKind.MODEL, CatalogueKind.CLUSTER):
        if f"--{kind}" in known and not Path(word).exists() and catalogue.known(kind, word):
            raise InputError.of(f'"{word}" is a {kind}, not a file: write --{kind} {word}')
