"""The tables of goals, and all generated blocks of the documentation.

Holds `BLOCKS` (the text of every block by its name) and `rewritten`, which puts them between
`<!-- accuracy: NAME -->` and `<!-- end -->`.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

from bench.accuracy_goals import Found, Goal, Goals, found_for, missed, reached
from bench.accuracy_judged import judged_line, judged_table
from bench.accuracy_tables import (
    Figures,
    baselines_table,
    calibration_table,
    doubtful_table,
    held_out_table,
    known_runs_table,
    markdown,
    memory_table,
    number,
    percent,
    skipped_table,
    summary_line,
)

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "explanation" / "accuracy.md")
BUILT_IN = ROOT / "docs" / "accuracy_built_in.json"
"""Accepted figures of the runs that come with syncwall."""
MARKED = re.compile(r"(<!-- accuracy: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def readme(figures: Figures, goals: Goals) -> str:
    """The compact table."""
    rows = []
    for goal in goals.goals:
        found = found_for(goal, figures) if goal.readme else None
        if found:
            cells = [goal.title, str(found.n), percent(found.value)]
            rows.append([*cells, _calculon(found), _other(found, "b1")])
    header = "held-out runs | n | syncwall, % | Calculon, % | one constant, %"
    start = (
        f"Checked against {figures['rows']:,} published training runs. Only runs that no fit has"
        " read count here."
    )
    return f"{start} {summary_line(figures, goals)}\n\n{markdown(header, rows)}"


def built_in_line(figures: Figures, goals: Goals) -> str:
    """Which of the figures a clone can compute by itself."""
    del goals
    found = json.loads(BUILT_IN.read_text())
    one = found["summary"]
    return (
        f"The figures above are of all {figures['rows']:,} runs, whose tables do not come with"
        f" the repository. {found['rows']:,} runs do, as facts with their source"
        " (`src/syncwall/catalogue/runs/`): on these the mean error is"
        f" **{percent(one['mape'])}%** over {one['sources']} held-out sources ({one['n']} runs),"
        f" and the 80% interval covers {percent(one['coverage80_rows'], 0)}%. `python"
        " bench/accuracy.py --check` computes them in any clone and fails if a set got worse."
    )


def goals_table(figures: Figures, goals: Goals) -> str:
    """Every goal beside what was found and what others reach."""
    header = "set | n | goal | syncwall | | prototype | Calculon | one constant | others"
    rows = []
    for goal in goals.goals:
        found = found_for(goal, figures)
        if found is None:
            continue
        scale = goal.of != "pairs"
        shown = percent(found.value) if scale else f"{found.value}"
        word = "reached" if reached(goal, found) else "**not reached**"
        compared = goal.figure == "mape" and goal.of in ("set", "summary")
        others = [_calculon(found), _other(found, "b1")] if compared else ["–", "–"]
        if goal.of == "collectives":
            others_said = f"NCCL's own model {percent(found.entry['nccl_error'])}"
            others_said += f"; {goal.others}" if goal.others else ""
        else:
            others_said = goal.others or "–"
        cells = [goal.title, str(found.n), f"≤ {goal.at_most:g}", shown, word, goal.prototype]
        rows.append([*cells, *others, others_said])
    low, high = (round(100 * edge) for edge in goals.coverage80)
    covered = figures["summary"]["coverage80_rows"]
    word = "reached" if goals.coverage80[0] <= covered <= goals.coverage80[1] else "**not reached**"
    rows.append(
        ["80% interval covers", str(figures["summary"]["n"]), f"{low} to {high}",
         percent(covered, 0), word, "–", "none", "none", "–"]
    )  # fmt: skip
    return markdown(header, rows)


def _calculon(found: Found) -> str:
    """Calculon's error, and ours beside it where it describes only some of the runs."""
    other = found.entry["against"].get("calculon")
    if other is None:
        return "cannot"
    if other["n"] == found.n:
        return percent(other["mape"])
    return f"{percent(other['mape'])} on {other['n']} (ours {percent(other['mape_ours'])})"


def _other(found: Found, name: str) -> str:
    other = found.entry["against"].get(name)
    return percent(other["mape"]) if other else "–"


def calculon_list(figures: Figures, goals: Goals) -> str:
    """Named sets on which Calculon is nearer, with the reason if there is one."""
    lines = []
    for goal in goals.goals:
        found = found_for(goal, figures)
        if goal.of != "set" or goal.figure != "mape" or found is None:
            continue
        other = found.entry["against"].get("calculon")
        if other and round(other["mape"], 3) < round(other["mape_ours"], 3):
            why = f": {goal.calculon}" if goal.calculon else ""
            lines.append(
                f"- {goal.title} ({percent(other['mape'])}% against"
                f" {percent(other['mape_ours'])}% on {other['n']} runs){why}."
            )
    if not lines:
        return "On no set is Calculon nearer on the runs that both can describe."
    return "Calculon is nearer on these runs that both can describe:\n\n" + "\n".join(lines)


def collectives_table(figures: Figures, goals: Goals) -> str:
    """Sets of collectives: those that were held out, and whole machines that were fitted."""
    del goals
    chosen = [
        one
        for one in figures["collectives"]
        if "all kinds" in one["name"] or one["role"] != "fitted"
    ]
    rows = [
        [one["name"].replace(", from 1 MiB", ""), one["role"], str(one["rows"]),
         percent(one["error"]), number(one["median_ratio"]), percent(one["nccl_error"])]
        for one in chosen
    ]  # fmt: skip
    return markdown("set | role | sizes | MAPE | ratio | NCCL's own model", rows)


def worst_tables(figures: Figures, goals: Goals) -> str:
    """The furthest rows of every set that misses its goal."""
    parts = []
    for goal in missed(goals, figures):
        rows = figures["worst"].get(goal.title)
        if rows is not None:
            parts.append(f"### {goal.title}\n\n{_worst(goal, rows)}")
    return "\n\n".join(parts) if parts else "Every set reaches its goal."


def _worst(goal: Goal, rows: list[Figures]) -> str:
    header = "run | what | measured | predicted | ratio"
    cells = [
        [f"`{one['id']}`", one["what"], _amount(one["measured"], one["unit"]),
         _amount(one["predicted"], one["unit"]), number(one["ratio"])]
        for one in rows
    ]  # fmt: skip
    text = markdown(header, cells).replace("|---|---:|", "|---|---|", 1)
    return f"{goal.missing}\n\n{text}" if goal.missing else text


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


BLOCKS: dict[str, Callable[[Figures, Goals], str]] = {
    "readme": readme,
    "built-in": built_in_line,
    "summary": summary_line,
    "goals": goals_table,
    "calculon": calculon_list,
    "held-out": held_out_table,
    "calibration": calibration_table,
    "judged": judged_table,
    "judged-line": judged_line,
    "known-runs": known_runs_table,
    "baselines": baselines_table,
    "memory": memory_table,
    "collectives": collectives_table,
    "worst": worst_tables,
    "doubtful": doubtful_table,
    "skipped": skipped_table,
}


def rewritten(text: str, figures: Figures, goals: Goals) -> str:
    """`text` with all its blocks as `figures` give them."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{BLOCKS[match[2]](figures, goals)}\n\n{match[3]}"

    return MARKED.sub(block, text)


def stale(figures: Figures, goals: Goals) -> list[Path]:
    """Pages whose blocks are not what `figures` give."""
    return [
        page for page in PAGES if page.read_text() != rewritten(page.read_text(), figures, goals)
    ]
