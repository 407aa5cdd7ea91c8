"""A lab result as an article: asked, set up, measured, predicted, and what stays unexplained.

Holds `lab_blocks`.
"""

from collections.abc import Iterable, Sequence

from syncwall.lab.comparison import Comparison, compared
from syncwall.lab.run import Record
from syncwall.measure.result import Result
from syncwall.show.measurement import duration
from syncwall.show.report.bars import Bar, Names, Stack, bar_chart, stack_chart
from syncwall.show.report.blocks import Block, Bullets, Figure, Heading, Paragraph, table
from syncwall.show.report.curves import Point, error_chart
from syncwall.show.report.lab_others import collectives_of, other_blocks
from syncwall.show.report.reading import LabData
from syncwall.show.report.setup import lab_setup, machine_blocks
from syncwall.show.report.steps import LabStep, pairs_of, parts_of, steps_of
from syncwall.show.report.words import (
    GOOD,
    what_it_costs,
    what_stays_unexplained,
    what_the_model_says,
)
from syncwall.units import Dimension

_MOST_ROWS = 40
"""Of one chart."""


def lab_blocks(result: Result, data: LabData, level: int) -> list[Block]:
    """The whole article, its headings at `level`."""
    steps = [step for alike in _by_what(steps_of(data.records)).values() for step in alike]
    found = compared(data.records)
    blocks: list[Block] = []
    if data.experiment.question:
        blocks += [Heading(level, "What was asked"), Paragraph(data.experiment.question)]
    blocks += [Heading(level, "Set-up"), *machine_blocks(result)]
    blocks += lab_setup(data.experiment, data.records)
    parts = [
        ("Training steps", [*_bullets(what_it_costs(steps)), *_step_blocks(steps)]),
        ("Ledgers", _ledger_blocks(steps)),
        ("Collectives", collectives_of(data.records)),
        *other_blocks(data.records),
    ]
    if found.rows:
        parts.append(("What the model says", _model_blocks(found)))
    parts.append(("What stays unexplained", _open_blocks(found, steps, data.records)))
    for title, inside in parts:
        blocks += [Heading(level, title), *inside] if inside else []
    return blocks


def _bullets(said: Sequence[str]) -> list[Block]:
    return [Bullets(tuple(said))] if said else []


def _by_what(steps: Iterable[LabStep]) -> dict[str, list[LabStep]]:
    groups: dict[str, list[LabStep]] = {}
    for step in steps:
        groups.setdefault(step.what, []).append(step)
    return groups


def _step_blocks(steps: Sequence[LabStep]) -> list[Block]:
    """A chart for each model and sharing, and a table of all."""
    blocks: list[Block] = []
    for what, alike in _by_what(steps).items():
        bars = [_bar(step) for step in alike[:_MOST_ROWS]]
        names = Names("step time", "measured median", "predicted")
        drawing = bar_chart(bars, Dimension.SECONDS, names, duration)
        blocks.append(Figure(drawing, f"{what}: step time by place and link rate."))
    fastest: dict[tuple[str, int], float] = {}
    for step in steps:
        key = step.what, step.topology.world
        fastest[key] = min(fastest.get(key, step.measured_s), step.measured_s)
    head = ("step", "place", "measured", "P10", "P90", "spread", "of fastest", "predicted", "error")
    rows = [_row(step, fastest[step.what, step.topology.world]) for step in steps]
    if not rows:
        return []
    legend = (
        "Measured: median over the steps, of each the slowest rank. Spread: half of P90 - P10. "
        "Of fastest: times that of the fastest place with as many workers. Error: predicted / "
        "measured - 1."
    )
    return [*blocks, *table(head, rows, words=2), Paragraph(legend, is_quiet=True)]


def _bar(step: LabStep) -> Bar:
    times = step.data.times
    mark = step.compared.predicted.step_s if step.compared else None
    spread = times.p10_s, times.p90_s
    note = (
        f"{step.full_label}: {duration(times.median_s)}, P10 {duration(times.p10_s)}, "
        f"P90 {duration(times.p90_s)}"
    )
    return Bar(step.label, times.median_s, spread, mark, note)


def _row(step: LabStep, fastest_s: float) -> tuple[str, ...]:
    times, row = step.data.times, step.compared
    predicted = (duration(row.predicted.step_s), f"{row.error:+.1%}") if row else ("", "")
    return (
        step.what, step.label, *map(duration, (times.median_s, times.p10_s, times.p90_s)),
        f"± {times.spread:.1%}", f"{times.median_s / fastest_s:.2f}", *predicted,
    )  # fmt: skip


def _ledger_blocks(steps: Sequence[LabStep]) -> list[Block]:
    """Where the time goes, measured and predicted."""
    blocks: list[Block] = []
    for what, alike in _by_what(steps).items():
        stacks = [
            Stack(step.label, parts_of(step.data.ledger_s),
                  parts_of(step.compared.predicted.ledger_s) if step.compared else None)
            for step in alike[:_MOST_ROWS]
        ]  # fmt: skip
        drawing = stack_chart(stacks, Dimension.SECONDS, "time in a step", duration)
        blocks.append(Figure(drawing, f"{what}: where the time of a step goes."))
    lines = list(dict.fromkeys(line for step in steps for line in _cells(step)))
    rows = [
        (step.what, step.label, *(_cells(step).get(line, "") for line in lines)) for step in steps
    ]
    said = "Each cell: measured / predicted." if any(step.compared for step in steps) else ""
    legend: list[Block] = [Paragraph(said, is_quiet=True)] if said and rows else []
    return [*blocks, *table(("step", "place", *lines), rows, words=2), *legend]


def _cells(step: LabStep) -> dict[str, str]:
    if step.compared is None:
        return {line: duration(s) for line, s in parts_of(step.data.ledger_s).items()}
    pairs = pairs_of(step.compared)
    return {line: f"{duration(a)} / {duration(b)}" for line, (a, b) in pairs.items()}


def _model_blocks(found: Comparison) -> list[Block]:
    points = [
        Point(f"{row.what}, {row.place} {row.link}", row.place, row.measured.times.median_s,
              row.predicted.step_s)
        for row in found.rows
    ]  # fmt: skip
    said = Bullets(tuple(what_the_model_says(found)))
    drawing = error_chart(points, GOOD)
    return [said, Figure(drawing, "Predicted against measured steps; each colour is a place.")]


def _open_blocks(
    found: Comparison, steps: Sequence[LabStep], records: Sequence[Record]
) -> list[Block]:
    failed = [
        f"{record.topology.label}, {record.job.label}: failed, {record.message}"
        for record in records
        if not record.ok
    ]
    said = what_stays_unexplained(found, steps, failed)
    if said:
        return [Bullets(tuple(said))]
    if found.rows:
        text = f"Nothing above the threshold: every prediction is within {GOOD:.0%} of its step"
        groups = len(found.orders())
        order = f", and the order of places is right in all {groups} groups" if groups else ""
        return [Paragraph(f"{text}{order}.")]
    return []
