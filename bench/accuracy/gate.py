"""Whether accuracy got worse: the gate of continuous integration, and the accepted figures."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import ROOT, Dirs, commit
from bench.accuracy.figures import Figures, figures, gated, read_goals
from bench.accuracy.pages import BUILT_IN, JUDGED, remembered, rewritten, stale
from bench.fit.files import rows_of
from syncwall.validate.accuracy_report import reported
from syncwall.validate.score import read_baselines
from syncwall.validate.table import RowUse, RunRow, corpus_part

ACCEPTED = ROOT / "docs" / "accuracy.json"
WORSE = 0.005
"""Most that the mean error of a set may grow; half of what new software releases change."""
FEWEST = 3
"""Rows from which on the error of a set means something."""


@dataclass(frozen=True, slots=True)
class Change:
    """A set before and now; 0 rows and no error if it was not there, or is not."""

    name: str
    n_before: int
    n: int
    n_all_before: int
    n_all: int
    mape_before: float | None
    mape: float | None

    @property
    def points(self) -> float:
        if self.mape is None or self.mape_before is None:
            return 0.0
        return 100 * (self.mape - self.mape_before)

    @property
    def worse(self) -> bool:
        return min(self.n, self.n_before) >= FEWEST and self.points > 100 * WORSE + 1e-9

    @property
    def lost(self) -> bool:
        return self.n < self.n_before or self.n_all < self.n_all_before

    @property
    def verdict(self) -> str:
        """One word, for the table; "better" by as much as would not be tolerated the other way."""
        if self.worse or self.lost:
            return "WORSE" if self.worse else "LOST ROWS"
        if min(self.n, self.n_before) >= FEWEST and self.points < -100 * WORSE:
            return "better"
        return "new" if not self.n_all_before else ""

    @property
    def errors(self) -> str:
        return f"{_percent(self.mape_before)} -> {_percent(self.mape)}"


def changes(accepted: Figures, found: Figures) -> list[Change]:
    """Every set of either side. Collectives are compared only if they were measured again."""
    before, now = dict(_entries(accepted)), dict(_entries(found))
    if not found["collectives"]:
        before = {key: one for key, one in before.items() if key[0] != "collectives"}
    lines = []
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key, {}), now.get(key, {})
        n, n_all = ([one.get(name, 0) for one in (old, new)] for name in ("n", "n_all"))
        errors = (old.get("mape"), new.get("mape"))
        lines.append(Change(key[1], n[0], n[1], n_all[0], n_all[1], *errors))
    return lines


def _entries(figures: Figures) -> Iterator[tuple[tuple[str, str], Figures]]:
    for one in figures["sets"]:
        yield (one["kind"], one["name"]), one
    for line in figures["collectives"]:
        entry = {"n": line["rows"], "n_all": line["rows"], "mape": line["error"]}
        yield ("collectives", line["name"]), entry


def faults(found: Sequence[Change], coverage: float | None, band: tuple[float, float]) -> list[str]:
    said = []
    for one in found:
        if one.worse:
            more = f"more than {100 * WORSE:g} points worse"
            said.append(f"{one.name}: mean error {one.errors}, {more}")
        if one.lost:
            before = f"{one.n_before} runs ({one.n_all_before} with doubtful ones)"
            said.append(f"{one.name}: {before} -> {one.n} ({one.n_all})")
    if coverage is None or not band[0] <= coverage <= band[1]:
        shown = "nothing" if coverage is None else _percent(coverage)
        limits = f"{100 * band[0]:g} to {100 * band[1]:g}%"
        said.append(f"80% intervals cover {shown} of the held-out runs, not {limits}")
    return said


def table(found: Sequence[Change]) -> str:
    moved = [one for one in found if abs(one.points) >= 0.05 or one.lost or one.verdict]
    if not moved:
        return "no set changed"
    lines = [f"{'set':48} {'runs':>12} {'mean error':>18} {'points':>7}"]
    for one in sorted(moved, key=lambda one: (not one.lost, -one.points)):
        runs = f"{one.n_before} -> {one.n}" if one.n != one.n_before else f"{one.n}"
        lines.append(f"{one.name:48} {runs:>12} {one.errors:>18} {one.points:+7.1f}  {one.verdict}")
    return "\n".join(line.rstrip() for line in lines)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"


def accepted(file: Path = ACCEPTED) -> Figures:
    found: Figures = json.loads(file.read_text())
    return found


def measured(directories: Sequence[Path]) -> Figures:
    rows = [row for row in rows_of(directories) if corpus_part(row) is not RowUse.JUDGE]
    if not directories:
        return gated(figures(reported(rows)))
    beside = directories[0].parent
    baselines = beside / "baselines" / "baselines.csv"
    collectives = beside / "measured" / "01_collectives"
    report = reported(rows, read_baselines(baselines) if baselines.exists() else None)
    return figures(report, collectives if collectives.exists() else None)


def score_judges(rows: Sequence[RunRow]) -> None:
    """Score the judges among `rows`, and add it to docs/judged.json, better or worse.

    Only means over sources are kept. A source that `catalogue/validation/split.yaml` does not list
    is a judge; once it was looked at, it moves into the list and judges no longer.
    """
    one = reported([row for row in rows if corpus_part(row) is RowUse.JUDGE]).summary
    if one.mape is None:
        raise SystemExit("no source among these tables is a judge")
    figures = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "what": "sources of the second collection that no fit has read and nobody looked at",
        "sources": one.sources,
        "n": one.n,
        "mape": round(one.mape, 4),
        "median_ape": round(one.median_ape or 0.0, 4),
        "coverage80_sources": round(one.coverage80_sources or 0.0, 4),
    }
    JUDGED.write_text(json.dumps([*remembered(), figures], indent=1) + "\n")


def accuracy(
    directories: Dirs = (),
    accept: bool = False,
    check: bool = False,
    tables: bool = False,
    judge: bool = False,
) -> int:
    """Errors on published runs, compared with the accepted ones and printed.

    Each DIR holds tables of published runs; DIR/../baselines/baselines.csv and DIR/../measured of
    the first are used if they are there. Without DIR the runs that come with syncwall are taken, so
    every clone has a gate. Sources that are judges are not even predicted, unless with --judge.

    Args:
        directories: Tables of published runs.
        accept: Write docs/accuracy.json, or docs/accuracy_built_in.json without DIR.
        check: Exit code 1 if a set got worse than that file says or lost rows, if the intervals
            cover too few or too many runs, or if a page is not up to date.
        tables: Write the blocks of README.md and docs/explanation/accuracy.md; needs no DIR.
        judge: Score the judges instead, once for each release; adds to docs/judged.json.
    """
    code = 0
    if judge:
        if not directories:
            raise SystemExit("--judge needs DIR: no judge comes with syncwall")
        score_judges(rows_of(directories))
    elif directories or accept or check or not tables:
        file = ACCEPTED if directories else BUILT_IN
        found = measured(directories)
        code = _compare(file, found) * check
        if accept:
            if directories and not (found["collectives"] and found["summary"]["against"]):
                raise SystemExit("--accept needs baselines and measured collectives beside DIR")
            file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
            print(f"accepted in {file.relative_to(ROOT)}")
    data = accepted() if tables or check else {}
    for page in stale(data) if tables else ():
        page.write_text(rewritten(page.read_text(), data))
        print(f"rewritten: {page.relative_to(ROOT)}")
    for page in stale(data) if check else ():
        print(f"not up to date: {page.relative_to(ROOT)}; run python -m bench accuracy --tables")
        code = 1
    return code


def _compare(file: Path, found: Figures) -> int:
    compared = changes(accepted(file), found) if file.exists() else []
    print(table(compared) if compared else "nothing is accepted yet")
    one = found["summary"]
    print(f"held-out sources: mean error {one['mape']:.1%}, mean of medians {one['median_ape']:.1%},")
    print(f"80% intervals cover {one['coverage80_rows']:.1%} of {one['n']} runs")
    wrong = faults(compared, one["coverage80_rows"], read_goals().coverage80)
    for line in wrong:
        print(f"worse: {line}")
    if any(change.verdict in ("better", "new") for change in compared) and not wrong:
        print("better: accept with python -m bench accuracy [DIR...] --accept --tables")
    return int(bool(wrong))
