"""How far predictions are from published runs, for the terminal.

Holds `validation_page`, and `KINDS`, `COLUMNS` and `cells`, which the HTML page shares.
`scatter_page`: predicted against measured step times as one HTML file that needs nothing else. The
page is `scatter.html` with the runs as a block of JSON; text from tables is never written as
markup.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from html import escape
from importlib.resources import files
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from syncwall.show.headed import table
from syncwall.show.layout_words import layout_words
from syncwall.show.numbers import duration
from syncwall.show.report.page import filled
from syncwall.validate.evaluation import Outcome
from syncwall.validate.report import Report, SetReport
from syncwall.validate.split import Part, part_of

KINDS: Final = {
    "source": "By source",
    "named": "Named sets",
    "accelerator": "By accelerator, held-out runs",
    "scale": "By scale, held-out runs",
    "parallelism": "By parallelism, held-out runs",
    "all": "Runs that fits may read",
}
COLUMNS: Final = (
    "set", "n", "MAPE", "median", "ratio", "p10 to p90", "covered", "1, 3, 5 known", "all n",
    "all MAPE", "used for",
)  # fmt: skip

LEGEND: Final = (
    "MAPE and median of |predicted / measured - 1|; ratio: predicted / measured; covered: inside "
    "the 80 % interval; 1, 3, 5 known: MAPE of the other runs once so many of a source are known; "
    "all: with rows in doubt"
)
_REASONS: Final = 12
"""How many reasons are listed."""


def validation_page(report: Report, *, worst: int = 10) -> RenderableType:
    """Tables of sets, baselines, worst rows, what was skipped, the summary."""
    parts: list[RenderableType] = []
    for kind, heading in KINDS.items():
        sets = [one for one in report.sets if one.runs.kind == kind]
        if sets:
            parts += [Text(heading, "bold"), _table(COLUMNS, map(cells, sets)), Text()]
    parts += [Text(LEGEND, "dim"), Text()]
    parts += [*_side_by_side(report), *_worst(report, worst), *_left_out(report)]
    return Group(*parts, *_summary(report))


def cells(one: SetReport) -> list[str]:
    """A line of a table of sets: the texts below `COLUMNS`."""
    score, runs = one.score, one.runs
    every = [
        f"{one.n_all:,}",
        f"{one.mape_all:.1%}",
        "held out" if runs.held_out else "calibration",
    ]
    if score is None:
        return [runs.name, "0", *["–"] * 6, *every]
    known = (score.mape_one_known_run, score.mape_three_known_runs, score.mape_five_known_runs)
    nearer = ", ".join(f"{error:.1%}" for error in known if error is not None)
    return [
        runs.name, f"{score.n:,}", f"{score.mape:.1%}", f"{score.median_ape:.1%}",
        f"{score.ratio_median:.2f}", f"{score.ratio_p10:.2f} to {score.ratio_p90:.2f}",
        f"{score.coverage80:.0%}", nearer or "–", *every,
    ]  # fmt: skip


_table = partial(table, overflow="fold")


def _side_by_side(report: Report) -> Iterator[RenderableType]:
    """Baselines and we, each on the runs that both can predict."""
    names = list(dict.fromkeys(name for one in report.sets for name in one.against))
    if not names:
        return
    columns = ["set"] + [text for name in names for text in (f"{name} n", name, "ours")]
    shown = [one for one in report.sets if one.runs.kind in ("source", "named") and one.against]
    yield Text("Side by side: MAPE on the runs that both can predict", "bold")
    yield _table(columns, (_compared(one, names) for one in shown))
    yield Text()


def _compared(one: SetReport, names: list[str]) -> Iterator[str]:
    yield one.runs.name
    for name in names:
        other = one.against.get(name)
        if other is None:
            yield from ("–", "–", "–")
        else:
            yield from (f"{other.n:,}", f"{other.mape:.1%}", f"{other.mape_ours:.1%}")


def _worst(report: Report, count: int) -> Iterator[RenderableType]:
    """The rows without doubt that are furthest off."""
    lines = [_run(one) for one in report.worst(count)]
    if lines:
        yield Text("Furthest off", "bold")
        yield _table(("run", "where", "measured", "predicted", "ratio"), lines, words=2)
        yield Text()


def _run(one: Outcome) -> list[str]:
    row = one.case.row
    return [
        row.id,
        row.place,
        duration(one.case.measured_s),
        duration(one.step_s),
        f"{one.ratio:.2f}",
    ]


def _left_out(report: Report) -> Iterator[RenderableType]:
    """Why rows are not counted, with an example each."""
    skipped = [(one.reason, f"{one.row.id} ({one.row.place})") for one in report.skipped]
    doubtful = [
        (one.reason, f"{one.outcome.case.row.id} ({one.outcome.case.row.place})")
        for one in report.doubtful
    ]
    for heading, reasons in (("Cannot be predicted", skipped), ("In doubt", doubtful)):
        if reasons:
            yield Text(f"{heading}: {len(reasons):,} rows", "bold")
            yield _table(("reason", "for example", "rows"), _counted(reasons), words=2)
            yield Text()


def _counted(reasons: list[tuple[str, str]]) -> list[list[str]]:
    """Reasons that differ only in numbers together, the commonest first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for reason, example in reasons:
        groups.setdefault(re.sub(r"\d+", "", reason), []).append((reason, example))
    ordered = sorted(groups.values(), key=lambda members: -len(members))
    lines = [[*members[0], f"{len(members):,}"] for members in ordered[:_REASONS]]
    rest = ordered[_REASONS:]
    others = [f"{len(rest)} other reasons (all: --json)", "", f"{sum(map(len, rest)):,}"]
    return lines + ([others] if rest else [])


def _summary(report: Report) -> Iterator[RenderableType]:
    found = report.summary
    predicted = f"{len(report.outcomes):,} of {report.rows:,} rows predicted"
    yield Text.assemble(("Rows      ", "bold"), predicted, f", {len(report.doubtful):,} in doubt")
    if found.mape is None or found.median_ape is None:
        yield Text.assemble(("Held out  ", "bold"), "no source has 3 held-out rows without doubt")
    else:
        said = (
            f"mean error {found.mape:.1%}, median {found.median_ape:.1%}: "
            f"mean over {found.sources} sources that no fit has read"
        )
        yield Text.assemble(("Held out  ", "bold"), said)
        for name, other in found.against.items():
            yield Text(
                f"          {name} {other.mape:.1%}, ours {other.mape_ours:.1%} "
                f"on the same {other.n:,} rows of {other.sources} sources"
            )
    if found.mape_five_known_runs is not None:
        known = (found.mape_one_known_run, found.mape_three_known_runs, found.mape_five_known_runs)
        errors = ", ".join(f"{error:.1%}" for error in known if error is not None)
        said = f"mean error of the other runs once 1, 3, 5 of a source are known: {errors}, against"
        said += f" {found.mape_no_known_run:.1%}; {found.sources_known} sources"
        yield Text.assemble(("Known     ", "bold"), said)
    if found.coverage80_rows is not None:
        by_source = found.coverage80_sources
        mean = "" if by_source is None else f", {by_source:.0%} as a mean over sources"
        said = f"80 % intervals hold {found.coverage80_rows:.0%} of {found.n:,} held-out rows{mean}"
        yield Text.assemble(("Interval  ", "bold"), said)


_PARTS: Final = [Part.STRUCTURE, Part.CALIBRATION, Part.COMPOSED, Part.JUDGE]
_IN_SCRIPT: Final = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
"""Characters that could end a script element or start markup, as JSON may write them."""


def scatter_page(report: Report) -> str:
    """The page of a report."""
    page = files("syncwall.show").joinpath("scatter.html").read_text(encoding="utf-8")
    skipped = f"; {len(report.skipped):,} more rows cannot be predicted" if report.skipped else ""
    parts = {
        "lead": f"{len(report.outcomes):,} published runs{skipped}. {len(report.doubtful):,} are "
        "in doubt (rings) and count only in the columns that start with “all”.",
        "tables": "\n".join(_html_table(report, kind) for kind in KINDS)
        + f"<p>{escape(LEGEND)}</p>",
        "data": json.dumps(_data(report), ensure_ascii=False).translate(_IN_SCRIPT),
    }
    return filled(page, parts)


def _data(report: Report) -> dict[str, Any]:
    """Runs as short lists; words that repeat are numbers into lists of words."""
    doubts = {one.outcome.case.row.id: one.reason for one in report.doubtful}
    sources, machines, reasons = Words(), Words(), Words()
    for source in sorted({one.case.row.source for one in report.outcomes}):
        sources.number(source)
    runs = [
        [
            one.case.row.id, sources.number(one.case.row.source), machines.number(_machine(one)),
            outcome_words(one), *map(_short, (one.case.measured_s, one.step_s, *one.interval_s)),
            _PARTS.index(part_of(one.case.row)),
            reasons.number(doubts[one.case.row.id]) if one.case.row.id in doubts else -1,
        ]
        for one in report.outcomes
    ]  # fmt: skip
    return {
        "runs": runs,
        "sources": list(sources),
        "machines": list(machines),
        "doubts": list(reasons),
        "parts": [str(part) for part in _PARTS],
    }


class Words(dict[str, int]):
    """Numbers for words in the order in which they come."""

    def number(self, word: str) -> int:
        """The number of `word`."""
        return self.setdefault(word, len(self))


def _machine(outcome: Outcome) -> str:
    cluster, row = outcome.case.cluster, outcome.case.row
    return f"{row.text('model')} on {cluster.gpus:,} x {cluster.device.name}"


def outcome_words(outcome: Outcome) -> str:
    """The layout and the batch of a run in a few words."""
    layout = outcome.layout
    batch = f"{layout.global_batch} sequences of {outcome.case.seq}"
    return f"{layout_words(layout)}, {layout.precision}, {batch}"


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _html_table(report: Report, kind: str) -> str:
    """All sets of one kind."""
    sets = [one for one in report.sets if one.runs.kind == kind]
    if not sets:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in COLUMNS)
    lines = "\n".join(_line(one) for one in sets)
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>{lines}</tbody>"
    return f'<h2>{escape(KINDS[kind])}</h2>\n<div class="wide"><table>{body}</table></div>'


def _line(one: SetReport) -> str:
    name, *figures = (escape(cell) for cell in cells(one))
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in figures)}</tr>'
