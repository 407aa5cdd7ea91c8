"""Named data files: devices, links, clusters, models, switches, and the sources of their numbers.

Holds `CatalogueKind`, `names`, `find`, `known` and `sources`; `searched_first` and
`takes_catalogue`, with which commands and functions look elsewhere first. An entry is one YAML
file, such as `links/<name>.yaml`, in such a folder, in one given by `SYNCWALL_CATALOGUE` (several,
separated as in PATH), in this package, or in a folder that another package adds; the first one
found wins. This module knows names and files only: what they mean is the business of `describe`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from syncwall import plugins
from syncwall.documents import packed_or_plain, read_document
from syncwall.problems import InputError, did_you_mean

BUILT_IN: Final = Path(__file__).parent
VARIABLE: Final = "SYNCWALL_CATALOGUE"
Folders = str | Path | Sequence[str | Path] | None
"""Folders of entries that are looked at before all others: one, several, or none."""
Given = ParamSpec("Given")
Answer = TypeVar("Answer")
_FIRST: ContextVar[tuple[Path, ...]] = ContextVar("_FIRST", default=())


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
def catalogue_overlay(folders: Folders) -> Iterator[None]:
    """Look for entries in `folders` before all others, inside a `with` block."""
    several = (folders,) if isinstance(folders, str | Path) else folders or ()
    before = _FIRST.set((*map(Path, several), *_FIRST.get()))
    try:
        yield
    finally:
        _FIRST.reset(before)


def takes_catalogue(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """`function`, which looks into the folders of its argument `catalogue` first."""

    @wraps(function)
    def inside(*given: Given.args, **named: Given.kwargs) -> Answer:
        with catalogue_overlay(named.get("catalogue")):  # type: ignore[arg-type]  # of each function
            return function(*given, **named)

    return inside


def added_folders() -> tuple[Path, ...]:
    """Where entries are looked for before the built-in ones; what is read depends on it."""
    variable = os.environ.get(VARIABLE, "").split(os.pathsep)
    return (*_FIRST.get(), *(Path(part) for part in variable if part))


def directories() -> list[Path]:
    """Where entries are looked for: the user's directories first, those of packages last."""
    stated = added_folders()
    for directory in stated:
        if not any((directory / kind.folder).is_dir() for kind in CatalogueKind):
            folders = ", ".join(f"{kind.folder}/" for kind in CatalogueKind)
            raise InputError.of(f"is not a catalogue: it holds none of {folders}", file=str(directory))
    return [*stated, BUILT_IN, *plugged()]


def plugged() -> list[Path]:
    """Folders that packages add (`syncwall.catalogue`), each with entries of new names only."""
    own: dict[str, Path] = {}
    return list(plugins.table("catalogue", own, Path, then=_refuse_doubles).values())


def _refuse_doubles() -> None:
    """Refuse folders that hold nothing, or what another one holds."""
    added = [one for one in plugins.added("catalogue") if not one.problem]
    own = BUILT_IN.glob("*/*.yaml") if added else ()
    owners = {path.relative_to(BUILT_IN): "syncwall" for path in own}
    for plugin in added:
        files = [path.relative_to(plugin.entry) for path in plugin.entry.glob("*/*.yaml")]
        double = next((file for file in files if file in owners), None)
        if double is not None:
            plugins.refuse(plugin, f"{owners[double]} has {double.as_posix()} too")
        elif not files:
            plugins.refuse(plugin, f"{plugin.entry} holds no devices/*.yaml or the like")
        owners |= dict.fromkeys(files, plugin.package)


def paths(kind: CatalogueKind) -> dict[str, Path]:
    """Every entry of a kind by name, in alphabetical order."""
    found: dict[str, Path] = {}
    for directory in directories():
        folder = directory / kind.folder
        for name, path in (_kept if directory == BUILT_IN else _entries)(folder).items():
            found.setdefault(name, path)
    return dict(sorted(found.items()))


def _entries(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in folder.glob("*.yaml")}


_kept: Final = cache(_entries)
"""Of folders that nothing is added to while syncwall runs."""


def names(kind: CatalogueKind) -> list[str]:
    """Names of all entries of a kind, in alphabetical order."""
    return list(paths(kind))


def titles(kind: CatalogueKind) -> dict[str, str]:
    """Names of all entries of a kind, with what their makers call them."""
    values = {name: read_document(path).value for name, path in paths(kind).items()}
    return {
        name: str((value if isinstance(value, dict) else {}).get("title") or name)
        for name, value in values.items()
    }


def find(kind: CatalogueKind, name: str) -> Path:
    """The file that describes `name`; InputError suggests the nearest name."""
    found = known(kind, name)
    if found is not None:
        return found
    hint = _other_kind(kind, name)
    hint = hint or did_you_mean(_plain(name), [*paths(kind), *dict(_aliases(kind))], count=3)
    raise InputError.of(f'unknown {kind} "{name}"{hint or f" (see: syncwall show {kind.folder})"}')


def known(kind: CatalogueKind, name: str) -> Path | None:
    """The file that describes `name`; None if there is none."""
    wanted = _plain(name)
    return paths(kind).get(wanted) or dict(_aliases(kind)).get(wanted)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def _other_kind(kind: CatalogueKind, name: str) -> str:
    """What `name` is instead, and for a device which clusters have it; nothing if unknown."""
    others = (CatalogueKind.CLUSTER, CatalogueKind.MODEL, CatalogueKind.DEVICE)
    other = next((one for one in others if one is not kind and known(one, name)), None)
    if other is None:
        return ""
    found = f", which is a {other}"
    if kind is not CatalogueKind.CLUSTER or other is not CatalogueKind.DEVICE:
        return found
    having = [at for at, path in paths(kind).items() if _has_device(path, name)]
    device = read_document(known(other, name) or Path()).value
    having += [f"1x{_plain(name)} to 8x{_plain(name)}"] * ("pcie" in device and "scale_up" not in device)
    return f"{found}; clusters with it: {', '.join(having) or 'none here, write yours as a file'}"


def _has_device(path: Path, name: str) -> bool:
    """True if the file of a cluster names that device."""
    value = read_document(path).value
    node = value.get("node") if isinstance(value, dict) else None
    device = node.get("device") if isinstance(node, dict) else None
    kind = CatalogueKind.DEVICE
    return isinstance(device, str) and known(kind, device) == known(kind, name)


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
    value: dict[str, Any] = read_document(packed_or_plain(BUILT_IN / "sources.yaml")).value
    return value
