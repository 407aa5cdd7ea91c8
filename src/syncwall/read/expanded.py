"""The files that a user names, by what they are.

Holds `expanded`: directories are opened, and what is in them counts as far as it is known.
"""

from collections.abc import Sequence
from pathlib import Path

from syncwall.problems import InputError, Problem
from syncwall.read.detect import FileKind, kind_of

Files = dict[FileKind, list[Path]]


def expanded(paths: Sequence[Path]) -> tuple[Files, list[Problem]]:
    """Files by kind, and those in directories that are of no known kind.

    A file that is named itself must be known; else `InputError`.
    """
    found: Files = {}
    unknown: list[Problem] = []
    for path in paths:
        if not path.is_dir():
            found.setdefault(kind_of(path), []).append(path)
            continue
        inside = sorted(one for one in path.rglob("*") if one.is_file())
        if not inside:
            raise InputError.of("is an empty directory", file=str(path))
        for one in inside:
            try:
                found.setdefault(kind_of(one), []).append(one)
            except InputError as error:
                unknown += error.problems
    if not found:
        raise InputError(unknown[:10])
    return found, unknown
