"""Judges: sources that nobody looked at, scored once for each release.

Holds `judged` (their figures), `remembered` and `remember` (docs/judged.json, which only grows),
and the two blocks of the pages. A source that `catalogue/validation/split.yaml` does not list is a
judge; once it was looked at, it moves into the list and judges no longer.
"""

import json
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.accuracy_goals import Goals
from bench.accuracy_tables import markdown, percent
from syncwall.validate.report import reported
from syncwall.validate.split import RowUse, part_of
from syncwall.validate.table import RunRow

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "judged.json"
Figures = dict[str, Any]


def judged(rows: Sequence[RunRow]) -> Figures:
    """The figures of the judges among `rows`: means over sources, none of a single one."""
    found = reported([row for row in rows if part_of(row) is RowUse.JUDGE])
    one = found.summary
    if one.mape is None:
        raise SystemExit("no source among these tables is a judge")
    return {
        "what": "sources of the second collection that no fit has read and nobody looked at",
        "sources": one.sources, "n": one.n, "mape": round(one.mape, 4),
        "median_ape": round(one.median_ape or 0.0, 4),
        "coverage80_sources": round(one.coverage80_sources or 0.0, 4),
    }  # fmt: skip


def remembered() -> list[Figures]:
    """All that was ever judged, the oldest first."""
    found: list[Figures] = json.loads(FILE.read_text())
    return found


def remember(figures: Figures) -> None:
    """Add `figures` of today's commit to docs/judged.json, better or worse."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True,
        cwd=ROOT,
    ).stdout.strip()  # fmt: skip
    today = {"date": datetime.now(UTC).date().isoformat(), "commit": commit}
    FILE.write_text(json.dumps([*remembered(), today | figures], indent=1) + "\n")


def judged_table(figures: Figures, goals: Goals) -> str:
    """Every score of judges, the newest first."""
    del figures, goals
    rows = [
        [one["date"], f"`{one['commit']}`", one["what"], str(one["sources"]), str(one["n"]),
         percent(one["mape"]), percent(one["coverage80_sources"], 0)]
        for one in reversed(remembered())
    ]  # fmt: skip
    header = "date | commit | judges | sources | runs | mean error | covered"
    table = markdown(header, rows)
    return table.replace("|---|---:|---:|", "|---|---|---|", 1)


def judged_line(figures: Figures, goals: Goals) -> str:
    """What to expect of a run that nobody has seen."""
    del figures, goals
    first, last = remembered()[0], remembered()[-1]
    return (
        f"On 24 sources collected after the model was built, which nobody had looked"
        f" at, the mean error was **{percent(first['mape'])}%** and the 80% interval covered"
        f" **{percent(first['coverage80_sources'], 0)}%** ({first['date']})."
        f" The newest score of judges is **{percent(last['mape'])}%** over {last['sources']}"
        f" sources and {last['n']} runs, covered {percent(last['coverage80_sources'], 0)}%"
        f" ({last['date']})."
    )
