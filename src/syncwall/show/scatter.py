"""Predicted against measured step times as one HTML file that needs nothing else.

Holds `scatter_page`. The page is `scatter.html` with the runs as a block of JSON; text from tables
is never written as markup.
"""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from syncwall.show.template import filled
from syncwall.show.validation import COLUMNS, KINDS, LEGEND, cells
from syncwall.validate.evaluation import Outcome
from syncwall.validate.report import Report, SetReport
from syncwall.validate.split import Part, part_of

_PARTS: Final = [Part.HELD_OUT, Part.CALIBRATION, Part.COMPOSED]
_IN_SCRIPT: Final = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
"""Characters that could end a script element or start markup, as JSON may write them."""


def scatter_page(report: Report) -> str:
    """The page of a report."""
    page = files("syncwall.show").joinpath("scatter.html").read_text(encoding="utf-8")
    skipped = f"; {len(report.skipped):,} more rows cannot be predicted" if report.skipped else ""
    parts = {
        "lead": f"{len(report.outcomes):,} published runs{skipped}. {len(report.doubtful):,} are "
        "in doubt (rings) and count only in the columns that start with “all”.",
        "tables": "\n".join(_table(report, kind) for kind in KINDS) + f"<p>{escape(LEGEND)}</p>",
        "data": json.dumps(_data(report), ensure_ascii=False).translate(_IN_SCRIPT),
    }
    return filled(page, parts)


def _data(report: Report) -> dict[str, Any]:
    """Runs as short lists; words that repeat are numbers into lists of words."""
    doubts = {one.outcome.case.row.id: one.reason for one in report.doubtful}
    sources = _Words(sorted({one.case.row.source for one in report.outcomes}))
    machines, reasons = _Words(), _Words()
    runs = [
        [
            one.case.row.id, sources.index(one.case.row.source), machines.index(_machine(one)),
            layout_words(one), *map(_short, (one.case.measured_s, one.step_s, *one.interval_s)),
            _PARTS.index(part_of(one.case.row)),
            reasons.index(doubts[one.case.row.id]) if one.case.row.id in doubts else -1,
        ]
        for one in report.outcomes
    ]  # fmt: skip
    return {
        "runs": runs,
        "sources": list(sources.known),
        "machines": list(machines.known),
        "doubts": list(reasons.known),
        "parts": [str(part) for part in _PARTS],
    }


class _Words:
    """Numbers for words in the order in which they come."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.known = {word: number for number, word in enumerate(words)}

    def index(self, word: str) -> int:
        """The number of `word`."""
        return self.known.setdefault(word, len(self.known))


def _machine(outcome: Outcome) -> str:
    cluster, row = outcome.case.cluster, outcome.case.row
    return f"{row.text('model')} on {cluster.gpus:,} x {cluster.device.name}"


def layout_words(outcome: Outcome) -> str:
    """The layout of a run in a few words."""
    layout = outcome.layout
    axes = [f"{name} {getattr(layout, name)}" for name in ("tp", "pp", "cp", "ep", "dp")]
    used = [words for words in axes if not words.endswith(" 1")]
    batch = f"batch {layout.micro_batch} of {layout.global_batch}, seq {outcome.case.seq}"
    kinds = [layout.shard.text, str(layout.precision), f"recompute {layout.recompute.text}", batch]
    return ", ".join([*used, *kinds])


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _table(report: Report, kind: str) -> str:
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
