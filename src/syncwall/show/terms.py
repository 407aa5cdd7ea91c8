"""What words mean: the glossary of `terms.yaml`."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from syncwall.documents import packed_or_plain, read_document
from syncwall.problems import InputError, did_you_mean

_FILE: Final = packed_or_plain(Path(__file__).parent / "terms.yaml")


@dataclass(frozen=True)
class Term:
    """A word that users meet."""

    name: str
    meaning: str
    """In a sentence or two."""
    also: tuple[str, ...] = ()
    """Other names."""
    formula: str = ""
    unit: str = ""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """What Megatron, PyTorch, NCCL and others call it."""
    page: str = ""
    """Where the documentation says more, in `docs`."""


@cache
def terms() -> tuple[Term, ...]:
    """All of them."""
    found = read_document(_FILE).value
    made = [Term(name, **said | {"also": tuple(said.get("also", ()))}) for name, said in found.items()]
    return tuple(sorted(made, key=lambda one: one.name.lower()))


def meaning(words: str) -> str:
    """What `words` mean if they are a term, else nothing."""
    found = named().get(_plain(words))
    return found.meaning if found else ""


def term(name: str) -> Term:
    """The term of this name; an InputError suggests another if there is none."""
    found = named().get(_plain(name))
    if found is None:
        names = [each for one in terms() for each in (one.name, *one.also)]
        near = did_you_mean(name, names) or "; `syncwall show terms` lists all"
        raise InputError.of(f'no term "{name}"{near}')
    return found


@cache
def named() -> dict[str, Term]:
    """Every term by each of its names, in small letters and without hyphens."""
    return {_plain(name): one for one in terms() for name in (one.name, *one.also)}


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("-", " ").replace("_", " ").split())
