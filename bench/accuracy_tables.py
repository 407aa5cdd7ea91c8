"""The tables about runs: per source, summary, intervals, known runs, baselines, what is left out.

Each function takes the figures of docs/accuracy.json and the goals, and returns Markdown. Errors
are printed in percent.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.accuracy_goals import Goals

Figures = dict[str, Any]
FEWEST = 3
BASELINES = {"calculon": "Calculon", "b1": "one constant", "b2": "constant with bubble"}


def markdown(header: str, rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is text, the others are figures."""
    names = [name.strip() for name in header.split("|")]
    lines = ["| " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction in percent without the sign."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def number(value: float | None) -> str:
    """A ratio."""
    return "–" if value is None else f"{value:.2f}"


def sources(figures: Figures, *, held_out: bool) -> list[Figures]:
    """Sets of sources, those with most rows first."""
    return [
        one
        for one in figures["sets"]
        if one["kind"] == "source" and one["held_out"] == held_out and one["n_all"]
    ]


def held_out_table(figures: Figures, goals: Goals) -> str:
    """Every held-out source."""
    del goals
    return _source_table(sources(figures, held_out=True))


def calibration_table(figures: Figures, goals: Goals) -> str:
    """Every source that fits read."""
    del goals
    return _source_table(sources(figures, held_out=False))


def _source_table(entries: Sequence[Figures]) -> str:
    header = (
        "source | n | MAPE | median | ratio | p10–p90 | covered | one known | with doubtful (n)"
    )
    rows = []
    for one in entries:
        spread = f"{number(one['ratio_p10'])}–{number(one['ratio_p90'])}" if one["n"] else "–"
        rows.append(
            [
                one["name"], str(one["n"]), percent(one["mape"]), percent(one["median_ape"]),
                number(one["ratio_median"]), spread, percent(one["coverage80"], 0),
                percent(one["mape_one_known_run"]),
                f"{percent(one['mape_all'])} ({one['n_all']})",
            ]
        )  # fmt: skip
    return markdown(header, rows)


def summary_line(figures: Figures, goals: Goals) -> str:
    """The whole in two sentences."""
    one, versus = figures["summary"], figures["summary"]["against"]
    low, high = (round(100 * edge) for edge in goals.coverage80)
    text = (
        f"Over the {one['sources']} held-out sources with at least {FEWEST} runs"
        f" ({one['n']:,} runs), each counted the same,"
        f" the **mean error is {percent(one['mape'])}%**"
        f" (mean of the medians {percent(one['median_ape'])}%)"
    )
    if "b1" in versus:
        text += f"; one constant for all runs is off by {percent(versus['b1']['mape'])}%"
    if "calculon" in versus:
        other = versus["calculon"]
        text += (
            f". On the {other['n']} runs of {other['sources']} sources that Calculon can describe"
            f" it is off by {percent(other['mape'])}%, syncwall by {percent(other['mape_ours'])}%"
        )
    return text + (
        f".\n\nThe **80% interval covers {percent(one['coverage80_rows'], 0)}%** of the held-out"
        f" runs ({percent(one['coverage80_sources'], 0)}% as a mean over sources); the band that"
        f" is kept is {low} to {high}%."
    )


def known_runs_table(figures: Figures, goals: Goals) -> str:
    """Held-out sources before and after one, three and five runs of theirs are known."""
    del goals
    chosen = [
        one
        for one in sources(figures, held_out=True)
        if one.get("mape_five_known_runs") is not None and not one["composed"]
    ]
    chosen.sort(key=lambda one: one["mape_three_known_runs"] - one["mape"])
    names = ("mape", "mape_one_known_run", "mape_three_known_runs", "mape_five_known_runs")
    rows = [[one["name"], str(one["n"]), *(percent(one[name]) for name in names)] for one in chosen]
    better = sum(one["mape_three_known_runs"] < one["mape"] for one in chosen)
    means = [
        percent(float(np.mean([one[name] for one in chosen]))) if chosen else "–" for name in names
    ]
    rows.append([f"**mean of {len(chosen)} sources**", "", *means])
    text = markdown("source | n | MAPE | 1 known | 3 known | 5 known", rows)
    return f"{text}\n\nThree known runs bring {better} of {len(chosen)} sources nearer."


def baselines_table(figures: Figures, goals: Goals) -> str:
    """Other predictors on the same runs, by held-out source."""
    del goals
    header = "source | " + " | ".join(
        f"{title}: n | its MAPE | ours" for title in BASELINES.values()
    )
    rows = []
    for one in sources(figures, held_out=True):
        cells = [one["name"]]
        for name in BASELINES:
            other = one["against"].get(name)
            cells += (
                [str(other["n"]), percent(other["mape"]), percent(other["mape_ours"])]
                if other
                else ["–"] * 3
            )
        if one["against"]:
            rows.append(cells)
    cells = ["**mean of sources**"]
    for name in BASELINES:
        other = figures["summary"]["against"].get(name)
        cells += (
            [str(other["n"]), percent(other["mape"]), percent(other["mape_ours"])]
            if other
            else ["–"] * 3
        )
    return markdown(header, [*rows, cells])


def memory_table(figures: Figures, goals: Goals) -> str:
    """Memory where a source prints it."""
    del goals
    rows = [
        [
            one["name"], one["kind"], str(one["n"]), percent(one["mape"]),
            number(one["ratio_median"]), f"{number(one['ratio_p10'])}–{number(one['ratio_p90'])}",
        ]
        for one in figures["memory"]
    ]  # fmt: skip
    return markdown("source | as printed by | n | MAPE | ratio | p10–p90", rows)


def skipped_table(figures: Figures, goals: Goals) -> str:
    """Rows that cannot be described, by reason."""
    del goals
    total = sum(one["n"] for one in figures["skipped"])
    text = _reasons(figures["skipped"])
    return f"{text}\n\n{total} of {figures['rows']:,} rows; {figures['predicted']:,} are predicted."


def doubtful_table(figures: Figures, goals: Goals) -> str:
    """Rows that count in no figure, by reason."""
    del goals
    total = sum(one["n"] for one in figures["doubtful"])
    text = _reasons(figures["doubtful"])
    return f"{text}\n\n{total} of {figures['predicted']:,} predicted rows."


def _reasons(entries: Sequence[Figures]) -> str:
    reasons: dict[str, list[Figures]] = {}
    for one in entries:
        reasons.setdefault(one["reason"], []).append(one)
    rows = [
        [
            reason,
            ", ".join(f"{one['source']} {one['n']}" for one in found),
            str(sum(one["n"] for one in found)),
        ]
        for reason, found in reasons.items()
    ]
    rows.sort(key=lambda row: -int(row[2]))
    return markdown("reason | sources | rows", rows).replace("|---|---:|", "|---|---|", 1)
