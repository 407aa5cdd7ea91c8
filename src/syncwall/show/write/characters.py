"""Letters that every terminal has: streams that cannot write "█", "−" or "µ" get ASCII.

Holds `fall_back`, which is called once, when the command line starts.
"""

import codecs
import io
import os
import sys
from pathlib import Path
from typing import Final

_PLAIN: Final = {
    "−": "-",
    "–": "-",
    "×": "x",
    "·": "-",
    "…": "~",
    "µ": "u",
    "±": "+-",
    "≥": ">=",
    "≤": "<=",
    "█": "#",
    "░": ".",
    "▏": "|",
    "▸": ">",
    "●": "*",
    "○": "o",
    "◉": "@",
    "┤": "|",
    "└": "+",
    "─": "-",
    "“": '"',
    "”": '"',
    "’": "'",
    "→": "->",
    "√": "sqrt",
    "²": "2",
    "\u00a0": " ",
    **dict(zip("▁▂▃▄▅▆▇", "__..::#", strict=True)),
}
_HANDLER: Final = "syncwall.plain"


def fall_back() -> None:
    """From now on what a stream cannot write is written in ASCII; in the C locale all of it is."""
    codecs.register_error(_HANDLER, _replaced)
    if sys.stdout is None:  # closed by the shell
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end
    sys.stderr = sys.stderr or sys.stdout
    encoding = "ascii" if _is_c_locale() else None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors=_HANDLER)


def _is_c_locale() -> bool:
    """True if the user asks for the C locale; where nothing is set, UTF-8 is the rule today."""
    asked = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return asked in ("C", "POSIX") and "PYTHONIOENCODING" not in os.environ


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in letters), error.end
