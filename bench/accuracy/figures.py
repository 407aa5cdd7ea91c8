"""Accuracy as plain data: what docs/accuracy.json holds, beside docs/accuracy_goals.yaml.

`figures` come from a validation report and the accuracy of collectives; `gated` are the few of them
that the gate of a clone looks at. Errors are fractions, rounded to five digits so that a file
changes only when a figure does.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import ROOT
from bench.accuracy.collectives import HOLD_OUT_SETS, ratios, report
from bench.fit.tables import csv_rows, nccl_tests
from syncwall.cost.measured import GemmPoint, MachineMeasurements
from syncwall.documents import read_document
from syncwall.records import plain
from syncwall.validate.accuracy_report import Report, SetReport
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.table import STALLED, RowUse, corpus_part

GOALS = ROOT / "docs" / "accuracy_goals.yaml"
Figures = dict[str, Any]
_COUNTS = {"error": "rows", "mape_graded": "n_graded", "mape_listed": "n_listed"} | dict.fromkeys(
    ("mape_one_known_run", "mape_three_known_runs", "mape_five_known_runs"), "sources_known"
)
"""Where the number of rows or sources behind a figure stands, if it is not `n`."""
KINDS = ("source", "named")
WORST = 10
NOISE = 0.02
"""Measured times nearer to each other than this have no order: revisions of software differ by
1.5%."""
SAME_RUN = ("source", "model", "gpus", "tp", "pp", "mbs", "gbs", "seq_len", "shard")
"""Columns in which two runs agree that differ only in their network."""
TABLES: Final = {"simumax-b200": "03_gemm_attention/simumax_b200_bf16_ceperm_measured_efficiency.csv"}
"""Tables of measured efficiencies by source of runs; SimuMax publishes both (docs/b200)."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table of goals; errors in percent."""

    title: str
    of: str
    """Where the figure stands: set, summary, memory, measured, pairs or collectives."""
    figure: str
    at_most: float
    name: str = ""
    prototype: str = "–"
    others: str = ""
    """Published claims of other tools."""
    calculon: str = ""
    """Why Calculon may be nearer."""
    missing: str = ""
    """What the residuals say if the goal is missed."""
    readme: bool = False


@dataclass(frozen=True, slots=True)
class Goals:
    goals: list[Goal]
    coverage80: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Found:
    """The figure of a goal: a fraction, or a count of pairs; and the entry that it stands in."""

    n: int
    value: float
    entry: Figures


@cache
def read_goals() -> Goals:
    value = read_document(GOALS).value
    names = {field.name for field in fields(Goal)}
    for one in value["goals"]:
        assert set(one) <= names, f"{GOALS.name}: {one['title']}: {set(one) - names}"
    low, high = value["coverage80"]
    return Goals([Goal(**one) for one in value["goals"]], (low / 100, high / 100))


def found_for(goal: Goal, figures: Figures) -> Found | None:
    if goal.of in ("summary", "pairs"):
        entry: Figures | None = figures[goal.of]
    else:
        entries = figures["sets"] if goal.of == "set" else figures.get(goal.of, [])
        named = (one for one in entries if goal.of != "set" or one["kind"] == "named")
        entry = next((one for one in named if one["name"] == goal.name), None)
    if entry is None or entry.get(goal.figure) is None:
        return None
    return Found(entry[_COUNTS.get(goal.figure, "n")], entry[goal.figure], entry)


def reached(goal: Goal, found: Found) -> bool:
    """Whether the figure, as it is printed, is not above the goal."""
    scale = 1 if goal.of == "pairs" else 100
    return round(found.value * scale, 1) <= goal.at_most


def missed(figures: Figures) -> list[Goal]:
    pairs = [(goal, found_for(goal, figures)) for goal in read_goals().goals]
    return [goal for goal, found in pairs if found is not None and not reached(goal, found)]


def figures(found: Report, collectives: Path | None = None) -> Figures:
    def numberless(reason: str) -> str:  # so that alike ones are counted together
        return re.sub(r"\b\d[\d,.]*", "…", reason)

    data: Figures = {
        "rows": found.rows,
        "predicted": len(found.outcomes),
        "summary": asdict(found.summary),
        "sets": [_set(one, found) for one in found.sets if one.runs.kind in KINDS],
        "memory": _memory(found.sure),
        "measured": measured_figures(found.sure, collectives.parent) if collectives else [],
        "pairs": _pairs(found.sure),
        "skipped": _counted((one.row.source, numberless(one.reason)) for one in found.skipped),
        "doubtful": _counted(
            (row.source, "graded C in the table" if row.grade == "C" else one.reason)
            for one in found.doubtful
            for row in [one.outcome.case.row]
        ),
        "collectives": [asdict(line) for line in report(collectives)] if collectives else [],
    }
    data["worst"] = {
        goal.title: _worst(goal, found, collectives)
        for goal in missed(data)
        if goal.of in ("set", "memory", "collectives") and goal.figure in ("mape", "error")
    }
    rounded: Figures = _rounded(data)
    return rounded


def gated(figures: Figures) -> Figures:
    """What `gate.changes` compares, and the summary."""
    keys = ("kind", "name", "held_out", "n", "n_all", "mape")
    sets = [{key: one[key] for key in keys} for one in figures["sets"]]
    return {key: figures[key] for key in ("rows", "predicted", "summary", "collectives")} | {"sets": sets}


def _set(one: SetReport, found: Report) -> Figures:
    reasons = {each.outcome.case.row.id: each.reason for each in found.doubtful}
    graded = [each for each in one.runs.outcomes if each.case.row.grade != "C"]
    listed = [each for each in graded if reasons.get(each.case.row.id) != STALLED]
    figures: Figures = plain(one)
    return figures | {
        "composed": one.runs.name.endswith("(composed)"),
        "n_graded": len(graded),
        "mape_graded": _mape(graded),
        "n_listed": len(listed),
        "mape_listed": _mape(listed),
    }


def _mape(outcomes: Sequence[ValidatedRun]) -> float | None:
    errors = [abs(one.ratio - 1) for one in outcomes]
    return float(np.mean(errors)) if errors else None


def _memory(sure: Sequence[ValidatedRun]) -> list[Figures]:
    groups: dict[tuple[str, str], list[float]] = {}
    for one in sure:
        row = one.case.row
        if (ratio := one.memory_ratio) is not None:
            groups.setdefault((row.source, row.text("mem_kind")), []).append(ratio)
    lines = []
    for (source, kind), members in groups.items():
        found = np.array(members)
        low, high = (float(np.quantile(found, share)) for share in (0.1, 0.9))
        line: Figures = {"name": source, "kind": kind, "n": len(found)}
        line["mape"] = float(np.abs(found - 1).mean())
        line["ratio_median"] = float(np.median(found))
        lines.append(line | {"ratio_p10": low, "ratio_p90": high})
    return sorted(lines, key=lambda line: line["name"])


def measured_figures(sure: Sequence[ValidatedRun], directory: Path) -> list[Figures]:
    """Published runs predicted with what their authors measured of single kernels.

    A line for every source of `TABLES` and amount measured: one GEMM, or all of them. The one is
    the forward multiplication with most FLOPs: whoever measures one measures a large one.
    """
    lines = []
    for source, table in TABLES.items():
        cases = [one.case for one in sure if one.case.row.source == source]
        if not cases or not (directory / table).exists():
            continue
        forward, every = _gemm_points(directory / table)
        largest = max(forward, key=lambda one: one.m * one.n * one.k)
        for name, points in (("one GEMM", (largest,)), ("all GEMMs", tuple(every))):
            known = MachineMeasurements(gemm=points)
            ratios = np.array([one.ratio for one in outcomes(cases, measured=known)])
            line: Figures = {"name": f"{source}, {name}", "n": len(ratios), "points": len(points)}
            line["mape"] = float(np.abs(ratios - 1).mean())
            lines.append(line | {"ratio_median": float(np.median(ratios))})
    return lines


def _gemm_points(path: Path) -> tuple[list[GemmPoint], list[GemmPoint]]:
    forward, every = [], []
    for row in csv_rows(path):
        shape = dict(re.findall(r"(\w+)=(\w+)", row["shape"]))
        if row["op"] != "matmul" or shape["b"] != "1":
            continue
        m, n, k = (int(shape[side]) for side in ("m", "n", "k"))
        rate = float(row["peak_tflops"]) * 1e12 * float(row["measured_efficiency"])
        seconds = 2.0 * m * n * k / rate
        gradient = shape["layout"] == "NT"
        point = GemmPoint(m=m, n=n, k=k, dtype="bf16", seconds=seconds, is_weight_gradient=gradient)
        every.append(point)
        if shape["layout"] == "TN":
            forward.append(point)
    return forward, every


def _pairs(sure: Sequence[ValidatedRun]) -> Figures:
    """Runs that differ only in their network: how many stand in the wrong order."""

    def same(one: ValidatedRun) -> tuple[str, ...]:
        return tuple(one.case.row.text(column) for column in SAME_RUN)

    slow: dict[tuple[str, ...], list[ValidatedRun]] = {}
    for one in sure:
        if "TCP" in one.case.row.text("inter_link"):
            slow.setdefault(same(one), []).append(one)
    count = wrong = 0
    for one in sure:
        for other in slow.get(same(one), []):
            measured = np.log(other.case.measured_s / one.case.measured_s)
            if other is one or abs(measured) < NOISE:
                continue
            count += 1
            wrong += bool(measured * np.log(other.step_s / one.step_s) <= 0)
    return {"n": count, "wrong": wrong}


def _counted(pairs: Iterable[tuple[str, str]]) -> list[Figures]:
    counts = Counter(pairs)
    return [
        {"source": source, "reason": reason, "n": n}
        for (source, reason), n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _worst(goal: Goal, found: Report, collectives: Path | None) -> list[Figures]:
    """The rows of a set that are furthest off, as factors."""
    sure = found.sure
    if goal.of == "collectives":
        rows = _collective_rows(goal.name, collectives) if collectives else []
    elif goal.of == "memory":
        rows = []
        for one in sure:
            if one.case.row.source == goal.name and (ratio := one.memory_ratio) is not None:
                gb = one.case.row.number("mem_gb") or 0.0
                rows.append(_row(one.case.row.id, _what(one), gb, gb * ratio, "GB"))
    else:
        ids = {one.case.row.id for one in sure}
        runs = next(one.runs for one in found.sets if one.runs.name == goal.name)
        rows = [
            _row(one.case.row.id, _what(one), one.case.measured_s, one.step_s, "s")
            for one in runs.outcomes
            if one.case.row.id in ids
        ]
    return sorted(rows, key=lambda row: -abs(np.log(row["ratio"])))[:WORST]


def _row(name: str, what: str, measured: float, predicted: float, unit: str) -> Figures:
    times = {"measured": measured, "predicted": predicted, "unit": unit}
    return {"id": name, "what": what, **times, "ratio": predicted / measured}


def _what(one: ValidatedRun) -> str:
    layout, case = one.layout, one.case
    sizes = ((name, getattr(layout, name)) for name in ("dp", "tp", "pp", "cp", "ep"))
    axes = " ".join(f"{name} {size}" for name, size in sizes if size > 1)
    opened = f"; open: {', '.join(case.open_fields)}" if case.open_fields else ""
    words = f"{layout.gpus} x {case.cluster.device.name}, {axes or 'dp 1'}, {layout.shard.text}"
    part = "; calibration" if corpus_part(case.row) is RowUse.CALIBRATION else ""
    return f"{words}, {layout.precision.value}{opened}{part}"


def _collective_rows(name: str, directory: Path) -> list[Figures]:
    if name not in HOLD_OUT_SETS:
        return []
    start, least = HOLD_OUT_SETS[name]
    rows = []
    for table in nccl_tests(directory, held_out=True):
        if table.source.startswith(start):
            large = table.between(least)
            each = zip(large.sizes, large.seconds(), ratios(large), strict=True)
            for size, seconds, ratio in each:
                what, micro = f"{size / 2**20:.0f} MiB on {table.ranks} ranks", float(seconds) * 1e6
                rows.append(_row(f"{table.source} {table.kind}", what, micro, micro * ratio, "µs"))
    return rows


def _rounded(value: Any) -> Any:
    """Numbers below 100 to five digits after the point, larger ones to a tenth."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return round(float(value), 5 if abs(value) < 100 else 1)
    return value
