"""How accurate predictions are: `python bench/accuracy.py [DIR...] [--accept] [--check]
[--tables]`.

Each DIR holds tables of published runs; DIR/../baselines/baselines.csv and DIR/../measured of the
first are used if they are there. Without DIR the runs that come with syncwall are taken, so every
clone has a gate. Sources that are judges are not even predicted, unless with --judge. Without
options the figures are compared with the accepted ones and printed.

--accept  writes docs/accuracy.json, or docs/accuracy_built_in.json without DIR
--check   exit code 1 if a set got worse than that file says, lost rows, if the intervals cover too
          few or too many runs, or if a page is not up to date
--judge   scores the judges instead, once for each release, and adds the figures to docs/judged.json
--tables  writes the blocks of README.md and docs/explanation/accuracy.md from docs/accuracy.json;
          needs no DIR
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.accuracy_blocks import BUILT_IN, rewritten, stale  # noqa: E402
from bench.accuracy_figures import Figures, figures, gated  # noqa: E402
from bench.accuracy_gate import changes, faults, table  # noqa: E402
from bench.accuracy_goals import Goals, read_goals  # noqa: E402
from bench.accuracy_judged import judged, remember  # noqa: E402
from syncwall.validate.report import reported  # noqa: E402
from syncwall.validate.score import read_baselines  # noqa: E402
from syncwall.validate.split import RowUse, part_of  # noqa: E402
from syncwall.validate.table import RunRow, read_tables  # noqa: E402

ACCEPTED = ROOT / "docs" / "accuracy.json"


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 done, 1 the gate is shut, 2 the call is wrong."""
    parser = argparse.ArgumentParser(description="How accurate predictions are.")
    parser.add_argument("directories", type=Path, nargs="*", help="tables of published runs")
    parser.add_argument("--accept", action="store_true", help="write docs/accuracy.json")
    parser.add_argument("--check", action="store_true", help="fail if accuracy got worse")
    parser.add_argument("--tables", action="store_true", help="write the blocks of the pages")
    parser.add_argument("--judge", action="store_true", help="score the judges")
    chosen = parser.parse_args(arguments)
    goals = read_goals()
    if chosen.judge and not chosen.directories:
        parser.error("--judge needs DIR: no judge comes with syncwall")
    code = 0
    if chosen.judge:
        remember(judged(rows_of(chosen.directories)))
    elif chosen.directories or chosen.accept or chosen.check or not chosen.tables:
        file = ACCEPTED if chosen.directories else BUILT_IN
        found = measured(chosen.directories, goals)
        code = _compare(file, found, goals, fail=chosen.check)
        if chosen.accept:
            if chosen.directories and not (found["collectives"] and found["summary"]["against"]):
                parser.error("--accept needs the baselines and the measured collectives beside DIR")
            _accept(file, found)
    if chosen.tables:
        _write(goals)
    if chosen.check:
        code = max(code, _pages(goals))
    return code


def rows_of(directories: Sequence[Path]) -> list[RunRow]:
    """All rows of the tables in `directories`, of the built-in ones if there are none."""
    where: Sequence[Path | None] = directories or [None]
    return [row for directory in where for row in read_tables(directory)]


def measured(directories: Sequence[Path], goals: Goals) -> Figures:
    """All figures of today, without judges."""
    rows = [row for row in rows_of(directories) if part_of(row) is not RowUse.JUDGE]
    if not directories:
        return gated(figures(reported(rows), goals))
    beside = directories[0].parent
    baselines = beside / "baselines" / "baselines.csv"
    collectives = beside / "measured" / "01_collectives"
    report = reported(rows, read_baselines(baselines) if baselines.exists() else None)
    return figures(report, goals, collectives if collectives.exists() else None)


def accepted(file: Path = ACCEPTED) -> Figures:
    """The figures that were accepted last."""
    found: Figures = json.loads(file.read_text())
    return found


def _accept(file: Path, found: Figures) -> None:
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"accepted in {file.relative_to(ROOT)}")


def _compare(file: Path, found: Figures, goals: Goals, *, fail: bool) -> int:
    """Print what changed; 1 if it must not and `fail` is set."""
    compared = changes(accepted(file), found) if file.exists() else []
    print(table(compared) if compared else "nothing is accepted yet")
    one = found["summary"]
    print(
        f"held-out sources: mean error {one['mape']:.1%}, mean of medians {one['median_ape']:.1%},"
    )
    print(f"80% intervals cover {one['coverage80_rows']:.1%} of {one['n']} runs")
    wrong = faults(compared, one["coverage80_rows"], goals.coverage80)
    for line in wrong:
        print(f"worse: {line}")
    if any(change.verdict in ("better", "new") for change in compared) and not wrong:
        print("better: accept with python bench/accuracy.py [DIR...] --accept --tables")
    return 1 if wrong and fail else 0


def _write(goals: Goals) -> None:
    data = accepted()
    for page in stale(data, goals):
        page.write_text(rewritten(page.read_text(), data, goals))
        print(f"rewritten: {page.relative_to(ROOT)}")


def _pages(goals: Goals) -> int:
    """1 if a page differs from the accepted figures."""
    found = stale(accepted(), goals)
    for page in found:
        print(f"not up to date: {page.relative_to(ROOT)}; run python bench/accuracy.py --tables")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
