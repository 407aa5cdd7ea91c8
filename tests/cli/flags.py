"""The arguments that a verb takes, as its help lists them."""

import contextlib
import io
import re
from importlib import import_module
from importlib.util import find_spec

from syncwall.cli import VERBS, main

_LISTED = re.compile(
    r"^[│ ] ?((?:-\S+(?: [A-Z]+)?, )*)(--[a-z]\S*(?: [A-Z]+)?|[A-Z]+) ", re.MULTILINE
)
"""Short forms, and the argument itself."""


def commands() -> list[str]:
    """Every verb, and of a verb with parts every part: "show", "measure links"."""
    found = []
    for verb in VERBS:
        parts = getattr(import_module(f"syncwall.cli.{verb}"), "PARTS", {})
        written = [part for part in parts if find_spec(f"syncwall.cli.{verb}.{part}")]
        found += [f"{verb} {part}" for part in written] if parts else [verb]
    return found


def flags_of(command: str) -> list[str]:
    """Every argument in the help of `command` with what it takes, in the order of the help."""
    return [flag for flag, _ in _listed(command)]


def short_forms(command: str) -> dict[str, str]:
    """The short form of each argument that has one."""
    return {flag: short for flag, short in _listed(command) if short.startswith("--")}


def _listed(command: str) -> list[tuple[str, str]]:
    """Arguments and their short forms."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([*command.split(), "--help"])
    return [(flag, short.rstrip(", ")) for short, flag in _LISTED.findall(text.getvalue())]
