"""Published runs as fits read them: only calibration rows without doubt decide constants."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from syncwall.validate.split import RowUse, doubt, part_of
from syncwall.validate.table import RunRow, read_tables


def rows_of(directories: Sequence[Path]) -> list[RunRow]:
    """All rows of the tables in `directories`, of the built-in ones if there are none."""
    where: Sequence[Path | None] = directories or [None]
    return [row for directory in where for row in read_tables(directory)]


def readable(rows: Iterable[RunRow], also: Sequence[str] = ()) -> dict[str, list[RunRow]]:
    """Rows that decide constants, by source; those of the sources `also` count as calibration."""
    found: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        if (part_of(row) is RowUse.CALIBRATION or row.source in also) and not doubt(row):
            found[row.source].append(row)
    return found
