"""How far predictions are from published runs: summary, scatter, tables of sets, what is
left out.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from syncwall.show.blocks import Block, Figure, Heading, Lines, Paragraph, Verdict, View, table
from syncwall.show.draw.curves import Point, error_chart
from syncwall.show.layout import layout_words
from syncwall.show.numbers import duration, percent, plural
from syncwall.validate.accuracy_report import Report, SetReport
from syncwall.validate.evaluation import ValidatedRun
from syncwall.validate.table import RowUse, corpus_part

_KINDS: Final = {
    "source": "By source",
    "named": "Named sets",
    "accelerator": "By accelerator, held-out runs",
    "scale": "By scale, held-out runs",
    "parallelism": "By parallelism, held-out runs",
    "all": "Runs that fits may read",
}
_COLUMNS: Final = (
    "set",
    "n",
    "MAPE",
    "median",
    "ratio",
    "P10 to P90",
    "covered",
    "1, 3, 5 known",
    "all n",
    "all MAPE",
    "used for",
)
_SPARE: Final = ("all MAPE", "all n", "P10 to P90", "1, 3, 5 known", "used for", "median")
_LEGEND: Final = (
    "MAPE and median of |predicted / measured − 1|; ratio: predicted / measured; covered: inside "
    "the 80% interval; 1, 3, 5 known: MAPE of the other runs once so many of a source are known; "
    "all: with rows in doubt"
)
_BAND: Final = 0.2
"""Errors inside of which the scatter is shaded."""
_REASONS: Final = 12
"""How many reasons are listed."""


def validation_view(report: Report, *, worst: int = 10) -> View:
    """All of it, with the `worst` rows."""
    blocks = [
        *_summary(report),
        *_scatter(report),
        *_sets(report),
        *_side_by_side(report),
        *_worst(report, worst),
        *_left_out(report),
    ]
    return View("Predicted and measured step times", tuple(blocks))


def _summary(report: Report) -> Iterator[Block]:
    found = report.summary
    yield Verdict((_verdict(report),))
    rows = f"{len(report.outcomes):,} of {plural(report.rows, 'row')} predicted"
    yield Lines("Rows", (f"{rows}, {len(report.doubtful):,} in doubt",))
    if found.against:
        yield Lines(
            "Others",
            tuple(
                f"{name} {percent(other.mape, 1)}, ours {percent(other.mape_ours, 1)} on the same "
                f"{plural(other.n, 'row')} of {plural(other.sources, 'source')}"
                for name, other in found.against.items()
            ),
        )
    if found.mape_five_known_runs is not None:
        known = (found.mape_one_known_run, found.mape_three_known_runs, found.mape_five_known_runs)
        said = f"mean error of the other runs once 1, 3, 5 of a source are known: {_errors(known)}"
        without = percent(found.mape_no_known_run or 0.0, 1)
        yield Lines("Known", (f"{said}, against {without}; {found.sources_known} sources",))
    if found.coverage80_rows is not None:
        by_source = found.coverage80_sources
        mean = "" if by_source is None else f", {percent(by_source)} as a mean over sources"
        covered = f"80% intervals hold {percent(found.coverage80_rows)}"
        yield Lines("Interval", (f"{covered} of {plural(found.n, 'held-out row')}{mean}",))


def _verdict(report: Report) -> str:
    found = report.summary
    if found.mape is None or found.median_ape is None:
        return "no source has 3 held-out rows without doubt"
    return (
        f"mean error {percent(found.mape, 1)}, median {percent(found.median_ape, 1)}: mean over "
        f"{plural(found.sources, 'source')} that no fit has read"
    )


def _errors(shares: Sequence[float | None]) -> str:
    return ", ".join(percent(share, 1) for share in shares if share is not None)


def _scatter(report: Report) -> Iterator[Block]:
    """Every run as a dot that says what it is; in pages, parts and sources can be hidden."""
    if not report.outcomes:
        return
    doubts = {one.outcome.case.row.id: one.reason for one in report.doubtful}
    points = [_point(one, doubts.get(one.case.row.id)) for one in report.outcomes]
    order = [*map(str, RowUse), "in doubt"]
    points.sort(key=lambda one: (order.index(one.group), one.source))
    caption = "predicted over measured step times, a dot for each run"
    yield Figure(partial(error_chart, points, _BAND), caption, script="scatter.js")


def _point(one: ValidatedRun, doubt: str | None) -> Point:
    row, cluster = one.case.row, one.case.cluster
    low, high = map(duration, one.interval_s)
    lines = [
        row.id,
        f"{row.source} ({corpus_part(row)})",
        f"{row.text('model')} on {cluster.gpus:,} × {cluster.device.name}",
        outcome_words(one),
        *([f"in doubt: {doubt}"] if doubt else []),
        f"ratio {one.ratio:.3f}, 80% interval {low} to {high}",
    ]
    group = "in doubt" if doubt else str(corpus_part(row))
    return Point("\n".join(lines), group, one.case.measured_s, one.step_s, row.source)


def outcome_words(outcome: ValidatedRun) -> str:
    """The layout and the batch of a run in a few words."""
    layout = outcome.layout
    batch = f"{layout.global_batch} sequences of {outcome.case.seq}"
    return f"{layout_words(layout)}, {layout.precision}, {batch}"


def _sets(report: Report) -> Iterator[Block]:
    for kind, heading in _KINDS.items():
        rows = [_cells(one) for one in report.sets if one.runs.kind == kind]
        if rows:
            yield Heading(2, heading)
            yield from table(_COLUMNS, rows, ends_in_words=True, spare=_SPARE)
    yield Paragraph(_LEGEND, is_quiet=True)


def _cells(one: SetReport) -> list[str]:
    """What stands under `_COLUMNS`."""
    score, runs = one.score, one.runs
    used_for = "held out" if runs.held_out else "calibration"
    every = [f"{one.n_all:,}", percent(one.mape_all, 1), used_for]
    if score is None:
        return [runs.name, "0", *["–"] * 6, *every]
    known = (score.mape_one_known_run, score.mape_three_known_runs, score.mape_five_known_runs)
    return [
        runs.name,
        f"{score.n:,}",
        percent(score.mape, 1),
        percent(score.median_ape, 1),
        f"{score.ratio_median:.2f}",
        f"{score.ratio_p10:.2f} to {score.ratio_p90:.2f}",
        percent(score.coverage80),
        _errors(known) or "–",
        *every,
    ]


def _side_by_side(report: Report) -> Iterator[Block]:
    """Baselines and we, each on the runs that both can predict."""
    names = list(dict.fromkeys(name for one in report.sets for name in one.against))
    if not names:
        return
    columns = ["set"] + [text for name in names for text in (f"{name} n", name, "ours")]
    shown = [one for one in report.sets if one.runs.kind in ("source", "named") and one.against]
    yield Heading(2, "Side by side: MAPE on the runs that both can predict")
    yield from table(columns, (list(_compared(one, names)) for one in shown))


def _compared(one: SetReport, names: list[str]) -> Iterator[str]:
    yield one.runs.name
    for name in names:
        other = one.against.get(name)
        if other is None:
            yield from ("–", "–", "–")
        else:
            yield from (f"{other.n:,}", percent(other.mape, 1), percent(other.mape_ours, 1))


def _worst(report: Report, count: int) -> list[Block]:
    """The rows without doubt that are furthest off."""
    rows = [
        (
            one.case.row.id,
            one.case.row.place,
            duration(one.case.measured_s),
            duration(one.step_s),
            f"{one.ratio:.2f}",
        )
        for one in report.worst(count)
    ]
    head = ("run", "where", "measured", "predicted", "ratio")
    return [Heading(2, "Furthest off"), *table(head, rows, words=2, spare=head[1:2])] if rows else []


def _left_out(report: Report) -> Iterator[Block]:
    """Why rows are not counted, with an example each."""
    left_out = {
        "Cannot be predicted": [(one.reason, one.row) for one in report.skipped],
        "In doubt": [(one.reason, one.outcome.case.row) for one in report.doubtful],
    }
    for heading, rows in left_out.items():
        if rows:
            examples = [(reason, f"{row.id} ({row.place})") for reason, row in rows]
            head = ("reason", "for example", "rows")
            yield Heading(2, f"{heading}: {plural(len(rows), 'row')}")
            yield from table(head, _counted(examples), words=2, spare=head[1:2])


def _counted(reasons: list[tuple[str, str]]) -> list[list[str]]:
    """Reasons that differ only in numbers together, the commonest first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for reason, example in reasons:
        groups.setdefault(re.sub(r"\d+", "", reason), []).append((reason, example))
    ordered = sorted(groups.values(), key=lambda members: -len(members))
    lines = [[*members[0], f"{len(members):,}"] for members in ordered[:_REASONS]]
    rest = ordered[_REASONS:]
    others = [f"{plural(len(rest), 'other reason')} (all: --json)", "", f"{sum(map(len, rest)):,}"]
    return lines + ([others] if rest else [])
