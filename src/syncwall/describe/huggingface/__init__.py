"""Hugging Face `config.json` files as models, without `transformers` and without the internet.

Holds `translated`, which turns a parsed configuration into the keys of `Model`, and
`ARCHITECTURES` with `architectures`. An unknown one is refused, never guessed, with what was read
of it. The tests instantiate every architecture with `transformers` and compare parameter counts.
"""

from collections.abc import Callable
from typing import Any, Final

from syncwall import plugins
from syncwall.describe.huggingface.alike import ALIKE
from syncwall.describe.huggingface.config import HEADS, HIDDEN, LAYERS, Config, Fields
from syncwall.describe.huggingface.dense import DENSE, ENCODERS, PAIRS
from syncwall.describe.huggingface.experts import EXPERTS
from syncwall.describe.huggingface.hybrid import HYBRID, MAMBA
from syncwall.describe.huggingface.towers import DECODERS, decoder_of, with_tower
from syncwall.documents import Document
from syncwall.problems import InputError, known_are

ARCHITECTURES: Final = dict(
    sorted((ALIKE | DECODERS | DENSE | ENCODERS | EXPERTS | HYBRID | MAMBA | PAIRS).items())
)
"""What reads a configuration, by its `model_type`."""
SHAPES: Final = (
    *LAYERS,
    *HIDDEN,
    *HEADS,
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
)
"""Names that mean the same in every architecture."""
MOST_NAMED: Final = 6
_INNER: Final = ("text_config", "llm_config", "language_config")


def architectures() -> dict[str, Callable[[Config], Fields]]:
    """Every architecture, with those that packages add (`syncwall.architectures`)."""
    return plugins.table("architectures", ARCHITECTURES, Callable)


def translated(document: Document) -> Document:
    """`document` with the keys of `Model`, if it is a Hugging Face configuration."""
    value = document.value
    if not isinstance(value, dict) or "model_type" not in value:
        return document
    where: tuple[str, ...] = ()
    for key in _INNER:  # models that see as well as read keep the decoder's shape inside
        if isinstance(value.get(key), dict):
            value, where = decoder_of(value, value[key]), (key,)
            break
    whole = Config(document, document.value, ())
    fields = with_tower(whole, _fields(Config(document, value, where)))
    if whole.problems:
        raise InputError(whole.problems)
    return Document(document.file, fields, document.places)


def _fields(config: Config) -> dict[str, Any]:
    model_type = str(config.value["model_type"])
    known = architectures()
    architecture = known.get(model_type)
    if architecture is None:
        hint = known_are(model_type, known)
        message = f'model_type "{model_type}" is not known{hint}{_as_far_as_read(config)}'
        config.complain("model_type", message)
        raise InputError(config.problems)
    fields = architecture(config)
    if config.problems:
        raise InputError(config.problems)
    return fields


def _as_far_as_read(config: Config) -> str:
    """What an unknown configuration says in known words and what not, and the way around it."""
    numbers = {
        name: value
        for name, value in config.value.items()
        if isinstance(value, int) and not isinstance(value, bool) and value > 1
    }
    read = ", ".join(f"{name} {numbers[name]:,}" for name in SHAPES if name in numbers)
    no_sizes = ("_id", "position", "n_ctx", "seq_len", "logits_to_keep", "pretraining")
    others = [name for name in numbers if name not in SHAPES and not _within(name, no_sizes)]
    unread = ", ".join(others[:MOST_NAMED]) + (", ..." if len(others) > MOST_NAMED else "")
    return (
        (f"; read: {read}" if read else "")
        + (f"; not understood: {unread}" if unread else "")
        + "; `syncwall capture` prices the model's own PyTorch code instead"
    )


def _within(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)
