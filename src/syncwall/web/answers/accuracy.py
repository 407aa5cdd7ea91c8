"""The numbers of the Accuracy page: every published run beside its prediction.

Holds `accuracy`, which takes long: pages show it as `python -m bench docs accuracy` computed it for
this release; `as_run`, one of the runs as Predict opens it; and `alike`, those
most like the run that somebody has in mind.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, lru_cache
from math import isfinite, log
from typing import Any, Final, NamedTuple

import numpy as np

from syncwall.answer.interval import nearest_runs
from syncwall.describe.base import Description
from syncwall.problems import InputError
from syncwall.show.blocks import Cell, Table
from syncwall.show.layout import run_words
from syncwall.show.numbers import duration, percent, plural, signed_percent
from syncwall.show.validation import outcome_words
from syncwall.show.write.parts import Markup, Part, button, linked, markup, quiet, table, tag, tile
from syncwall.validate.accuracy_report import Report, validate
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import case_of
from syncwall.validate.table import RowUse, RunRow, corpus_part, read_tables
from syncwall.validate.table_models import CannotRepresent
from syncwall.web.answers.catalogue import source_text
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.assets import shipped_accuracy
from syncwall.web.questions import AskedPublished, AskedRun

_DIGITS: Final = 6
"""Of times in answers: errors counted from them are those of the report."""
_ALIKE: Final = 400
"""Runs that are looked at for the nearest; a page shows the first of those that it has."""
_NEAREST, _FURTHEST, _FEWEST = 6, 8, 3
"""Runs that are listed; and of a source that counts, as in `syncwall.validate.score`."""
_MEAN: Final = "of |predicted / measured − 1|"
_CHOOSE: Final = "Choose a point to see what ran, what was predicted, and where the number comes from."
_PARTS: Final = [str(part) for part in RowUse]


class Words(dict[str, int]):
    """Numbers for words in the order in which they come."""

    def number(self, word: str) -> int:
        """The number of `word`."""
        return self.setdefault(word, len(self))


def accuracy(*, progress: Callable[[float], None] = lambda share: None) -> dict[str, Any]:
    """Every published run with its prediction, interval and source, computed now.

    Runs are short lists, and refer to words by number.
    """
    report = validate(progress=lambda share: progress(0.8 * share))
    words = {name: Words() for name in ("source", "model", "device", "framework", "doubt")}
    doubts = {one.outcome.case.row.id: one.reason for one in report.doubtful}
    runs = []
    for number, one in enumerate(report.outcomes):
        if number % 50 == 0:
            progress(0.8 + 0.2 * number / len(report.outcomes))
        runs.append(_line(one, doubts.get(one.case.row.id), words))
    return {
        "columns": [
            "id",
            "measured_s",
            "predicted_s",
            "low_s",
            "high_s",
            "source",
            "model",
            "device",
            "framework",
            "gpus",
            "layout",
            "part",
            "doubt",
        ],
        "runs": runs,
        "words": {name: list(known) for name, known in words.items()},
        "parts": _PARTS,
        "sources": {key: source_text(key) for key in words["source"]},
        **_totals(report),
    }


def _line(one: ValidatedRun, doubt: str | None, words: dict[str, Words]) -> list[Any]:
    row, cluster = one.case.row, one.case.cluster
    return [
        row.id,
        *map(_rounded, (one.case.measured_s, one.step_s, *one.interval_s)),
        words["source"].number(row.source),
        words["model"].number(row.text("model")),
        words["device"].number(cluster.device.name),
        words["framework"].number(row.text("framework")),
        cluster.gpus,
        outcome_words(one),
        _PARTS.index(str(corpus_part(row))),
        -1 if doubt is None else words["doubt"].number(doubt),
    ]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{_DIGITS}g}")


def _totals(report: Report) -> dict[str, Any]:
    held = asdict(report.summary)
    held.pop("against")
    reasons: dict[str, int] = {}
    for one in report.skipped:
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    common = sorted(reasons.items(), key=lambda pair: -pair[1])
    return {
        "rows": report.rows,
        "skipped": len(report.skipped),
        "why_skipped": common,
        "held_out": held,
        "held_out_parts": [str(part) for part in RowUse if part.is_held_out],
    }


@cache
def _known_rows() -> dict[str, RunRow]:
    return {row.id: row for row in read_tables()}


@lru_cache(maxsize=64)
def as_run(name: str) -> dict[str, Any]:
    """One published run as a run to predict: what the source leaves open is as it was validated."""
    row = _known_rows().get(name)
    if row is None:
        raise InputError.of("there is no published run of this name")
    try:
        case = case_of(row)
    except CannotRepresent as error:
        raise InputError.of(f"cannot be predicted: {error}") from None
    (found,) = outcomes([case])
    return {
        "run": {
            "model": _stated(case.model),
            "cluster": _stated(case.cluster),
            "gpus": case.cluster.gpus,
            "seq": case.seq,
            "layout": _stated(found.layout, unset=True),
            "software": _stated(case.software),
        },
        "open": list(case.open_fields),
        "cited": row.text("cited"),
        "predicted_s": found.step_s,
    }


def _stated(described: Description, *, unset: bool = False) -> dict[str, Any]:
    return described.model_dump(mode="json", exclude_unset=not unset, exclude_none=True)


def alike(asked: AskedRun) -> dict[str, Any]:
    """The published runs most like one that is asked for, the nearest first.

    `distance` is the one that intervals use: 1 is about another kind of machine or model. `html`
    lists the nearest of those that are not in doubt.
    """
    prediction = prediction_of(asked)
    found = nearest_runs(prediction.traits, _ALIKE)
    known = {one.id: one for one in _published() if not one.doubt}
    near = [known[one.id] for one in found if one.id in known]
    return {
        "what": run_words(prediction.run),
        "runs": [{"id": one.id, "distance": one.distance} for one in found],
        "html": {
            "alike-what": markup(run_words(prediction.run)),
            "alike": _listed(near[:_NEAREST]),
        },
    }


class _Published(NamedTuple):
    """A run as it was published, beside its prediction."""

    id: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    source: str
    model: str
    device: str
    framework: str
    gpus: int
    layout: str
    part: str
    doubt: str
    place: int
    """In the list that comes with this release."""

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured_s - 1

    @property
    def covered(self) -> bool:
        return self.low_s <= self.measured_s <= self.high_s

    @property
    def name(self) -> str:
        return f"{self.model}, {self.gpus:,} × {self.device}"


@cache
def _shipped() -> dict[str, Any]:
    shipped: dict[str, Any] = json.loads(shipped_accuracy().body)
    return shipped


@cache
def _published() -> list[_Published]:
    """All runs that come with this release, by their measured time."""
    answer = _shipped()
    words = answer["words"] | {"part": answer["parts"]}

    def meant(name: str, value: Any) -> Any:
        return words[name][value] if name in words and value >= 0 else "" if name == "doubt" else value

    made = []
    for place, line in enumerate(answer["runs"]):
        row = zip(answer["columns"], line, strict=True)
        made.append(_Published(**{name: meant(name, one) for name, one in row}, place=place))
    return sorted(made, key=lambda one: one.measured_s)


def shown(asked: AskedPublished) -> dict[str, Any]:
    """The runs that are wished for, by measured time; `html` says how far off they are.

    `places` are those of the runs in the answer of `accuracy`. Errors are counted as
    `syncwall validate` counts them.
    """
    runs = _kept(asked, asked.source)
    chosen = next((one for one in _published() if one.id == asked.chosen), None)
    far = sorted(runs, key=lambda one: -abs(log(1 + one.error)))[:_FURTHEST]
    html = {
        "tiles": _tiles(runs),
        "sources": _sources(_kept(asked, ""), asked.source),
        "worst": _listed(far),
        "run-about": quiet(_CHOOSE) if chosen is None else _about(chosen),
    }
    return {"places": [one.place for one in runs], "html": html}


def _kept(asked: AskedPublished, source: str) -> list[_Published]:
    words, only = asked.words.lower().split(), None if asked.only is None else set(asked.only)
    return [
        one
        for one in _published()
        if source in ("", one.source)
        and asked.part in ("", one.part)
        and asked.device in ("", one.device)
        and (asked.doubtful or not one.doubt)
        and (only is None or one.id in only)
        and all(word in f"{one.model} {one.framework} {one.id}".lower() for word in words)
    ]


def _errors(runs: list[_Published]) -> Any:
    return np.abs([one.error for one in runs])


def _by_source(runs: list[_Published]) -> dict[str, list[_Published]]:
    """Those with most runs first."""
    found: dict[str, list[_Published]] = {}
    for one in runs:
        found.setdefault(one.source, []).append(one)
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _tiles(runs: list[_Published]) -> Markup:
    errors, count = _errors(runs), len(runs)
    held = [one for one in runs if one.part in _shipped()["held_out_parts"] and not one.doubt]
    means = [_errors(own).mean() for own in _by_source(held).values() if len(own) >= _FEWEST]
    off = f"predicted/measured {np.median([1 + one.error for one in runs]):.3f}" if runs else ""

    def share(key: str, name: str, mask: Any, beside: str = "of the runs") -> Markup:
        found = float(np.mean(mask)) if count else None
        return tile(key, name, "–" if found is None else percent(found), beside, found)

    def error(key: str, name: str, found: Any, beside: str) -> Markup:
        text = percent(found, 1) if isfinite(found) else "–"
        return tile(key, name, text, beside, float(found) if isfinite(found) else None)

    nothing = float("nan")
    sources = f"of {plural(len(means), 'held-out source')}, each counted the same"
    return markup(
        tile("count", "Runs", f"{count:,}" if count else "–", f"of {len(_published()):,}", count),
        error("mean", "Mean error", errors.mean() if count else nothing, _MEAN),
        error("median", "Median error", np.median(errors) if count else nothing, off),
        share("within10", "Within 10%", errors <= 0.1),
        share("within20", "Within 20%", errors <= 0.2),
        error("held-out", "Mean over sources", np.mean(means) if means else nothing, sources),
        share(
            "covered",
            "Inside the 80% interval",
            [one.covered for one in runs],
            "80% would be right",
        ),
    )


def _listed(runs: list[_Published]) -> Markup:
    """Runs that are looked at by a click, and how far off they are."""
    rows = tuple((Cell(one.name, keys={"accuracy.run": one.id}), signed_percent(one.error)) for one in runs)
    return table(Table(("run", "error"), rows), is_head_hidden=True)


def _sources(runs: list[_Published], chosen: str) -> Markup:
    """Sources with their own errors; a click shows the runs of one alone."""
    rows = []
    for key, mine in _by_source(runs).items():
        errors, source = _errors(mine), source_text(key)
        median, pressed = float(np.median(errors)), key == chosen
        keys = {"accuracy.source": None if pressed else key}
        name = button(key, keys, aria_pressed=str(pressed).lower())
        author = f"{source['author']}, " if source["author"] else ""
        below = tag("div", author, linked(source["where"]), class_="quiet small")
        rows.append(
            (
                Cell(name, row={"source": key, "count": len(mine), "median": median}),
                f"{len(mine):,}",
                percent(median, 1),
                percent(errors.mean(), 1),
                percent(float(np.mean([one.covered for one in mine]))),
                source["date"],
                markup(source["title"], below),
            )
        )
    head = ("source", "runs", "median error", "mean error", "in 80%", "date", "title")
    return table(Table(head, tuple(rows), ends_in_words=1))


def _about(run: _Published) -> Markup:
    """What ran, what was predicted, and where the number comes from."""
    source = source_text(run.source)
    interval = f"80% interval: {duration(run.low_s)} to {duration(run.high_s)}"
    missed = "" if run.covered else ", which it misses"
    cited = [
        source["title"] or run.source,
        f"{source['author'] or ''}, {source['date']}".strip(", "),
    ]
    facts: dict[str, Part] = {
        "ran": f"{run.model} on {run.gpus:,} × {run.device}, " + (run.framework or "framework not named"),
        "layout": run.layout,
        "measured": (tag("b", duration(run.measured_s)), " a step"),
        "predicted": (
            tag("b", duration(run.predicted_s)),
            f" ({signed_percent(run.error)}); {interval}{missed}",
        ),
        "used for": run.part,
        "in doubt": run.doubt,
        "source": (f"{'. '.join(cited)}. ", tag("span", linked(source["where"]), class_="quiet")),
        "id": tag("code", run.id),
    }
    lines = ((tag("dt", name), tag("dd", said)) for name, said in facts.items() if said)
    return tag("dl", lines, class_="facts", data={"run": run.id})
