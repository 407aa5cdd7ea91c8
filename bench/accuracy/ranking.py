"""Whether the layouts that are predicted to be fast are fast.

A `Group` are measured layouts of one model on one machine with one batch; `Ranking` are figures
over groups. Order is by predicted step time, layouts that do not fit in memory last; ties go by a
hash of the id, because tables may be sorted by speed.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from bench import ROOT, Dir
from bench.accuracy.pages import markdown, percent
from syncwall.answer.many import SIZES
from syncwall.cost.framework_costs import framework_or_default
from syncwall.cost.prices import expected_slowdown
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import Baselines, read_baselines
from syncwall.validate.table import RowUse, corpus_part, read_tables

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
TOLERANCE, LOST = 0.02, 0.97
FIGURES = ("first_median", "first_p10", "three_median", "three_p10", "correlation_median")
Line = dict[str, Any]
Rank = Callable[[ValidatedRun], float]
"""What a predictor sorts by: the smaller, the better."""
_SAME = ("source", "model", "gpus", "seq_len", "gbs", "gpu", "precision")
"""Columns that rows of one group share."""
_SLOWER, _FEWEST_MICRO_BATCHES, _AFTER_ALL_S = 1.6, 4, 1e9


@dataclass(frozen=True)
class Group:
    members: list[ValidatedRun]

    @property
    def part(self) -> RowUse:
        parts = {corpus_part(one.case.row) for one in self.members}
        return RowUse.CALIBRATION if RowUse.CALIBRATION in parts else RowUse.STRUCTURE

    @property
    def best(self) -> ValidatedRun:
        return min(self.members, key=lambda one: one.case.measured_s)

    def ranked(self, rank: Rank) -> list[ValidatedRun]:
        def place(one: ValidatedRun) -> tuple[float, str]:
            return rank(one), sha256(one.case.row.id.encode()).hexdigest()

        return sorted(self.members, key=place)

    def reached(self, rank: Rank, first: int = 1) -> float:
        """Best throughput among the `first` ranked, over the best of the group."""
        tried = min(one.case.measured_s for one in self.ranked(rank)[:first])
        return self.best.case.measured_s / tried

    def correlation(self, rank: Rank) -> float:
        """Spearman's rank correlation of `rank` and the measured times; 0 if all rank the same."""
        said = _ranks([rank(one) for one in self.members])
        true = _ranks([one.case.measured_s for one in self.members])
        if np.ptp(said) == 0 or np.ptp(true) == 0:
            return 0.0
        return float(np.corrcoef(said, true)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0 on; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2.0)[place]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Figures over groups: shares of the best throughput that the layout ranked first, and the
    best of the first three, reach. P10 is numpy's quantile: linear between the two nearest groups.
    """

    groups: int
    rows: int
    first_median: float
    first_p10: float
    three_median: float
    three_p10: float
    correlation_median: float

    @classmethod
    def of(cls, groups: Sequence[Group], pick: Rank, order: Rank | None = None) -> "Ranking":
        """Figures of the predictor that picks by `pick` and orders by `order` (else the same)."""
        shares = [[group.reached(pick, first) for group in groups] for first in (1, 3)]
        figures = [f for some in shares for f in (np.median(some), np.quantile(some, 0.1))]
        figures.append(np.median([group.correlation(order or pick) for group in groups]))
        return cls(len(groups), sum(len(group.members) for group in groups), *map(float, figures))


def groups_of(outcomes: Iterable[ValidatedRun], fewest: int) -> list[Group]:
    """Groups of at least `fewest` rows with the same model, machine and batch, and two layouts."""
    found: dict[tuple[str, ...], list[ValidatedRun]] = defaultdict(list)
    for one in outcomes:
        found[tuple(one.case.row.text(column) for column in _SAME)].append(one)
    groups = [Group(members) for members in found.values() if len(members) >= fewest]

    def layouts(group: Group) -> set[tuple[str, ...]]:
        return {tuple(str(getattr(o.layout, name)) for name in SIZES) for o in group.members}

    return [group for group in groups if len(layouts(group)) > 1]


def by(places: dict[str, float]) -> Rank:
    return lambda one: places[one.case.row.id]


def by_time(one: ValidatedRun) -> float:
    return one.step_s


def by_fitting_time(one: ValidatedRun) -> float:
    """Predicted step time; what does not fit in memory comes after everything else."""
    return one.step_s + (0.0 if one.fits else _AFTER_ALL_S)


def by_expected_time(one: ValidatedRun) -> float:
    """The same with the time that stalls are expected to cost."""
    family = framework_or_default(one.case.software.framework)
    slower = expected_slowdown(family, one.layout, one.case.cluster)
    return one.step_s * float(slower) + (0.0 if one.fits else _AFTER_ALL_S)


def degraded(outcomes: Sequence[ValidatedRun]) -> set[str]:
    """Ids of rows that a neighbour contradicts.

    They take 1.6 times the GPU seconds a sample of the best row with the same model, tp, pp and
    micro batch, both with at least four micro batches.
    """
    spent: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for one in outcomes:
        if one.layout.microbatches >= _FEWEST_MICRO_BATCHES:
            row, layout = one.case.row, one.layout
            key = tuple(row.text(name) for name in ("source", "model", "tp", "pp", "mbs"))
            gpus, samples = float(layout.gpus), float(layout.global_batch or 1)
            spent[key][row.id] = one.case.measured_s * gpus / samples
    return {
        name
        for alike in spent.values()
        for name, seconds in alike.items()
        if seconds > _SLOWER * min(alike.values())
    }


def graded(name: str, found: Sequence[ValidatedRun]) -> tuple[list[ValidatedRun], set[str]]:
    """Rows of a source that count, and the ids of those that are degraded."""
    rows = [o for o in found if o.case.row.source == name and o.case.row.grade in SOURCES[name][0]]
    return rows, degraded(rows) if name in NEIGHBOURS_JUDGE else set()


def lines_of(name: str, found: Sequence[ValidatedRun], baselines: Baselines) -> list[Line]:
    rows, dropped = graded(name, found)
    sets = {"all rows": rows}
    if name in NEIGHBOURS_JUDGE:
        sets["without degraded rows"] = [o for o in rows if o.case.row.id not in dropped]
    lines = []
    for title, kept in sets.items():
        fewest = SOURCES[name][1]
        groups = groups_of(kept, fewest)
        figures = {
            "syncwall": Ranking.of(groups, by_expected_time, by_time),
            "syncwall, stalls aside": Ranking.of(groups, by_fitting_time, by_time),
            "syncwall, stalls and memory aside": Ranking.of(groups, by_time),
        }
        seconds = baselines.step_s.get("calculon", {})
        theirs = groups_of([one for one in kept if one.case.row.id in seconds], fewest)
        if theirs:
            figures["Calculon"] = Ranking.of(theirs, by(seconds))
        figures["lowest tp"] = Ranking.of(groups, lambda one: float(one.layout.tp))
        figures["random"] = _random(groups)
        for part in (RowUse.CALIBRATION, RowUse.STRUCTURE):
            some = [group for group in groups if group.part is part]
            if some and len(some) < len(groups):
                ours = Ranking.of(some, by_expected_time, by_time)
                figures[f"syncwall, {part} groups"] = ours
        about = {"source": name, "rows_are": title}
        lines += [about | {"predictor": who} | asdict(one) for who, one in figures.items()]
    return lines


def _random(groups: list[Group]) -> Ranking:
    """Mean of the figures over many random orders."""
    found = []
    for seed in range(DRAWS):
        draw = np.random.default_rng(seed)
        places = {one.case.row.id: draw.random() for group in groups for one in group.members}
        found.append(asdict(Ranking.of(groups, by(places))))
    means = (float(np.mean([one[name] for one in found])) for name in FIGURES)
    return Ranking(found[0]["groups"], found[0]["rows"], *means)


def table(lines: Sequence[Line]) -> str:
    header = (
        "source and rows | predictor | groups | first pick, median | p10 |"
        " best of three, median | p10 | rank correlation"
    )
    rows = []
    for line in lines:
        cells = [f"{line['source']}, {line['rows_are']}", line["predictor"], line["groups"]]
        shares = (percent(line[name]) for name in FIGURES[:4])
        rows.append([*cells, *shares, f"{line['correlation_median']:.3f}"])
    return markdown(header, rows)


def losing_picks(found: Sequence[ValidatedRun]) -> str:
    def told(one: ValidatedRun) -> str:
        times = f"measured {one.case.measured_s:.3g} s, predicted {one.step_s:.3g} s"
        return f"{one.case.row.id} {times}"

    said = []
    for name, (_, fewest) in SOURCES.items():
        rows, dropped = graded(name, found)
        for group in groups_of(rows, fewest):
            first, share = group.ranked(by_expected_time)[0], group.reached(by_expected_time)
            mark = " (degraded)" if first.case.row.id in dropped else ""
            line = f"{share:6.1%} {group.part}: {told(first)}{mark}; best {told(group.best)}"
            said += [(share, line)] if share < LOST else []
    return "\n".join(line for _, line in sorted(said))


def worse(before: Sequence[Line], now: Sequence[Line]) -> list[str]:
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
    return MARKED.sub(lambda match: f"{match[1]}\n{table(lines)}\n\n{match[2]}", text)


def ranking(directory: Dir, picks: bool = False, accept: bool = False, check: bool = False) -> int:
    """Whether layouts rank as they were measured.

    DIR holds the tables of published runs; DIR/../baselines/baselines.csv gives Calculon's times.
    Rows with the same model, GPUs, sequence, global batch, device and precision are a group; in
    each, the layout with the shortest expected time that fits in memory is tried, or the first
    three.

    Args:
        directory: Tables of published runs.
        picks: List the groups in which the first pick loses more than 3%.
        accept: Write docs/ranking.json and the table of docs/explanation/ranking.md.
        check: Exit code 1 if a figure is more than 2 points below docs/ranking.json, or the page
            is old.
    """
    found = outcomes(cases_of(row for row in read_tables(directory) if row.source in SOURCES))
    baselines = read_baselines(directory.parent / "baselines" / "baselines.csv")
    lines = [line for name in SOURCES for line in lines_of(name, found, baselines)]
    print(table(lines))
    if picks:
        print(losing_picks(found))
    fallen = worse(json.loads(ACCEPTED.read_text()), lines) if ACCEPTED.exists() else []
    print("\n".join(f"worse: {line}" for line in fallen))
    if accept:
        ACCEPTED.write_text(json.dumps(lines, indent=1) + "\n")
        PAGE.write_text(page(lines, PAGE.read_text()))
    old = PAGE.read_text() != page(json.loads(ACCEPTED.read_text()), PAGE.read_text())
    return int(check and (bool(fallen) or old))
