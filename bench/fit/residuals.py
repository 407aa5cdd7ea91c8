"""What the model gets wrong on published runs: `python bench/fit/residuals.py DIR... [--check]`.

Each DIR holds tables of published runs. Regenerates catalogue/validation/residuals.csv, which has
the nearest validated run of a prediction and from which `widths.py` learns intervals. Doubtful rows
and those of judges are left out; of long sources every part gives at most `MOST_ROWS` rows, evenly
spread. With --check nothing is written; the exit code is 1 if the file would change.
"""

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from syncwall.answer.interval import TABLE
from syncwall.answer.traits import USED
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import evenly
from syncwall.validate.split import RowUse, doubt, organisation_of, part_of
from syncwall.validate.table import read_tables

MOST_ROWS = 150


def _line(outcome: ValidatedRun) -> dict[str, str]:
    traits, case = outcome.traits, outcome.case
    return {
        "id": case.row.id,
        "source": case.row.source,
        "organisation": organisation_of(case.row.source),
        "part": str(part_of(case.row)),
        "architecture": traits.architecture,
        "precision": traits.precision,
        "framework": traits.framework,
        "experts": str(traits.experts),
        "frozen_weights": str(traits.frozen_weights),
        **{name: str(used) for name, used in zip(USED, traits.used, strict=True)},
        "gpus": f"{outcome.layout.gpus}",
        "parameters": f"{case.model.parameters:.4g}",
        "seq": f"{case.seq}",
        "calibrated": str(traits.calibrated),
        "waiting": f"{outcome.waiting:.3f}",
        "unsaid": f"{outcome.unsaid}",
        "ratio": f"{outcome.ratio:.3f}",
    }


def _kept(found: list[ValidatedRun]) -> list[ValidatedRun]:
    """At most `MOST_ROWS` of every source and part, evenly spread."""
    groups: dict[tuple[str, str], list[ValidatedRun]] = {}
    for outcome in found:
        row = outcome.case.row
        groups.setdefault((row.source, str(part_of(row))), []).append(outcome)
    kept: list[ValidatedRun] = []
    for members in groups.values():
        kept += evenly(members, MOST_ROWS)
    return kept


def residuals(directories: Sequence[Path]) -> str:
    """The text of the table."""
    rows = (row for directory in directories for row in read_tables(directory))
    cases = cases_of(r for r in rows if part_of(r) is not RowUse.JUDGE and not doubt(r))
    lines = [_line(outcome) for outcome in _kept(outcomes(cases))]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def main(arguments: list[str]) -> int:
    """Write or check the table."""
    text = residuals([Path(one) for one in arguments if not one.startswith("-")])
    same = TABLE.exists() and TABLE.read_text(encoding="utf-8") == text
    if not same and "--check" not in arguments:
        TABLE.write_text(text, encoding="utf-8")
    print(f"{text.count(chr(10)) - 1} runs; {'unchanged' if same else 'changed'}")
    return 1 if "--check" in arguments and not same else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
