"""Whether layouts rank as they were measured: `python bench/ranking.py DIR [options]`.

DIR holds the tables of published runs; DIR/../baselines/baselines.csv gives Calculon's times. Rows
with the same model, GPUs, sequence, global batch, device and precision are a group; in each, the
layout with the shortest expected time that fits in memory is tried, or the first three.

--picks   lists the groups in which the first pick loses more than 3%
--accept  writes docs/ranking.json and the table of docs/explanation/ranking.md
--check   exit code 1 if a figure is more than 2 points below docs/ranking.json, or the page is old
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.accuracy_tables import markdown, percent  # noqa: E402
from bench.rank_scores import (  # noqa: E402
    Group,
    Rank,
    Ranking,
    by_expected_time,
    by_fitting_time,
    by_time,
    degraded,
    groups_of,
)
from syncwall.validate.evaluation import ValidatedRun, outcomes  # noqa: E402
from syncwall.validate.mapping import cases_of  # noqa: E402
from syncwall.validate.score import Baselines, read_baselines  # noqa: E402
from syncwall.validate.split import RowUse  # noqa: E402
from syncwall.validate.table import read_tables  # noqa: E402

ACCEPTED = ROOT / "docs" / "ranking.json"
PAGE = ROOT / "docs" / "explanation" / "ranking.md"
MARKED = re.compile(r"(<!-- ranking -->\n).*?(<!-- end -->)", re.DOTALL)
SOURCES = {
    "hf-ultrascale-playbook": ("A", 5),
    "dgxc-benchmarking": ("AB", 2),
    "mosaic-llm-foundry": ("AB", 2),
    "internevo": ("AB", 2),
}
"""Grades that count, and the fewest rows of a group."""
NEIGHBOURS_JUDGE = ("hf-ultrascale-playbook",)
"""Sources with enough twins of a layout to call a row degraded."""
DRAWS = 200
"""Random orders, of which the mean is printed."""
TOLERANCE = 0.02
LOST = 0.97
FIGURES = ("first_median", "first_p10", "three_median", "three_p10", "correlation_median")
Line = dict[str, Any]


def lines_of(name: str, found: Sequence[ValidatedRun], baselines: Baselines) -> list[Line]:
    """All figures of one source."""
    grades, fewest = SOURCES[name]
    rows = [one for one in found if one.case.row.source == name and one.case.row.grade in grades]
    sets = {"all rows": rows}
    if name in NEIGHBOURS_JUDGE:
        dropped = degraded(rows)
        sets["without degraded rows"] = [o for o in rows if o.case.row.id not in dropped]
    lines = []
    for title, kept in sets.items():
        groups = groups_of(kept, fewest)
        about = {"source": name, "rows_are": title}
        lines += [about | line for line in _predictors(groups, kept, fewest, baselines)]
        for part in (RowUse.CALIBRATION, RowUse.STRUCTURE):
            some = [group for group in groups if group.part is part]
            if some and len(some) < len(groups):
                ours = asdict(Ranking.of(some, by_expected_time, by_time))
                lines.append(about | {"predictor": f"syncwall, {part} groups"} | ours)
    return lines


def _predictors(
    groups: list[Group], kept: Sequence[ValidatedRun], fewest: int, baselines: Baselines
) -> list[Line]:
    lines = [
        {"predictor": "syncwall"} | asdict(Ranking.of(groups, by_expected_time, by_time)),
        {"predictor": "syncwall, stalls aside"}
        | asdict(Ranking.of(groups, by_fitting_time, by_time)),
        {"predictor": "syncwall, stalls and memory aside"} | asdict(Ranking.of(groups, by_time)),
    ]
    seconds = baselines.step_s.get("calculon", {})
    theirs = groups_of([one for one in kept if one.case.row.id in seconds], fewest)
    if theirs:
        calculon = Ranking.of(theirs, lambda one: seconds[one.case.row.id])
        lines.append({"predictor": "Calculon"} | asdict(calculon))
    lowest = Ranking.of(groups, lambda one: float(one.layout.tp))
    return [*lines, {"predictor": "lowest tp"} | asdict(lowest), _random(groups)]


def _random(groups: list[Group]) -> Line:
    """Mean of the figures over many random orders."""
    found = []
    for seed in range(DRAWS):
        draw = np.random.default_rng(seed)
        places = {one.case.row.id: draw.random() for group in groups for one in group.members}
        found.append(asdict(Ranking.of(groups, _by(places))))
    mean = {name: float(np.mean([one[name] for one in found])) for name in FIGURES}
    return {"predictor": "random", "groups": found[0]["groups"], "rows": found[0]["rows"]} | mean


def _by(places: dict[str, float]) -> Rank:
    return lambda one: places[one.case.row.id]


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    header = (
        "source and rows | predictor | groups | first pick, median | p10 |"
        " best of three, median | p10 | rank correlation"
    )
    rows = [
        [f"{line['source']}, {line['rows_are']}", line["predictor"], str(line["groups"]),
         *(percent(line[name]) for name in FIGURES[:4]), f"{line['correlation_median']:.3f}"]
        for line in lines
    ]  # fmt: skip
    return markdown(header, rows)


def picks(found: Sequence[ValidatedRun]) -> str:
    """Groups in which the first pick loses, the worst first."""
    said = []
    for name, (grades, fewest) in SOURCES.items():
        rows = [o for o in found if o.case.row.source == name and o.case.row.grade in grades]
        dropped = degraded(rows) if name in NEIGHBOURS_JUDGE else set()
        for group in groups_of(rows, fewest):
            first, best = group.ranked(by_expected_time)[0], group.best
            share = group.reached(by_expected_time)
            if share < LOST:
                mark = " (degraded)" if first.case.row.id in dropped else ""
                said.append((share, f"{share:6.1%} {group.part}: {_told(first)}{mark}; "
                             f"best {_told(best)}"))  # fmt: skip
    return "\n".join(line for _, line in sorted(said))


def _told(one: ValidatedRun) -> str:
    return f"{one.case.row.id} measured {one.case.measured_s:.3g} s, predicted {one.step_s:.3g} s"


def worse(before: Sequence[Line], now: Sequence[Line]) -> list[str]:
    """Figures of ours that fell."""
    known = {(b["source"], b["rows_are"], b["predictor"]): b for b in before}
    fallen = []
    for line in now:
        old = known.get((line["source"], line["rows_are"], line["predictor"]))
        if old is None or not line["predictor"].startswith("syncwall"):
            continue
        names = [name for name in FIGURES if line[name] < old[name] - TOLERANCE]
        fallen += [f"{line['source']}, {line['rows_are']}: {name}" for name in names]
    return fallen


def page(lines: Sequence[Line], text: str) -> str:
    """`text` of the page with the table of `lines`."""
    return MARKED.sub(lambda match: f"{match[1]}\n{table(lines)}\n\n{match[2]}", text)


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 done, 1 ranking got worse."""
    parser = argparse.ArgumentParser(description="Whether layouts rank as measured.")
    parser.add_argument("directory", type=Path, help="tables of published runs")
    for option in ("picks", "accept", "check"):
        parser.add_argument(f"--{option}", action="store_true")
    chosen = parser.parse_args(arguments)
    rows = [row for row in read_tables(chosen.directory) if row.source in SOURCES]
    found = outcomes(cases_of(rows))
    baselines = read_baselines(chosen.directory.parent / "baselines" / "baselines.csv")
    lines = [line for name in SOURCES for line in lines_of(name, found, baselines)]
    print(table(lines))
    if chosen.picks:
        print(picks(found))
    fallen = worse(json.loads(ACCEPTED.read_text()), lines) if ACCEPTED.exists() else []
    print("\n".join(f"worse: {line}" for line in fallen))
    if chosen.accept:
        ACCEPTED.write_text(json.dumps(lines, indent=1) + "\n")
        PAGE.write_text(page(lines, PAGE.read_text()))
    if not chosen.check:
        return 0
    old = PAGE.read_text() != page(json.loads(ACCEPTED.read_text()), PAGE.read_text())
    return 1 if fallen or old else 0


if __name__ == "__main__":
    sys.exit(main())
