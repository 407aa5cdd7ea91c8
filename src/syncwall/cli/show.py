"""`syncwall show`: what the catalogue knows, and what a file says.

Holds `show`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from syncwall.problems import InputError

What = Literal[
    "devices", "links", "clusters", "models", "prices", "frameworks", "switches", "failures",
    "device", "link", "cluster", "model", "price", "framework", "switch", "failure", "run",
]  # fmt: skip


def show(
    what: Annotated[What, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")],
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None,
    /,
    json: bool = False,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """Show the catalogue: all entries of a kind, or one of them with the source of every number.

    Args:
        what: A list (devices, links, clusters, models, prices, frameworks, switches,
            failures), or one entry (device, link, cluster, model, price, framework, switch,
            failure, run).
        name: Name of the one entry, or a file: YAML, or a Hugging Face config.json for a model.
        json: Print JSON, quantities in SI units.
        catalogue: Look in this directory first (devices/NAME.yaml, ...).
    """
    from syncwall.catalogue import Kind, searched_first

    if what.endswith("s") and name is not None:
        raise InputError.of(f"`show {what}` lists all: for one write `show {_one_of(what)} {name}`")
    if not what.endswith("s") and name is None:
        listed = "runs" if what == "run" else Kind(what).folder
        raise InputError.of(f"`show {what}` needs a name; `show {listed}` lists them")
    with searched_first(catalogue):
        return _list(what, json) if name is None else _one(what, name, json)


def _one_of(listed: str) -> str:
    """The word for one entry of a list."""
    from syncwall.catalogue import Kind

    return next(str(kind) for kind in Kind if kind.folder == listed)


def _list(what: str, json: bool) -> int:
    from syncwall.catalogue import Kind
    from syncwall.show.listing import listing, listing_table

    lines = listing(Kind(_one_of(what)))
    _print(lines if json else listing_table(lines), json)
    return 0


def _one(what: str, name: str, json: bool) -> int:
    from syncwall.catalogue import Kind
    from syncwall.describe import lookup
    from syncwall.show.record import record
    from syncwall.show.sheet import sheet

    entry = lookup.run(name) if what == "run" else lookup.READERS[Kind(what)](name)
    _print(record(entry) if json else sheet(entry), json)
    return 0


def _print(thing: Any, json: bool) -> None:
    from syncwall.show.headed import print_json, print_page

    (print_json if json else print_page)(thing)
