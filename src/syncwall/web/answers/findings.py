"""What the Findings page shows: recorded experiments and measurements, as articles.

Holds `listed`, `shown` and `RECORDED`, the folder of those that come with syncwall.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import syncwall
from syncwall.problems import InputError
from syncwall.report import LabData, Source, loads_of, read_source
from syncwall.show.article import article
from syncwall.show.blocks import Verdict, View
from syncwall.show.measurement import busy_words, load_words
from syncwall.show.write.files import body

_PACKAGE: Final = Path(syncwall.__file__).parent
RECORDED: Final = next(
    (
        folder
        for folder in (_PACKAGE / "findings", _PACKAGE.parents[1] / "examples" / "findings")
        if folder.is_dir()
    ),
    None,
)
"""In an installed package, or in a checkout of the repository."""
MOST_FILES: Final = 200
_MOST_BYTES: Final = 20_000_000
_MOST_NOTES: Final = 100_000
_SAID: Final = 2
"""Sentences of the conclusion that the list shows."""


def listed(folders: tuple[Path, ...]) -> dict[str, Any]:
    """Every result of the folders, the newest first, and how many files are none."""
    found, unread = [], []
    for name, path in _paths(folders).items():
        try:
            source, made = _read(path)
        except InputError as error:
            unread.append({"file": path.name, "what": error.problems[0].message})
            continue
        found.append(_summary(name, path, source, made))
    return {
        "findings": sorted(found, key=lambda one: one["made_at"], reverse=True),
        "unread": unread,
    }


def shown(folders: tuple[Path, ...], name: str) -> dict[str, Any]:
    """One result as an article; `name` is one of `listed`, never a path."""
    path = _paths(folders).get(name)
    if path is None:
        raise InputError.of("there is no finding of this name")
    source, made = _read(path)
    return _summary(name, path, source, made) | {"html": body(made)}


def _paths(folders: tuple[Path, ...]) -> dict[str, Path]:
    """Files of all folders by a name that is safe to show."""
    found: dict[str, Path] = {}
    for folder in (*([RECORDED] if RECORDED else []), *folders):
        paths = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])
        for path in paths[:MOST_FILES]:
            name, number = _stem(path), 1
            while name in found:
                number += 1
                name = f"{_stem(path)}-{number}"
            found[name] = path
    return found


def _stem(path: Path) -> str:
    """Its name without endings; an installed package has its findings compressed."""
    return path.name.removesuffix(".gz").removesuffix(".json")


def _read(path: Path) -> tuple[Source, View]:
    try:
        about = path.stat()
    except OSError as error:
        raise InputError.of(f"cannot be read: {error.strerror}") from None
    if about.st_size > _MOST_BYTES:
        raise InputError.of(f"is larger than {_MOST_BYTES // 1_000_000} MB")
    return _made(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=64)
def _made(path: Path, *_: int) -> tuple[Source, View]:
    """Source and article of a file as it is at this time."""
    source = read_source(path)
    return source, article([source], _notes(path))


def _notes(path: Path) -> str:
    """What its author wrote beside it."""
    try:
        beside = path.with_name(f"{_stem(path)}.notes.md")
        return beside.read_text(encoding="utf-8")[:_MOST_NOTES]
    except (OSError, UnicodeDecodeError):
        return ""


def _summary(name: str, path: Path, source: Source, made: View) -> dict[str, Any]:
    result, data = source.result, source.data
    host = result.hosts[0] if result.hosts else None
    verdict = next(block for block in made.blocks if isinstance(block, Verdict))
    loads = loads_of(result, data)
    return {
        "id": name,
        "title": made.title,
        "kind": result.kind,
        "question": data.experiment.question if isinstance(data, LabData) else None,
        "made_at": result.made_at,
        "complete": result.complete,
        "machine": f"{host.cpu}, {host.cores} cores, {host.system}" if host else "",
        "load": busy_words(loads) or load_words(loads),
        "says": list(verdict.lines[:_SAID]),
        "is_built_in": path.parent == RECORDED,
        "file": path.name,
    }
