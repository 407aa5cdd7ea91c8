"""Which lines of a running program are the user's own.

Holds `shown_file`, `UserLine` and `users_line`. Installed packages, Python's library and syncwall
are not the user's: a message points at the line of the user's that called them.
"""

import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import syncwall
from syncwall.problems import Problem

_NOT_USERS = tuple(
    f"{Path(folder).resolve()}/"
    for folder in (
        str(Path(syncwall.__file__).parent),
        *(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)


@dataclass(frozen=True, slots=True)
class UserLine:
    """A place in a file of the user's; line and column count from 1, 0 where nobody knows."""

    file: str
    line: int
    column: int = 0

    def problem(self, message: str) -> Problem:
        """A problem that points at it."""
        return Problem(self.file, self.line, self.column, message)


@cache
def shown_file(file: str) -> str:
    """What to call a file of the user's: its path from here; empty if it is somebody else's."""
    if file.startswith("<"):
        return ""
    path = Path(file).resolve()
    if str(path).startswith(_NOT_USERS) or "site-packages" in path.parts:
        return ""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def users_line(frames: Iterable[tuple[str, int, int]]) -> UserLine | None:
    """The last of `frames` (file, line, column) that is the user's; None if none is."""
    found = None
    for file, line, column in frames:
        if shown := shown_file(file):
            found = UserLine(shown, line, column)
    return found
