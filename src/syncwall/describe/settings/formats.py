"""The settings files of training frameworks that are known, told apart by their content.

Holds `FORMATS`, `read_settings` (a file) and `parsed` (its text).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall.describe.layout import Layout
from syncwall.describe.settings import (
    accelerate,
    accelerate_writing,
    deepspeed,
    megatron,
    megatron_writing,
    torchtitan,
    torchtitan_writing,
)
from syncwall.describe.settings.sources import arguments_document, nested, toml_document
from syncwall.describe.settings.stated import Settings
from syncwall.describe.settings.wanted import Wanted
from syncwall.documents import MAX_BYTES, Document, parse_document
from syncwall.problems import InputError


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
    own: frozenset[str] = frozenset()
    """Fields of a layout that the framework decides by itself: nobody has to say them."""


FORMATS: Final = {
    "torchtitan": Format(
        "torchtitan (TOML, until release 0.2.2)", ".toml", "#",
        ("parallelism", "training", "activation_checkpoint"),
        torchtitan.read, torchtitan_writing.write, frozenset({"balanced_stages", "async_tp"}),
    ),
    "megatron": Format(
        "Megatron-LM (arguments)", ".sh", "#",
        ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--micro-batch-size",
         "--context-parallel-size", "--expert-model-parallel-size", "--use-distributed-optimizer"),
        megatron.read, megatron_writing.write, frozenset({"async_tp"}),
    ),
    "deepspeed": Format(
        "DeepSpeed (JSON)", ".json", None,
        ("zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu",
         "gradient_accumulation_steps", "bf16", "fp16"),
        deepspeed.read, deepspeed.write, frozenset({"async_tp"}),
    ),
    "accelerate": Format(
        "Hugging Face accelerate (YAML)", ".yaml", "#",
        ("distributed_type", "compute_environment", "fsdp_config", "deepspeed_config",
         "megatron_lm_config", "parallelism_config"),
        accelerate.read, accelerate_writing.write, frozenset({"async_tp"}),
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
    return f"is not a settings file that is known, which would hold one of these: {known}"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise InputError.of(f"cannot be read: {said}", file=str(path)) from error
    if len(raw) > MAX_BYTES:
        raise InputError.of("is larger than 16 MiB, too large for settings", file=str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        said = f"byte 0x{raw[error.start]:02x} is not UTF-8 text"
        raise InputError.of(said, file=str(path), line=line, column=1) from error


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
