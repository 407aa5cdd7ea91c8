"""What the pages Catalogue and Findings show: entries with their sources, articles of
experiments.
"""

from collections import Counter
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import syncwall
from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe import Cluster, Device, Link, Model, lookup
from syncwall.describe.base import CatalogueEntry, Description
from syncwall.describe.device import Switch
from syncwall.describe.software import Framework
from syncwall.problems import InputError, did_you_mean
from syncwall.records import described
from syncwall.report import LabResult, Source, loads_of, read_source
from syncwall.show.article import article
from syncwall.show.blocks import Cell, Table, Verdict, View
from syncwall.show.entries import CONVENTIONS, Row, cell, headings, is_number, rows_of, sources_used
from syncwall.show.measurement import busy_words, load_words
from syncwall.show.records.listing import listing
from syncwall.show.write.parts import Markup, linked, markup, panel, scrolled, table, tag
from syncwall.show.write.whole_files import body

_MEANS: Final = {
    "measured": "somebody ran it and timed it",
    "fitted": "chosen so that predictions meet measurements",
    "datasheet": "what the maker says",
    "assumed": "a guess that nobody has checked",
}
KINDS: Final = tuple(str(kind) for kind in lookup.READERS)
"""Kinds of entries that are shown."""
_KIND_OF: Final[dict[type[CatalogueEntry], CatalogueKind]] = {
    Device: CatalogueKind.DEVICE,
    Link: CatalogueKind.LINK,
    Cluster: CatalogueKind.CLUSTER,
    Model: CatalogueKind.MODEL,
    Switch: CatalogueKind.SWITCH,
    Framework: CatalogueKind.FRAMEWORK,
}
_NAMED: Final = {
    "link": CatalogueKind.LINK,
    "pcie": CatalogueKind.LINK,
    "device": CatalogueKind.DEVICE,
    "switch": CatalogueKind.SWITCH,
}
"""Kinds of entries that fields of these names refer to."""


@cache
def listed() -> dict[str, Any]:
    """Devices, links, clusters, models, switches, frameworks, failure rates and prices.

    One table for every kind; cells as text, with their units.
    """
    return {"kinds": [_table(CatalogueKind(kind)) for kind in KINDS], "conventions": CONVENTIONS}


def _table(kind: CatalogueKind) -> dict[str, Any]:
    lines = listing(kind)
    columns = list(lines[0]) if lines else []
    return {
        "kind": str(kind),
        "folder": kind.folder,
        "columns": [
            {"name": name, "is_number": is_number(lines, one)}
            for one, name in zip(columns, headings(columns), strict=True)
        ],
        "rows": [
            {
                "name": line.get("name") or line["seller"],
                "cells": [cell(one, line[one]) for one in columns],
                "values": [line[one] for one in columns],
            }
            for line in lines
        ],
    }


@cache
def shown(kind: str, name: str) -> dict[str, Any]:
    """One entry: its lines, its sources, and the whole of it as `show --json` prints it."""
    of = CatalogueKind(kind)
    known = catalogue.names(of)  # a name, never a path: nothing else is opened
    if name not in known:
        raise InputError.of(f'unknown {kind} "{name}"{did_you_mean(name, known, count=3)}')
    entry = lookup.READERS[of](name)
    follows, rows = rows_of(entry)
    used = sources_used(entry, rows)
    return {
        "kind": kind,
        "name": name,
        "title": getattr(entry, "title", None) or name,
        "aliases": list(getattr(entry, "aliases", ())),
        "note": getattr(entry, "note", None),
        "follows": [_line(row) for row in follows],
        "rows": [_line(row) for row in rows],
        "sources": [{"key": key, **source_text(key)} for key in used],
        "html": _html(kind, entry, follows, rows, used),
        "record": described(entry),
        "command": f"syncwall show {kind} {name}",
    }


def _html(kind: str, entry: Description, follows: list[Row], rows: list[Row], used: list[str]) -> Markup:
    """The numbers with their trust and source, what follows from them, and the sources."""
    counts = Counter(str(row.provenance.trust) for row in rows if row.provenance)
    trusts = [tag("span", _badge(trust), f" {counts[trust]}") for trust in _MEANS if counts[trust]]
    note = getattr(entry, "note", None)
    use = {kind: getattr(entry, "name", "")}
    link = tag("p", tag("a", "Predict a step with it", data={"page": "predict", "run": use}))
    columns = ("what", "value", "trust", "source", "remark") if counts else ("what", "value")
    stated = table(
        Table(columns, tuple(_cells(row, len(columns)) for row in rows), words=5),
        class_="numbers stacked" if counts else "numbers follows",
        is_head_hidden=not counts,
    )
    derived = Table(("what", "value"), tuple(_cells(row, 2) for row in follows), words=2)
    sources = [
        (
            tag("dt", tag("code", key), id=f"source-{key}"),
            tag("dd", "{title}. {author}, {date}. ".format(**found), _where(found)),
        )
        for key, found in ((key, source_text(key)) for key in used)
    ]
    return markup(
        panel(
            "Numbers",
            tag("p", note) if note else None,
            scrolled("Numbers", stated),
            link if kind in ("model", "cluster") else None,
            beside=trusts,
        ),
        panel(
            "What follows from them",
            scrolled("What follows", table(derived, class_="numbers follows", is_head_hidden=True)),
        )
        if follows
        else None,
        panel("Sources", tag("dl", sources, class_="sources")) if sources else None,
    )


def _where(source: dict[str, str]) -> Markup:
    return tag("span", linked(source["where"]), class_="quiet")


def _badge(trust: str) -> Markup:
    return tag("span", trust, class_=f"badge {trust}", title=_MEANS[trust])


def _cells(row: Row, count: int) -> tuple[str, ...]:
    """A line with as many columns; the value leads to the entry that it names."""
    name = Cell(row.label, "part" if row.is_part else "", row={"label": row.label})
    text, entry, origin = row.text, _reference(row), row.provenance
    if entry is not None:
        keys = {f"catalogue.{key}": value for key, value in entry.items()}
        text = tag("a", text, data={"set": keys})
    if origin is None:
        return (name, text, "", "", row.about)[:count]
    remarks = [
        row.about,
        f"stated {origin.stated}" if origin.stated else "",
        origin.note or "",
        *(f"but: {other}" for other in origin.others),
    ]
    dated = tag("span", f" {origin.dated}", class_="quiet") if origin.dated else None
    title = (origin.known_source or {}).get("title")
    source = markup(tag("span", origin.source, title=title) if origin.source else None, dated)
    remark = "; ".join(filter(None, remarks))
    return name, text, _badge(str(origin.trust)), source, remark


def _line(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"label": row.label, "text": row.text}
    if row.is_part:
        found["is_part"] = True
    if row.about:
        found["about"] = row.about
    if row.provenance is not None:
        found["provenance"] = row.provenance.as_dict()
    if (entry := _reference(row)) is not None:
        found["entry"] = entry
    return found


def _reference(row: Row) -> dict[str, str] | None:
    """The entry that a line names, if the catalogue has it."""
    if row.entry is not None:
        kind, name = _KIND_OF.get(type(row.entry)), row.entry.name
    else:
        kind, name = _NAMED.get(row.label.rpartition(" ")[2]), row.text
    if kind is None or name not in catalogue.names(kind):
        return None
    return {"kind": str(kind), "name": name}


def source_text(key: str) -> dict[str, str]:
    """Title, author, date and place of a source, as text."""
    source = catalogue.sources().get(key, {})
    return {name: str(source.get(name, "")) for name in ("title", "author", "date", "where")}


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


def listed_findings(folders: tuple[Path, ...]) -> dict[str, Any]:
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


def shown_finding(folders: tuple[Path, ...], name: str) -> dict[str, Any]:
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
        "question": data.experiment.question if isinstance(data, LabResult) else None,
        "made_at": result.made_at,
        "complete": result.complete,
        "machine": f"{host.cpu}, {host.cores} cores, {host.system}" if host else "",
        "load": busy_words(loads) or load_words(loads),
        "says": list(verdict.lines[:_SAID]),
        "is_built_in": path.parent == RECORDED,
        "file": path.name,
    }
