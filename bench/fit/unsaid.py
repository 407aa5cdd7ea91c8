"""What people choose who do not say what: `python bench/fit/unsaid.py DIR... [--check]`.

Of a run that does not state its micro batch, virtual stages or recomputation, the fastest way that
fits is taken; whoever ran it was not always that lucky. Here what calibration rows do state is
hidden, one field at a time: time of what they state over that of the fastest way, the geometric
mean over rows and then over sources. Regenerates catalogue/validation/unsaid.yaml. With --check
nothing is written; the exit code is 1 if the file would change.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from syncwall.validate.evaluation import UNSAID, fastest
from syncwall.validate.hardware import CannotRepresent
from syncwall.validate.mapping import COLUMNS, ValidationCase, case_of
from syncwall.validate.score import evenly
from syncwall.validate.split import RowUse, doubt, part_of
from syncwall.validate.table import RunRow, read_tables

MOST_ROWS, FEWEST = 80, 3
HEAD = """\
# Time of what a source states over that of the fastest way that fits, by the field that is hidden:
# what to expect of a run whose source does not say. Written by bench/fit/unsaid.py from calibration
# rows.
"""


def factor(field: str, sources: dict[str, list[RunRow]]) -> float:
    """Stated over fastest, as a mean over sources; at least 1."""
    means = []
    for rows in sources.values():
        pairs = list(_pairs(field, evenly(rows, MOST_ROWS)))
        if len(pairs) >= FEWEST:
            stated, hidden = (fastest(cases) for cases in zip(*pairs, strict=True))
            ratios = [a.step_s / b.step_s for a, b in zip(stated, hidden, strict=True)]
            means.append(float(np.log(ratios).mean()))
    return max(round(float(np.exp(np.mean(means))), 3), 1.0)


def _pairs(field: str, rows: Sequence[RunRow]) -> Iterator[tuple[ValidationCase, ValidationCase]]:
    """Cases as stated, and with `field` hidden, where that leaves a choice."""
    column = COLUMNS[field]
    for row in rows:
        if not row.text(column):
            continue
        try:
            stated, hidden = case_of(row), case_of(replace(row, cells={**row.cells, column: ""}))
        except CannotRepresent:
            continue
        if field in hidden.open_fields:
            yield stated, hidden


def text_of(directories: Sequence[Path]) -> str:
    """The file."""
    sources: dict[str, list[RunRow]] = {}
    for row in (row for directory in directories for row in read_tables(directory)):
        if part_of(row) is RowUse.CALIBRATION and not doubt(row):
            sources.setdefault(row.source, []).append(row)
    return HEAD + "".join(f"{field}: {factor(field, sources):g}\n" for field in COLUMNS)


def main(arguments: Sequence[str]) -> int:
    """Write or check the file."""
    text = text_of([Path(one) for one in arguments if not one.startswith("-")])
    same = UNSAID.exists() and UNSAID.read_text(encoding="utf-8") == text
    if not same and "--check" not in arguments:
        UNSAID.write_text(text, encoding="utf-8")
    print(text + ("unchanged" if same else "changed"))
    return 1 if "--check" in arguments and not same else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
