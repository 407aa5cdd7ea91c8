"""Lines of a text file with their numbers, and what was wrong with the file.

Holds `LogLines`. Logs mix the output of many processes: colour codes, carriage returns and the rank
that a launcher puts before each line ("12: ") are taken off.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from syncwall.problems import Problem
from syncwall.read.limited import open_limited

_LINE_BYTES = 1 << 16
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_LAUNCHER = re.compile(
    r"\s{0,8}(?:\[[\w.,-]{1,64}\]:|\[\d{1,2},\d{1,9}\]<std(?:out|err)>:|\d{1,7}:)\s?"
)


class LogLines:
    """Iterates over (number from 1, text); a line above 64 KiB comes in pieces of one number."""

    def __init__(self, path: Path | str) -> None:
        self.source = str(path)
        self.problems: tuple[Problem, ...] = ()
        """Known once the end has been reached."""

    def __iter__(self) -> Iterator[tuple[int, str]]:
        number, begins = 0, True
        with open_limited(self.source) as stream:
            while raw := stream.readline(_LINE_BYTES):
                number += begins
                begins = raw.endswith(b"\n")
                text = raw.decode("utf-8", "replace").rstrip("\r\n")
                yield number, _COLOUR.sub("", text) if "\x1b" in text else text
            if stream.problem is not None:
                self.problems = (stream.problem,)


def without_launcher(text: str) -> str:
    """`text` without the rank that srun, mpirun or torchrun puts before a line."""
    found = _LAUNCHER.match(text)
    return text[found.end() :] if found else text
