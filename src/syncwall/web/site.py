"""The pages: a shell with navigation around the body of each.

Holds `PAGES` and `page`.
"""

from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from syncwall import __version__
from syncwall.show.template import filled

PAGES: Final = {
    "predict": "Predict",
    "wall": "Sync wall",
    "step": "How a step works",
    "fabric": "Fabric",
    "job": "Job",
    "plan": "Plan",
    "accuracy": "Accuracy",
    "catalogue": "Catalogue",
    "findings": "Findings",
    "api": "API",
}
"""Every page by the name of its files, and what it is called; the first stands at `/`."""


@cache
def page(name: str) -> str:
    """The whole page `name`."""
    folder = files("syncwall.web").joinpath("pages")
    parts = {
        "title": escape(PAGES[name]),
        "nav": "".join(_entry(other, other == name) for other in PAGES),
        "body": folder.joinpath(f"{name}.html").read_text(encoding="utf-8"),
        "name": name,
        "version": escape(__version__),
    }
    return filled(folder.joinpath("shell.html").read_text(encoding="utf-8"), parts)


def address(name: str) -> str:
    """Path of a page."""
    return "/" if name == next(iter(PAGES)) else f"/{name}"


def _entry(name: str, here: bool) -> str:
    current = ' aria-current="page"' if here else ""
    return f'<a href="{address(name)}" data-page="{name}"{current}>{escape(PAGES[name])}</a>'
