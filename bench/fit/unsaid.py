"""What people choose who do not say what.

Of a run that does not state its micro batch, virtual stages or recomputation, the fastest way that
fits is taken; whoever ran it was not always that lucky. Here what calibration rows do state is
hidden, one field at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from bench import Dirs
from bench.fit.files import comments, readable, rows_of, update
from syncwall.validate.evaluation import UNSAID, fastest
from syncwall.validate.mapping import COLUMNS, ValidationCase, case_of
from syncwall.validate.score import evenly
from syncwall.validate.table import RunRow
from syncwall.validate.table_models import CannotRepresent

MOST_ROWS, FEWEST = 80, 3


def factor(field: str, sources: dict[str, list[RunRow]]) -> float:
    """Stated over fastest: the geometric mean over rows and then over sources, at least 1."""
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


def fit(directories: Dirs, check: bool = False) -> int:
    """Fit catalogue/validation/unsaid.yaml to the published runs of DIR...

    With --check nothing is written: 1 if the file would change.
    """
    sources = readable(rows_of(directories))
    lines = "".join(f"{field}: {factor(field, sources):g}\n" for field in COLUMNS)
    print(lines, end="")
    return update({UNSAID: comments(UNSAID) + lines}, check=check)
