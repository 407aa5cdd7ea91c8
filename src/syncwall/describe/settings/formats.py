"""The settings files of training frameworks that are known, told apart by their content.

Holds `FORMATS`, `formats` and `format_named`, `read_settings` (a file), `settings_in` (its text as
a document), `parsed` (its text) and `title_of`.
`toml_document`, `arguments_document` and `nested`: text of settings files as documents that
remember lines: TOML tables and shell arguments. YAML and JSON are read by `documents`.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall import plugins
from syncwall.describe.layout import Layout
from syncwall.describe.settings import (
    accelerate,
    deepspeed,
    megatron,
    nemo,
    torchtitan,
    trainer,
)
from syncwall.describe.settings.rows import WriterContext
from syncwall.describe.settings.settings import Settings
from syncwall.documents import Document, KeyPath, LineColumn, parse_document, read_text
from syncwall.problems import InputError, refuse_unknown

_HEADER: Final = re.compile(r"\s*\[+([^\[\]]+)\]+\s*(#.*)?$")
_KEY: Final = re.compile(r"\s*([\w.\"'-]+)\s*=")
_AT: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
_ASSIGNED: Final = re.compile(r"(?:^|[\s;])(?:export\s+|local\s+)?([A-Za-z_]\w*)=[\"']?([^\s\"';()]*)")
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}$]*))?\})")
_WORD: Final = re.compile(
    r"(?<=[\"'])[^\s\"'|]*+\|[^\s\"']*+(?=[\"'])"  # stages in quotes: 'E|(tt|)*9L'
    r"|[^\s\"'()\\;]+"
)
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
_DEEP: Final = re.compile(r"(?<![\w-])(?:(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+){60}+")
"""A key of so many parts, for which `tomllib` takes the square of their number."""
_DEPTH: Final = 8
_LONGEST: Final = 4096
_SUBSTITUTIONS: Final = 400_000


def toml_document(text: str, file: str) -> Document:
    """Parse TOML; places are those of the keys, as far as one is written on each line."""
    if deep := _DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise InputError.of("is nested too deeply", file=file, line=line, column=1)
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line, column = (int(at[1]), int(at[2])) if at else (len(text.splitlines()) or 1, 1)
        what = _AT.sub("", str(error)).strip().lower()
        raise InputError.of(f"not TOML: {what}", file=file, line=line, column=column) from None
    except (RecursionError, ValueError) as error:  # nested too deeply; a number of too many digits
        raise InputError.of(f"not TOML: {error}", file=file, line=1, column=1) from None
    return Document(file, value, _toml_places(text))


def _toml_places(text: str) -> dict[KeyPath, LineColumn]:
    places: dict[KeyPath, LineColumn] = {(): (1, 1)}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = tuple(part.strip(" \"'") for part in header[1].split("."))
            for depth in range(1, len(table) + 1):
                places.setdefault(table[:depth], (number, line.index("[") + 1))
        elif key:
            path = (*table, *(part.strip("\"'") for part in key[1].split(".")))
            places.setdefault(path, (number, key.start(1) + 1))
    return places


def arguments_document(text: str, file: str) -> Document:
    """The `--name value` arguments of a shell script or a list of them.

    Comments, line ends with a backslash, quotes and arrays are understood; of shell variables only
    those that are set to plain text above. An argument that stands twice counts where it stands
    last, as for the program that reads it. Each is a list of the words that follow it, as far as
    its array, its text in quotes or its paragraph goes.
    """
    shell = _Shell(file)
    found: dict[str, list[str]] = {}
    places: dict[KeyPath, LineColumn] = {(): (1, 1)}
    words: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw)
        for name, value in _ASSIGNED.findall(line):
            shell.known[name] = shell.expanded(value)
        for word in _WORD.finditer(line):
            name, equals, value = word[0].partition("=")
            if name.startswith("--") and len(name) > 2:
                words = found[name] = [shell.expanded(value)] if value else []
                places[(name,)] = (number, word.start() + 1)
            elif not re.fullmatch(r"[A-Za-z_]\w*\+?", name) or not equals:
                words.append(shell.expanded(word[0]))
        ends = not line.strip() or ")" in line or line.count('"') % 2
        if ends and not line.rstrip().endswith("\\"):
            words = []
    return Document(file, dict(found), places)


class _Shell:
    """Variables of a script as far as they are known."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.known: dict[str, str] = {}
        self._room = _SUBSTITUTIONS

    def expanded(self, text: str) -> str:
        """`text` with the variables in it that are known, or have a default."""
        for _ in range(_DEPTH):
            before, text = text, self._once(text)
            if text == before:
                break
        return text

    def _once(self, text: str) -> str:
        pieces, at, size = [], 0, 0
        for match in _VARIABLE.finditer(text):
            name, default = match[1] or match[2], match[3]
            meant = self.known.get(name, match[0] if default is None else default)
            pieces += [text[at : match.start()], meant]
            at, size = match.end(), size + match.start() - at + len(meant)
            if size > _LONGEST:
                break
        self._room -= len(pieces)
        if self._room < 0:
            raise InputError.of("has too many variables in variables", file=self.file)
        return "".join([*pieces, text[at:]])[:_LONGEST]


def nested(document: Document) -> Document:
    """Arguments such as `--parallelism.tensor_parallel_degree 8` as the tables of a TOML file."""
    value: dict[str, Any] = {}
    places: dict[KeyPath, LineColumn] = {(): (1, 1)}
    for name, words in document.value.items():
        table, dot, key = name.removeprefix("--").rpartition(".")
        if dot:
            path = (*table.split("."), key)
            inner = value
            for part in path[:-1]:
                inner = inner.setdefault(part, {})
                if not isinstance(inner, dict):
                    break
            else:
                inner[key] = words[0] if words else True
                places[path] = document.places[name,]
    return Document(document.file, value, places)


@dataclass(frozen=True)
class Format:
    """One framework's settings."""

    title: str
    suffix: str
    """Of files that hold it."""
    comment: str | None
    """What starts a comment; None if there are none."""
    keys: tuple[str, ...]
    """One of these stands in every such file."""
    read: Callable[[Document], Settings]
    write: Callable[[Layout, WriterContext], str]
    framework: str
    """What runs them, by catalogue name, as far as they are written here."""


def _keys(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


FORMATS: Final = {
    "torchtitan": Format(
        "torchtitan (TOML, until release 0.2.2)",
        ".toml",
        "#",
        _keys("parallelism training activation_checkpoint"),
        torchtitan.read,
        torchtitan.write,
        "torchtitan",
    ),
    "megatron": Format(
        "Megatron-LM (arguments)",
        ".sh",
        "#",
        _keys("""
            --tensor-model-parallel-size --pipeline-model-parallel-size --micro-batch-size
            --context-parallel-size --expert-model-parallel-size --use-distributed-optimizer"""),
        megatron.read,
        megatron.write,
        "megatron-core",
    ),
    "deepspeed": Format(
        "DeepSpeed (JSON)",
        ".json",
        None,
        _keys("""
            zero_optimization train_batch_size train_micro_batch_size_per_gpu
            gradient_accumulation_steps bf16 fp16"""),
        deepspeed.read,
        deepspeed.write,
        "deepspeed",
    ),
    "accelerate": Format(
        "Hugging Face accelerate (YAML)",
        ".yaml",
        "#",
        _keys("""
            distributed_type compute_environment fsdp_config deepspeed_config megatron_lm_config
            parallelism_config"""),
        accelerate.read,
        accelerate.write,
        "pytorch",
    ),
}
"""Every format by the word for it."""


@dataclass(frozen=True)
class ReadOnlyFormat:
    """Settings that are read and never written."""

    title: str
    keys: tuple[str, ...]
    """One of these stands in every such file; "model.hf_path" is a key inside another."""
    read: Callable[[Document], Settings]


READ_ONLY: Final = {
    "trainer": ReadOnlyFormat(
        "Hugging Face Trainer (YAML, JSON or arguments)",
        _keys("""
            per_device_train_batch_size --per_device_train_batch_size model_name_or_path
            --model_name_or_path base_model"""),
        trainer.read,
    ),
    "nemo": ReadOnlyFormat(
        "NeMo and Megatron-Bridge (YAML)",
        _keys("""
            model.tensor_model_parallel_size model.micro_batch_size train.micro_batch_size
            model.hf_path model.encoder_seq_length"""),
        nemo.read,
    ),
}
"""Further ones, whose keys tell more than those of the formats that they may contain."""


def formats() -> dict[str, Format]:
    """Every format, with those that packages add (`syncwall.settings`)."""
    return plugins.table("settings", FORMATS, Format)


def format_named(name: str) -> Format:
    """The format of that name; `InputError` names those that are known."""
    known = formats()
    refuse_unknown(name, known, f'unknown settings format "{name}"')
    return known[name]


def read_settings(path: Path) -> Settings:
    """The settings in the file at `path`, whichever framework they are for."""
    return settings_in(parsed_text(read_text(path), path))


def settings_in(document: Document) -> Settings:
    """The settings in `document`, whichever framework they are for."""
    value = document.value if isinstance(document.value, dict) else {}
    if any(name.startswith("--") and "." in name for name in value):
        document = nested(document)
        value = document.value
    known: dict[str, Format | ReadOnlyFormat] = {**READ_ONLY, **formats()}
    found = [name for name, one in known.items() if any(_has(value, key) for key in one.keys)]
    found = [name for name in found if name in READ_ONLY][:1] or found
    if len(found) == 1:
        return known[found[0]].read(document)
    raise InputError([document.problem((), _unclear(value, found))])


def title_of(name: str) -> str:
    """What the format `name` is called."""
    known: dict[str, Format | ReadOnlyFormat] = {**READ_ONLY, **formats()}
    return known[name].title


def _has(value: dict[str, Any], key: str) -> bool:
    outer, dot, inner = key.partition(".")
    return key in value or (bool(dot) and isinstance(value.get(outer), dict) and inner in value[outer])


def _unclear(value: dict[str, Any], found: list[str]) -> str:
    if found:
        return f"could be settings of {' or of '.join(found)}: keep one of them"
    if {"model", "cluster", "layout"} & set(value):
        return "is a run file, not settings of a framework: give it without --from"
    every: list[Format | ReadOnlyFormat] = [*formats().values(), *READ_ONLY.values()]
    known = "; ".join(f"{one.title}: {', '.join(one.keys[:3])}" for one in every)
    return f"is not a known settings file; those have, for example, {known}"


def parsed_text(text: str, path: Path) -> Document:
    """The text as its suffix, or else its look, says."""
    suffix, file = path.suffix.lower(), str(path)
    bare = text.lstrip()
    if suffix == ".json" or (not suffix and bare.startswith("{")):
        return parse_document(text, file, is_json=True)
    if suffix == ".toml":
        return toml_document(text, file)
    if suffix in (".yaml", ".yml"):
        return parse_document(text, file)
    if re.search(r"(^|[\s\"'(])--[a-z]", text):
        return arguments_document(text, file)
    if re.search(r"(?m)^[^\S\n]*\[[\w.\"-]+\][^\S\n]*(#.*)?$", text):
        return toml_document(text, file)
    return parse_document(text, file, is_json=bare.startswith("{"))
