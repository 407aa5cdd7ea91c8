"""What the model gets wrong on published runs, row by row, with the part of each.

`catalogue/validation/residuals.csv` has the nearest validated run of a prediction; intervals are
learned from it. Doubtful rows and those of judges are left out; of long sources every part gives at
most `MOST_ROWS` rows, evenly spread.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from bench import Dirs
from bench.fit.files import update
from bench.fit.rows import rows_of
from syncwall.answer.interval import TABLE
from syncwall.answer.traits import USED
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import evenly
from syncwall.validate.split import RowUse, doubt, organisation_of, part_of

MOST_ROWS = 150


def _line(outcome: ValidatedRun) -> dict[str, str]:
    traits, case = outcome.traits, outcome.case
    names = ("architecture", "precision", "framework", "experts", "frozen_weights")
    return {
        "id": case.row.id,
        "source": case.row.source,
        "organisation": organisation_of(case.row.source),
        "part": str(part_of(case.row)),
        **{name: str(getattr(traits, name)) for name in names},
        **{name: str(used) for name, used in zip(USED, traits.used, strict=True)},
        "gpus": f"{outcome.layout.gpus}",
        "parameters": f"{case.model.parameters:.4g}",
        "seq": f"{case.seq}",
        "calibrated": str(traits.calibrated),
        "waiting": f"{outcome.waiting:.3f}",
        "unsaid": f"{outcome.unsaid}",
        "ratio": f"{outcome.ratio:.3f}",
    }


def residuals(directories: Sequence[Path]) -> str:
    rows = (row for row in rows_of(directories) if part_of(row) is not RowUse.JUDGE)
    groups: dict[tuple[str, str], list[ValidatedRun]] = {}
    for outcome in outcomes(cases_of(row for row in rows if not doubt(row))):
        row = outcome.case.row
        groups.setdefault((row.source, str(part_of(row))), []).append(outcome)
    lines = [_line(one) for members in groups.values() for one in evenly(members, MOST_ROWS)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def fit(directories: Dirs, check: bool = False) -> int:
    """Write catalogue/validation/residuals.csv from the published runs of DIR...

    With --check nothing is written: 1 if the file would change.
    """
    text = residuals(directories)
    print(f"{text.count(chr(10)) - 1} runs")
    return update({TABLE: text}, check=check)
