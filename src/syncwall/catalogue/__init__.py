"""Named data files: devices, links, clusters, models, switches, and the sources of their numbers.

Holds `CatalogueKind`, `names`, `find` and `sources`. An entry is one YAML file, such as
`links/<name>.yaml`, in the directory given by `SYNCWALL_CATALOGUE` (several, separated as in PATH)
or in this package; the first one found wins. This module knows names and files only: what they mean
is the business of `describe`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from syncwall.documents import read_document
from syncwall.problems import InputError, did_you_mean

BUILT_IN: Final = Path(__file__).parent
VARIABLE: Final = "SYNCWALL_CATALOGUE"


class CatalogueKind(StrEnum):
    """What an entry describes; its folder is the plural."""

    DEVICE = "device"
    LINK = "link"
    CLUSTER = "cluster"
    MODEL = "model"
    PRICE = "price"
    CALIBRATION = "calibration"
    FRAMEWORK = "framework"
    SWITCH = "switch"
    FAILURE = "failure"

    @property
    def folder(self) -> str:
        """Name of the folder that holds entries of this kind."""
        return f"{self}es" if self.endswith("ch") else f"{self}s"


@contextmanager
def searched_first(directory: Path | None) -> Iterator[None]:
    """Look for entries in `directory` before all others, inside a `with` block."""
    before = os.environ.get(VARIABLE, "")
    if directory is not None:
        os.environ[VARIABLE] = os.pathsep.join(filter(None, (str(directory), before)))
    try:
        yield
    finally:
        os.environ[VARIABLE] = before


def directories() -> list[Path]:
    """Where entries are looked for: the user's directories first, the built-in one last."""
    stated = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    for directory in stated:
        if not any((directory / kind.folder).is_dir() for kind in CatalogueKind):
            folders = ", ".join(f"{kind.folder}/" for kind in CatalogueKind)
            raise InputError.of(
                f"is not a catalogue: it holds none of {folders}", file=str(directory)
            )
    return [*stated, BUILT_IN]


def paths(kind: CatalogueKind) -> dict[str, Path]:
    """Every entry of a kind by name, in alphabetical order."""
    found: dict[str, Path] = {}
    for directory in directories():
        for path in (directory / kind.folder).glob("*.yaml"):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def names(kind: CatalogueKind) -> list[str]:
    """Names of all entries of a kind, in alphabetical order."""
    return list(paths(kind))


def find(kind: CatalogueKind, name: str) -> Path:
    """The file that describes `name`; InputError suggests the nearest name."""
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    known = paths(kind)
    if wanted in known:
        return known[wanted]
    aliases = dict(_aliases(kind))
    if wanted in aliases:
        return aliases[wanted]
    hint = did_you_mean(wanted, [*known, *aliases], count=3)
    raise InputError.of(f'unknown {kind} "{name}"{hint or f" (see: syncwall show {kind.folder})"}')


def _aliases(kind: CatalogueKind) -> Iterator[tuple[str, Path]]:
    for path in paths(kind).values():
        value = read_document(path).value
        if isinstance(value, dict):
            for alias in value.get("aliases") or ():
                yield str(alias).lower(), path


def sources() -> dict[str, Any]:
    """Title, author, date and place of every source that a built-in number refers to, by key."""
    return _sources()


@lru_cache(maxsize=1)
def _sources() -> dict[str, Any]:
    value: dict[str, Any] = read_document(BUILT_IN / "sources.yaml").value
    return value
