"""The settings files of training frameworks that are known, told apart by their content.

Holds `FORMATS`, `read_settings` (a file) and `parsed` (its text). `toml_document`,
`arguments_document` and `nested`: text of settings files as documents that remember lines: TOML
tables and shell arguments. YAML and JSON are read by `documents`.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall.describe.layout import Layout
from syncwall.describe.settings import accelerate, deepspeed, megatron, megatron_writing, torchtitan
from syncwall.describe.settings.keys import Settings, Wanted
from syncwall.documents import MAX_BYTES, Document, KeyPath, LineColumn, parse_document
from syncwall.problems import InputError

_HEADER: Final = re.compile(r"\s*\[+([^\[\]]+)\]+\s*(#.*)?$")
_KEY: Final = re.compile(r"\s*([\w.\"'-]+)\s*=")
_AT: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
_ASSIGNED: Final = re.compile(
    r"(?:^|[\s;])(?:export\s+|local\s+)?([A-Za-z_]\w*)=[\"']?([^\s\"';()]*)"
)
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}$]*))?\})")
_WORD: Final = re.compile(
    r"(?<=[\"'])[^\s\"']*\|[^\s\"']*(?=[\"'])"  # stages in quotes: 'E|(tt|)*9L'
    r"|[^\s\"'()\\;]+"
)
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
_DEPTH: Final = 8
_LONGEST: Final = 4096


def toml_document(text: str, file: str) -> Document:
    """Parse TOML; places are those of the keys, as far as one is written on each line."""
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
    last, as for the program that reads it. Each is a list of the words that follow it.
    """
    known: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    places: dict[KeyPath, LineColumn] = {(): (1, 1)}
    words: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw)
        for name, value in _ASSIGNED.findall(line):
            known[name] = _expanded(value, known)
        for word in _WORD.finditer(line):
            name, equals, value = word[0].partition("=")
            if name.startswith("--") and len(name) > 2:
                words = found[name] = [_expanded(value, known)] if value else []
                places[(name,)] = (number, word.start() + 1)
            elif not re.fullmatch(r"[A-Za-z_]\w*\+?", name) or not equals:
                words.append(_expanded(word[0], known))
    return Document(file, dict(found), places)


def _expanded(text: str, known: dict[str, str]) -> str:
    """`text` with the shell variables in it that are known, or have a default."""

    def meant(match: re.Match[str]) -> str:
        name, default = match[1] or match[2], match[3]
        return known.get(name, match[0] if default is None else default)

    for _ in range(_DEPTH):
        before, text = text, _VARIABLE.sub(meant, text)[:_LONGEST]
        if text == before:
            break
    return text


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
    write: Callable[[Layout, Wanted], str]
    framework: str
    """What runs them, by catalogue name, as far as they are written here."""


FORMATS: Final = {
    "torchtitan": Format(
        "torchtitan (TOML, until release 0.2.2)", ".toml", "#",
        ("parallelism", "training", "activation_checkpoint"),
        torchtitan.read, torchtitan.write, "torchtitan",
    ),
    "megatron": Format(
        "Megatron-LM (arguments)", ".sh", "#",
        ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--micro-batch-size",
         "--context-parallel-size", "--expert-model-parallel-size", "--use-distributed-optimizer"),
        megatron.read, megatron_writing.write, "megatron-core",
    ),
    "deepspeed": Format(
        "DeepSpeed (JSON)", ".json", None,
        ("zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu",
         "gradient_accumulation_steps", "bf16", "fp16"),
        deepspeed.read, deepspeed.write, "deepspeed",
    ),
    "accelerate": Format(
        "Hugging Face accelerate (YAML)", ".yaml", "#",
        ("distributed_type", "compute_environment", "fsdp_config", "deepspeed_config",
         "megatron_lm_config", "parallelism_config"),
        accelerate.read, accelerate.write, "pytorch",
    ),
}  # fmt: skip
"""Every format by the word for it."""


def read_settings(path: Path) -> Settings:
    """The settings in the file at `path`, whichever framework they are for."""
    text = _text(path)
    document = parsed(text, path)
    value = document.value if isinstance(document.value, dict) else {}
    if any(name.startswith("--") and "." in name for name in value):
        document = nested(document)
        value = document.value
    found = [name for name, one in FORMATS.items() if any(key in value for key in one.keys)]
    if len(found) == 1:
        return FORMATS[found[0]].read(document)
    raise InputError([document.problem((), _unclear(value, found))])


def _unclear(value: dict[str, Any], found: list[str]) -> str:
    if found:
        return f"could be settings of {' or of '.join(found)}: keep one of them"
    if {"model", "cluster", "layout"} & set(value):
        return "is a run file, not settings of a framework: give it without --from"
    known = "; ".join(f"{one.title}: {', '.join(one.keys[:3])}" for one in FORMATS.values())
    return f"is not a known settings file; those have, for example, {known}"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError.of(f"cannot be read: {reason}", file=str(path)) from error
    if len(raw) > MAX_BYTES:
        raise InputError.of("is larger than 16 MiB, too large for settings", file=str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8 text"
        raise InputError.of(message, file=str(path), line=line, column=1) from error


def parsed(text: str, path: Path) -> Document:
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
    if re.search(r"(?m)^\s*\[[\w.\"-]+\]\s*(#.*)?$", text):
        return toml_document(text, file)
    return parse_document(text, file, is_json=bare.startswith("{"))
