"""A lab result as an article: asked, set up, measured, predicted, and what stays unexplained.

Holds `lab_blocks`. `collectives_of` and `other_blocks`: what a lab measured besides steps:
collectives of all topologies together, links, kernels.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from syncwall.lab.comparison import Comparison, compared
from syncwall.lab.run import Record
from syncwall.measure.result import Result
from syncwall.show.numbers import duration, rate
from syncwall.show.report.axes import size_text
from syncwall.show.report.bars import Bar, Names, Stack, bar_chart, stack_chart
from syncwall.show.report.blocks import Block, Bullets, Figure, Heading, Paragraph, table
from syncwall.show.report.curves import Point, error_chart
from syncwall.show.report.reading import Collectives, LabData, Links, data_of
from syncwall.show.report.sections import Curve, collective_blocks, measurement_blocks
from syncwall.show.report.setup import lab_setup, machine_blocks
from syncwall.show.report.words import (
    GOOD,
    LabStep,
    pairs_of,
    parts_of,
    steps_of,
    what_it_costs,
    what_stays_unexplained,
    what_the_model_says,
)
from syncwall.units import Dimension

_LARGE_BYTES = 16_000_000
"""From this size on, an all-reduce is compared with what iperf3 found."""


class _Part(NamedTuple):
    title: str
    blocks: list[Block]


def collectives_of(records: Sequence[Record]) -> list[Block]:
    """Bus bandwidth over size: a colour for each place, a dash for each rate.

    With one place only, a colour for each rate.
    """
    places = list(dict.fromkeys(record.topology.place for record in records))
    rates = sorted({float(record.topology.rate_bytes_per_s) for record in records}, reverse=True)
    curves: dict[str, Curve] = {}
    for record in records:
        data = _collectives(record)
        if data is None:
            continue
        topology = record.topology
        name, hue = topology.label, places.index(topology.place)
        dash = rates.index(float(topology.rate_bytes_per_s)) if topology.hosts > 1 else 0
        if len(places) == 1:
            hue, dash = dash, 0
        before = curves[name].rows if name in curves else ()
        rows = {(row.kind, row.bytes): row for row in (*before, *data.rows)}
        curves[name] = Curve(name, tuple(rows.values()), hue, dash)
    return [*collective_blocks(list(curves.values())), *_largest(curves), *_against_iperf3(records)]


def _collectives(record: Record) -> Collectives | None:
    if record.result is None:
        return None
    data = data_of(record.result)
    return data if isinstance(data, Collectives) else None


def _largest(curves: dict[str, Curve]) -> list[Block]:
    """Of each topology and kind, the largest size."""
    rows = []
    for name, curve in curves.items():
        for kind in dict.fromkeys(row.kind for row in curve.rows):
            row = max((row for row in curve.rows if row.kind == kind), key=lambda row: row.bytes)
            times = map(duration, (row.times.median_s, row.times.p10_s, row.times.p90_s))
            rows.append((name, kind, size_text(row.bytes), *times, rate(row.busbw_bytes_per_s)))
    head = ("topology", "collective", "largest size", "median", "P10", "P90", "busbw")
    return table(head, rows, words=2)


def _against_iperf3(records: Sequence[Record]) -> list[Block]:
    """All-reduces of large vectors beside what iperf3 got out of the same link."""
    rows = []
    for record in records:
        data = _collectives(record)
        if data is None or record.link is None or not record.link.forward_bytes_per_s:
            continue
        for row in data.rows:
            if row.kind == "all-reduce" and row.bytes >= _LARGE_BYTES:
                found = row.busbw_bytes_per_s, record.link.forward_bytes_per_s
                rows.append(
                    (record.topology.label, size_text(row.bytes), *map(rate, found),
                     f"{found[0] / found[1] - 1:+.1%}")
                )  # fmt: skip
    head = ("all-reduce beside iperf3", "size", "busbw", "iperf3", "difference")
    return table(head, rows)


def other_blocks(records: Sequence[Record]) -> list[_Part]:
    """A part for links, and one for the kernels of the first topology that measured them."""
    parts = []
    links: list[Block] = []
    for record in records:
        if record.result is not None and record.result.kind == "links":
            data = data_of(record.result)
            assert isinstance(data, Links)
            links.append(Heading(4, record.topology.label))
            links += measurement_blocks(data, record.result.job)
    parts.append(_Part("Links", links))
    kernels = [r for r in records if r.result is not None and r.result.kind == "matmul"]
    if kernels and kernels[0].result is not None:
        result = kernels[0].result
        blocks = measurement_blocks(data_of(result), result.job)
        more = "" if len(kernels) == 1 else f", the first of {len(kernels)} topologies"
        said = Paragraph(f"On {kernels[0].topology.label}{more}.")
        parts.append(_Part("Kernels", [said, *blocks]))
    programs = [
        f"{record.topology.label}, {record.job.label}: {record.seconds:.1f} s"
        for record in records
        if record.job.run is not None and record.ok
    ]
    parts.append(_Part("Programs", [Bullets(tuple(programs))] if programs else []))
    return parts


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
