"""The arguments that a verb takes, as its help lists them."""

import contextlib
import io
import re
from importlib import import_module
from importlib.util import find_spec

from syncwall.cli import VERBS, main

_LISTED = re.compile(r"^[│ ] ?((?:-h, )?--[a-z]\S*(?: [A-Z]+)?|[A-Z]+) ", re.MULTILINE)


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
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([*command.split(), "--help"])
    listed = _LISTED.findall(text.getvalue())
    return [flag.removeprefix("-h, ").strip() for flag in listed]
