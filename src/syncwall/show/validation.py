"""How far predictions are from published runs, for the terminal.

Holds `validation_page`, and `KINDS`, `COLUMNS` and `cells`, which the HTML page shares.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall.show.measurement import duration
from syncwall.validate.evaluation import Outcome
from syncwall.validate.report import Report, SetReport

KINDS: Final = {
    "source": "By source",
    "named": "Named sets",
    "accelerator": "By accelerator, held-out runs",
    "scale": "By scale, held-out runs",
    "parallelism": "By parallelism, held-out runs",
    "all": "Runs that fits may read",
}
COLUMNS: Final = (
    "set", "n", "MAPE", "median", "ratio", "p10 to p90", "covered", "one known", "all n",
    "all MAPE", "used for",
)  # fmt: skip

LEGEND: Final = (
    "MAPE and median of |predicted / measured - 1|; ratio: predicted / measured; covered: inside "
    "the 80 % interval; one known: MAPE once one run of the set is known; all: with rows in doubt"
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
    known = score.mape_one_known_run
    return [
        runs.name, f"{score.n:,}", f"{score.mape:.1%}", f"{score.median_ape:.1%}",
        f"{score.ratio_median:.2f}", f"{score.ratio_p10:.2f} to {score.ratio_p90:.2f}",
        f"{score.coverage80:.0%}", "–" if known is None else f"{known:.1%}", *every,
    ]  # fmt: skip


def _table(columns: Iterable[str], lines: Iterable[Iterable[str]], *, words: int = 1) -> Table:
    """A table whose first `words` columns are texts, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        justify = "left" if number < words else "right"
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for line in lines:
        table.add_row(*map(Text, line))
    return table


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
    if found.coverage80_rows is not None:
        by_source = found.coverage80_sources
        mean = "" if by_source is None else f", {by_source:.0%} as a mean over sources"
        said = f"80 % intervals hold {found.coverage80_rows:.0%} of {found.n:,} held-out rows{mean}"
        yield Text.assemble(("Interval  ", "bold"), said)
