"""Generated blocks of README.md and docs/explanation/accuracy.md, as Markdown; errors in percent.

`BLOCKS` makes the text of every block out of the figures of docs/accuracy.json; `rewritten` puts
them between `<!-- accuracy: NAME -->` and `<!-- end -->`.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import ROOT
from bench.accuracy.figures import Figures, Found, found_for, missed, reached, read_goals
from bench.fit.register import topics

PAGES = (ROOT / "README.md", ROOT / "docs" / "explanation" / "accuracy.md")
BUILT_IN = ROOT / "docs" / "accuracy_built_in.json"
"""Accepted figures of the runs that come with syncwall."""
JUDGED = ROOT / "docs" / "judged.json"
"""Every score of judges, the oldest first; it only grows."""
MARKED = re.compile(r"(<!-- accuracy: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
FEWEST = 3
BASELINES = {"calculon": "Calculon", "b1": "one constant", "b2": "constant with bubble"}


def markdown(header: str, rows: Sequence[Sequence[Any]], words: int = 1) -> str:
    """A table; the first `words` columns are text, the others are figures."""
    names = [name.strip() for name in header.split("|")]
    lines = ["| " + " | ".join(names) + " |", "|---" * words + "|" + "---:|" * (len(names) - words)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _spread(one: Figures) -> str:
    return f"{number(one['ratio_p10'])}–{number(one['ratio_p90'])}"


def sources(figures: Figures, *, held_out: bool) -> list[Figures]:
    sets = [one for one in figures["sets"] if one["kind"] == "source" and one["n_all"]]
    return [one for one in sets if one["held_out"] == held_out]


def source_table(figures: Figures, *, held_out: bool) -> str:
    header = "source | n | MAPE | median | ratio | p10–p90 | covered | one known |"
    rows = []
    for one in sources(figures, held_out=held_out):
        cells = [one["name"], one["n"], percent(one["mape"]), percent(one["median_ape"])]
        cells += [number(one["ratio_median"]), _spread(one) if one["n"] else "–"]
        cells += [percent(one["coverage80"], 0), percent(one["mape_one_known_run"])]
        rows.append([*cells, f"{percent(one['mape_all'])} ({one['n_all']})"])
    return markdown(f"{header} with doubtful (n)", rows)


def summary_line(figures: Figures) -> str:
    one, versus = figures["summary"], figures["summary"]["against"]
    low = round(100 * read_goals().coverage80[0])
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
        f" runs ({percent(one['coverage80_sources'], 0)}% as a mean over sources), at least {low}% wanted:"
        " it is made for strangers, and the model has had these sources in view."
    )


def known_runs_table(figures: Figures) -> str:
    chosen = [
        one
        for one in sources(figures, held_out=True)
        if one.get("mape_five_known_runs") is not None and not one["composed"]
    ]
    chosen.sort(key=lambda one: one["mape_three_known_runs"] - one["mape"])
    names = ("mape", "mape_one_known_run", "mape_three_known_runs", "mape_five_known_runs")
    rows = [[one["name"], one["n"], *(percent(one[name]) for name in names)] for one in chosen]
    better = sum(one["mape_three_known_runs"] < one["mape"] for one in chosen)
    columns = ([one[name] for one in chosen] for name in names)
    means = [percent(float(np.mean(column))) if column else "–" for column in columns]
    rows.append([f"**mean of {len(chosen)} sources**", "", *means])
    text = markdown("source | n | MAPE | 1 known | 3 known | 5 known", rows)
    return f"{text}\n\nThree known runs bring {better} of {len(chosen)} sources nearer."


def baselines_table(figures: Figures) -> str:
    titles = (f"{title}: n | its MAPE | ours" for title in BASELINES.values())
    shown = [one for one in sources(figures, held_out=True) if one["against"]]
    rows = []
    for one in [*shown, figures["summary"] | {"name": "**mean of sources**"}]:
        cells = [one["name"]]
        for other in (one["against"].get(name) for name in BASELINES):
            errors = ("mape", "mape_ours") if other else ()
            cells += [other["n"], *(percent(other[e]) for e in errors)] if other else ["–"] * 3
        rows.append(cells)
    return markdown("source | " + " | ".join(titles), rows)


def memory_table(figures: Figures) -> str:
    rows = []
    for one in figures["memory"]:
        cells = [one["name"], one["kind"], one["n"], percent(one["mape"])]
        rows.append([*cells, number(one["ratio_median"]), _spread(one)])
    return markdown("source | as printed by | n | MAPE | ratio | p10–p90", rows)


def reasons_table(entries: Sequence[Figures], of: str) -> str:
    """Rows that are left out by reason, and how many of which."""
    reasons: dict[str, list[Figures]] = {}
    for one in entries:
        reasons.setdefault(one["reason"], []).append(one)
    rows: list[tuple[str, str, int]] = []
    for reason, found in reasons.items():
        named = ", ".join(f"{one['source']} {one['n']}" for one in found)
        rows.append((reason, named, sum(one["n"] for one in found)))
    rows.sort(key=lambda row: -row[2])
    total = sum(one["n"] for one in entries)
    return markdown("reason | sources | rows", rows, 2) + f"\n\n{total} of {of}."


def readme(figures: Figures) -> str:
    rows = []
    for goal in read_goals().goals:
        found = found_for(goal, figures) if goal.readme else None
        if found:
            ours = [goal.title, found.n, percent(found.value)]
            rows.append([*ours, _calculon(found), _constant(found)])
    header = "held-out runs | n | syncwall, % | Calculon, % | one constant, %"
    start = (
        f"Checked against {figures['rows']:,} published training runs. Only runs that no fit has"
        " read count here."
    )
    return f"{start} {summary_line(figures)}\n\n{markdown(header, rows)}"


def built_in_line(figures: Figures) -> str:
    found = json.loads(BUILT_IN.read_text())
    one = found["summary"]
    return (
        f"The figures above are of all {figures['rows']:,} runs, whose tables do not come with"
        f" the repository. {found['rows']:,} runs do, as facts with their source"
        " (`src/syncwall/catalogue/runs/`): on these the mean error is"
        f" **{percent(one['mape'])}%** over {one['sources']} held-out sources ({one['n']} runs),"
        f" and the 80% interval covers {percent(one['coverage80_rows'], 0)}%. `python -m bench"
        " accuracy --check` computes them in any clone and fails if a set got worse."
    )


def goals_table(figures: Figures) -> str:
    header = "set | n | goal | syncwall | | prototype | Calculon | one constant | others"
    words = {True: "reached", False: "**not reached**"}
    rows: list[list[Any]] = []
    for goal in read_goals().goals:
        found = found_for(goal, figures)
        if found is None:
            continue
        shown = f"{found.value}" if goal.of == "pairs" else percent(found.value)
        others = ["–", "–", goal.others or "–"]
        if goal.figure == "mape" and goal.of in ("set", "summary"):
            others[:2] = _calculon(found), _constant(found)
        elif goal.of == "collectives":
            own = f"NCCL's own model {percent(found.entry['nccl_error'])}"
            others[2] = f"{own}; {goal.others}" if goal.others else own
        cells = [goal.title, found.n, f"≤ {goal.at_most:g}", shown, words[reached(goal, found)]]
        rows.append([*cells, goal.prototype, *others])
    low, high = read_goals().coverage80
    covered, n = (figures["summary"][key] for key in ("coverage80_rows", "n"))
    band, inside = f"≥ {round(100 * low)}", low <= covered <= high
    cells = ["80% interval covers", n, band, percent(covered, 0), words[inside]]
    return markdown(header, [*rows, [*cells, "–", "none", "none", "–"]])


def _calculon(found: Found) -> str:
    """Calculon's error, and ours beside it where it describes only some of the runs."""
    other = found.entry["against"].get("calculon")
    if other is None:
        return "cannot"
    if other["n"] == found.n:
        return percent(other["mape"])
    return f"{percent(other['mape'])} on {other['n']} (ours {percent(other['mape_ours'])})"


def _constant(found: Found) -> str:
    other = found.entry["against"].get("b1")
    return percent(other["mape"]) if other else "–"


def calculon_list(figures: Figures) -> str:
    lines = []
    for goal in read_goals().goals:
        found = found_for(goal, figures)
        if goal.of != "set" or goal.figure != "mape" or found is None:
            continue
        other = found.entry["against"].get("calculon")
        if other and round(other["mape"], 3) < round(other["mape_ours"], 3):
            why = f": {goal.calculon}" if goal.calculon else ""
            errors = f"{percent(other['mape'])}% against {percent(other['mape_ours'])}%"
            lines.append(f"- {goal.title} ({errors} on {other['n']} runs){why}.")
    if not lines:
        return "On no set is Calculon nearer on the runs that both can describe."
    return "Calculon is nearer on these runs that both can describe:\n\n" + "\n".join(lines)


def collectives_table(figures: Figures) -> str:
    rows = []
    for one in figures["collectives"]:
        if "all kinds" in one["name"] or one["role"] != "fitted":
            cells = [one["name"].replace(", from 1 MiB", ""), one["role"], one["rows"]]
            errors = [percent(one["error"]), number(one["median_ratio"])]
            rows.append([*cells, *errors, percent(one["nccl_error"])])
    return markdown("set | role | sizes | MAPE | ratio | NCCL's own model", rows)


def worst_tables(figures: Figures) -> str:
    def amount(value: float, unit: str) -> str:
        return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"

    parts = []
    for goal in missed(figures):
        if (worst := figures["worst"].get(goal.title)) is None:
            continue
        rows = []
        for one in worst:
            amounts = [amount(one[key], one["unit"]) for key in ("measured", "predicted")]
            rows.append([f"`{one['id']}`", one["what"], *amounts, number(one["ratio"])])
        text = markdown("run | what | measured | predicted | ratio", rows, 2)
        parts.append("\n\n".join(filter(None, (f"### {goal.title}", goal.missing, text))))
    return "\n\n".join(parts) if parts else "Every set reaches its goal."


def remembered() -> list[Figures]:
    found: list[Figures] = json.loads(JUDGED.read_text())
    return found


def judged_table(figures: Figures) -> str:
    rows = []
    for one in reversed(remembered()):
        cells = [one["date"], f"`{one['commit']}`", one["what"], one["sources"], one["n"] or "–"]
        rows.append([*cells, percent(one["mape"]), percent(one["coverage80_sources"], 0)])
    return markdown("date | commit | judges | sources | runs | mean error | covered", rows, 3)


def register_table(figures: Figures) -> str:
    rows = [
        [name, owners, runs, percent(error), percent(inside, 0), number(ratio)]
        for name, owners, runs, error, inside, ratio in topics()
    ]
    return markdown("first contacts | organisations | runs | mean error | covered | ratio", rows)


def headline() -> Figures:
    """The accuracy that a stranger may expect: the newest score of sources that nobody had seen.

    Mean over sources of their mean error, and of the share of their runs inside the 80 % interval.
    It stands until a later closed score replaces it, whatever known sources give meanwhile.
    """
    return next(one for one in reversed(remembered()) if one.get("first_contact"))


def judged_line(figures: Figures) -> str:
    unseen = headline()
    known = next(one for one in reversed(remembered()) if not {"first_contact", "register"} & one.keys())
    return (
        f"On {unseen['sources']} sources that nobody had seen ({unseen['n']} runs, {unseen['date']},"
        f" `{unseen['commit']}`) the **mean error is {percent(unseen['mape'])}%** and the"
        f" **80% interval covers {percent(unseen['coverage80_sources'], 0)}%**."
        f" On {known['sources']} closed sources whose siblings were known it is"
        f" {percent(known['mape'])}%, covered {percent(known['coverage80_sources'], 0)}%."
    )


BLOCKS: dict[str, Callable[[Figures], str]] = {
    "readme": readme,
    "built-in": built_in_line,
    "summary": summary_line,
    "goals": goals_table,
    "calculon": calculon_list,
    "held-out": lambda figures: source_table(figures, held_out=True),
    "calibration": lambda figures: source_table(figures, held_out=False),
    "judged": judged_table,
    "register": register_table,
    "judged-line": judged_line,
    "known-runs": known_runs_table,
    "baselines": baselines_table,
    "memory": memory_table,
    "collectives": collectives_table,
    "worst": worst_tables,
    "doubtful": lambda f: reasons_table(f["doubtful"], f"{f['predicted']:,} predicted rows"),
    "skipped": lambda f: reasons_table(f["skipped"], f"{f['rows']:,} rows; {f['predicted']:,} are predicted"),
}


def rewritten(text: str, figures: Figures) -> str:
    return MARKED.sub(lambda found: f"{found[1]}\n{BLOCKS[found[2]](figures)}\n\n{found[3]}", text)


def stale(figures: Figures) -> list[Path]:
    return [page for page in PAGES if page.read_text() != rewritten(page.read_text(), figures)]
