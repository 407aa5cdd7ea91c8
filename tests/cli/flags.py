"""The arguments that a verb takes, as its help lists them."""

import contextlib
import io
import re

from syncwall.cli import main

_LISTED = re.compile(r"^[│ ] ?((?:-h, )?--[a-z]\S*(?: [A-Z]+)?|[A-Z]+) ", re.MULTILINE)


def flags_of(verb: str) -> list[str]:
    """Every argument in the help of `verb` with what it takes, in the order of the help."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([verb, "--help"])
    listed = _LISTED.findall(text.getvalue())
    return [flag.removeprefix("-h, ").strip() for flag in listed]
