"""Hugging Face `config.json` files as models, without `transformers` and without the internet.

Holds `translated`, which turns a parsed configuration into the keys of `Model`, and
`ARCHITECTURES` with `architectures`. An unknown one is refused, never guessed. The tests
instantiate every architecture with `transformers` and compare the parameter counts.
"""

from collections.abc import Callable
from typing import Any, Final

from syncwall import plugins
from syncwall.describe.huggingface.config import Config, Fields
from syncwall.describe.huggingface.dense import DENSE
from syncwall.describe.huggingface.experts import EXPERTS
from syncwall.documents import Document
from syncwall.problems import InputError, known_are

ARCHITECTURES: Final = dict(sorted((DENSE | EXPERTS).items()))
"""What reads a configuration, by its `model_type`."""
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
            value, where = {"model_type": value["model_type"]} | value[key], (key,)
            break
    fields = _fields(Config(document, value, where))
    return Document(document.file, fields, document.places)


def _fields(config: Config) -> dict[str, Any]:
    model_type = str(config.value["model_type"])
    known = architectures()
    architecture = known.get(model_type)
    if architecture is None:
        hint = known_are(model_type, known)
        config.complain("model_type", f'model_type "{model_type}" is not known{hint}')
        raise InputError(config.problems)
    fields = architecture(config)
    if config.problems:
        raise InputError(config.problems)
    return fields
