"""`syncwall show`: what the catalogue knows, what a file says, and what words mean.

Holds `show`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from syncwall.ask.question import Argument, LocalFolder
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.answer.published_runs import PublishedRun
    from syncwall.show.blocks import View
    from syncwall.show.records.listing import ShowRecord

What = Literal[
    "devices",
    "links",
    "clusters",
    "models",
    "prices",
    "frameworks",
    "switches",
    "failures",
    "terms",
    "plugins",
    "device",
    "link",
    "cluster",
    "model",
    "price",
    "framework",
    "switch",
    "failure",
    "term",
    "run",
]


class ShowCommand(Command):
    """Show the catalogue: all entries of a kind, or one of them with the source of every number."""

    what: Annotated[What, Argument("WHAT", positional=True)]
    """A list (devices, links, clusters, models, prices, frameworks, switches, failures, terms,
    plugins), or one entry (device, link, cluster, model, price, framework, switch, failure, term,
    run)."""
    name: Annotated[str | None, Argument("NAME", positional=True)] = None
    """Name of the one entry, or a file: YAML, or a Hugging Face config.json for a model; of a run that
    was published, as predictions name it."""
    catalogue: LocalFolder | None = None
    """Look in this directory first (devices/NAME.yaml, ...)."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.catalogue import catalogue_overlay

        kind, folder = _kind(self.what)
        if self.what == folder and self.name is not None:
            raise InputError.of(f"`show {self.what}` lists all: for one write `show {kind} {self.name}`")
        if self.what == "run" and self.name is None:
            raise InputError.of("`show run` needs a run file, or the name of a published run")
        if self.what != folder and self.name is None:
            raise InputError.of(f"`show {self.what}` needs a name; `show {folder}` lists them")
        self.out.check()
        with catalogue_overlay(self.catalogue):
            view, record = _list(kind) if self.name is None else _one(kind, self.name)
        self.out.write_data("show", lambda: view, lambda: record)
        return 0


def _kind(what: str) -> tuple[str, str]:
    """What one entry is called, and what all of them are."""
    from syncwall.catalogue import CatalogueKind

    known = {str(kind): kind.folder for kind in CatalogueKind} | {"term": "terms", "run": "runs"}
    known["plugin"] = "plugins"
    return next((one, all_) for one, all_ in known.items() if what in (one, all_))


def _list(kind: str) -> "tuple[View, ShowRecord]":
    from syncwall.catalogue import CatalogueKind
    from syncwall.records import plain
    from syncwall.show.entries import listing_view, plugins_view, terms_view
    from syncwall.show.records.listing import ShowRecord, listing, plugin_lines
    from syncwall.show.terms import terms

    if kind == "term":
        return terms_view(), ShowRecord(kind, plain(terms()))
    if kind == "plugin":
        lines = plugin_lines()
        return plugins_view(lines), ShowRecord(kind, lines)
    return listing_view(CatalogueKind(kind)), ShowRecord(kind, listing(CatalogueKind(kind)))


def _published(name: str) -> "PublishedRun | None":
    """The published run of this name; None if it names a file; InputError if it is neither."""
    from pathlib import Path

    from syncwall.answer.published_runs import published_run
    from syncwall.describe.names import looks_like_path

    if looks_like_path(name) or Path(name).exists():
        return None
    found = published_run(name)
    if found is None:
        raise InputError.of(f'"{name}" is neither a file nor a published run, such as titan-202412-t1-0')
    return found


def _one(kind: str, name: str) -> "tuple[View, ShowRecord]":
    from syncwall.catalogue import CatalogueKind
    from syncwall.describe import lookup
    from syncwall.records import described, plain
    from syncwall.show.entries import entry_view, published_run_view, term_view
    from syncwall.show.records.listing import ShowRecord
    from syncwall.show.terms import term

    if kind == "term":
        found = term(name)
        return term_view(found), ShowRecord(kind, entry=plain(found))
    if kind == "run" and (published := _published(name)) is not None:
        return published_run_view(published), ShowRecord(kind, entry=plain(published))
    entry = lookup.run(name) if kind == "run" else lookup.READERS[CatalogueKind(kind)](name)
    return entry_view(entry), ShowRecord(kind, entry=described(entry))
