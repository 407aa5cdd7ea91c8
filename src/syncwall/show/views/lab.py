"""A lab: what was found, the same work on one host and on more, and then all that was measured.

Holds `lab_view`, and `labs_view`, the labs that exist.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from syncwall.lab.comparison import LabComparison, compared, parts_of
from syncwall.lab.machine import Lab
from syncwall.lab.run import LabRecord
from syncwall.measure.result import Result
from syncwall.report import (
    Collectives,
    LabData,
    Links,
    PlacedStep,
    data_of,
    fastest_s,
    loads_of,
    steps_of,
)
from syncwall.show.blocks import (
    Block,
    Bullets,
    Figure,
    Heading,
    Notes,
    Paragraph,
    Verdict,
    View,
    contents,
    table,
)
from syncwall.show.draw.bars import Bar, Names, Stack, bar_chart, stack_chart
from syncwall.show.draw.curves import Point, error_chart
from syncwall.show.numbers import byte_size, duration, percent, plural, rate, signed_percent
from syncwall.show.views.measurement import Curve, collective_figures, measurement_blocks
from syncwall.show.views.placements import placed_collectives, placed_steps
from syncwall.show.views.setup import ahead, lab_setup, load_lines, machine_blocks
from syncwall.show.words.lab import (
    GOOD,
    conclusion,
    what_it_costs,
    what_stays_unexplained,
    what_the_model_says,
)
from syncwall.units import Dimension

_LARGE_BYTES: Final = 16_000_000
"""From this size on, an all-reduce is compared with what iperf3 found."""
_MOST_ROWS: Final = 40
"""Of one chart."""
_Parts = Iterator[tuple[str, list[Block]]]


def labs_view(found: Sequence[Lab]) -> View:
    """The labs of this machine."""
    rows = [(lab.name, f"{lab.hosts}", f"{lab.processes}") for lab in found]
    shown = table(("lab", "hosts", "processes inside"), rows)
    return View("Labs", tuple(shown) or (Paragraph("no labs"),))


def lab_view(result: Result, notes: str = "") -> View:
    """The conclusion and one table; the details, first what its author says, on pages only."""
    data = data_of(result)
    assert isinstance(data, LabData)
    records, steps = data.records, steps_of(result, data)
    asked = data.experiment
    largest, placed = placed_collectives([(result, data)]), placed_steps(steps)
    first = placed or largest
    compare: list[Block] = [Heading(2, "Comparison"), *first] if first else []
    details: list[Block] = [Heading(2, "Notes"), Notes(notes)] if notes.strip() else []
    for title, blocks in _parts(records, steps, largest if placed else []):
        details += [Heading(2, title), *blocks] if blocks else []
    details += [Heading(2, "Set-up"), *machine_blocks(result), *lab_setup(asked, records)]
    loads = loads_of(result, data)
    top = [
        *ahead(result, loads),
        Verdict(tuple(_conclusion(records, steps)), asked.question or ""),
        load_lines(loads),
        *contents([*compare, *details]),
    ]
    return View(asked.title or asked.name, (*top, *compare), tuple(details))


def _conclusion(records: Sequence[LabRecord], steps: Sequence[PlacedStep]) -> Iterator[str]:
    """What was found, and what failed."""
    yield from conclusion(steps, compared(records))
    if not steps:
        topologies = len({record.topology.label for record in records})
        jobs = plural(len(records), "job")
        yield f"{jobs} ran on {plural(topologies, 'topology', 'topologies')}."
    for record in records:
        data = data_of(record.result) if record.result else None
        if isinstance(data, Links):
            yield from (f"{record.topology.label}: {one.what}." for one in data.suspects)
    failed = sum(not record.ok for record in records)
    if failed:
        yield f"{failed} of {plural(len(records), 'job')} failed."


def _parts(
    records: Sequence[LabRecord], steps: Sequence[PlacedStep], largest: list[Block]
) -> _Parts:
    """The sections, some of them empty: what follows from the numbers, then the numbers."""
    found = compared(records)
    yield "What the model says", _model(found) if found.rows else []
    yield "What stays unexplained", _open(found, steps, records)
    yield "Training steps", [*_bullets(what_it_costs(steps)), *_steps(steps)]
    yield "Ledgers", _ledgers(steps)
    yield "Collectives", [*_curves(records), *largest, *_against_iperf3(records)]
    yield from _others(records)


def _bullets(said: Sequence[str]) -> list[Block]:
    return [Bullets(tuple(said))] if said else []


def _by_what(steps: Sequence[PlacedStep]) -> dict[str, list[PlacedStep]]:
    groups: dict[str, list[PlacedStep]] = {}
    for step in steps:
        groups.setdefault(step.what, []).append(step)
    return groups


def _steps(steps: Sequence[PlacedStep]) -> list[Block]:
    """A chart for each model and sharing, and a table of all."""
    names = Names("step time", "measured median", "predicted")
    charts: list[Block] = [
        Figure(
            partial(
                bar_chart, [*map(_bar, alike[:_MOST_ROWS])], Dimension.SECONDS, names, duration
            ),
            f"{what}: step time by place and link rate.",
        )
        for what, alike in _by_what(steps).items()
    ]
    fastest = fastest_s(steps)
    head = ("step", "place", "measured", "P10", "P90", "spread", "of fastest", "predicted", "error")
    rows = [_row(step, fastest[step.what, step.world]) for step in steps]
    legend = (
        "Measured: median over the steps, of each the slowest rank. Spread: half of P90 − P10. "
        "Of fastest: times that of the fastest place with as many workers. Error: predicted / "
        "measured − 1."
    )
    shown = table(head, rows, words=2)
    return [*charts, *shown, Paragraph(legend, is_quiet=True)] if shown else []


def _bar(step: PlacedStep) -> Bar:
    times = step.data.times
    note = (
        f"{step.what}, {step.label}: {duration(times.median_s)}, P10 {duration(times.p10_s)}, "
        f"P90 {duration(times.p90_s)}"
    )
    return Bar(step.label, times.median_s, (times.p10_s, times.p90_s), step.predicted_s, note)


def _row(step: PlacedStep, fastest_s: float) -> tuple[str, ...]:
    times, row = step.data.times, step.compared
    predicted = (duration(row.predicted.step_s), signed_percent(row.error)) if row else ("", "")
    return (
        step.what, step.label, *map(duration, (times.median_s, times.p10_s, times.p90_s)),
        f"± {percent(times.spread, 1)}", f"{times.median_s / fastest_s:.2f}", *predicted,
    )  # fmt: skip


def _ledgers(steps: Sequence[PlacedStep]) -> list[Block]:
    """Where the time goes, measured and predicted."""
    charts: list[Block] = []
    for what, alike in _by_what(steps).items():
        stacks = [
            Stack(step.label, parts_of(step.data.ledger_s),
                  parts_of(step.compared.predicted.ledger_s) if step.compared else None)
            for step in alike[:_MOST_ROWS]
        ]  # fmt: skip
        drawn = partial(stack_chart, stacks, Dimension.SECONDS, "time in a step", duration)
        charts.append(Figure(drawn, f"{what}: where the time of a step goes."))
    lines = list(dict.fromkeys(line for step in steps for line in _cells(step)))
    rows = [
        (step.what, step.label, *(_cells(step).get(line, "") for line in lines)) for step in steps
    ]
    both = any(step.compared for step in steps)
    legend = [Paragraph("Each cell: measured / predicted.", is_quiet=True)] if both else []
    return [*charts, *table(("step", "place", *lines), rows, words=2), *legend]


def _cells(step: PlacedStep) -> dict[str, str]:
    if step.compared is None:
        return {line: duration(s) for line, s in parts_of(step.data.ledger_s).items()}
    pairs = step.compared.ledgers()
    return {line: f"{duration(a)} / {duration(b)}" for line, (a, b) in pairs.items()}


def _curves(records: Sequence[LabRecord]) -> list[Block]:
    """Bus bandwidth over size: a colour for each place, a dash for each rate.

    With one place only, a colour for each rate.
    """
    places = list(dict.fromkeys(record.topology.place for record in records))
    rates = sorted({float(record.topology.rate_bytes_per_s) for record in records}, reverse=True)
    curves: dict[str, Curve] = {}
    for record in records:
        data = data_of(record.result) if record.result else None
        if not isinstance(data, Collectives):
            continue
        topology = record.topology
        name, hue = topology.label, places.index(topology.place)
        dash = rates.index(float(topology.rate_bytes_per_s)) if topology.hosts > 1 else 0
        if len(places) == 1:
            hue, dash = dash, 0
        before = curves[name].rows if name in curves else ()
        rows = {(row.kind, row.bytes): row for row in (*before, *data.rows)}
        curves[name] = Curve(name, tuple(rows.values()), hue, dash)
    return collective_figures(list(curves.values()))


def _against_iperf3(records: Sequence[LabRecord]) -> list[Block]:
    """All-reduces of large vectors beside what iperf3 got out of the same link."""
    rows = []
    for record in records:
        data = data_of(record.result) if record.result else None
        reached = record.link.forward_bytes_per_s if record.link else 0.0
        for row in data.rows if isinstance(data, Collectives) and reached else ():
            if row.kind == "all-reduce" and row.bytes >= _LARGE_BYTES:
                rates = row.busbw_bytes_per_s, reached
                off = signed_percent(rates[0] / rates[1] - 1)
                rows.append((record.topology.label, byte_size(row.bytes), *map(rate, rates), off))
    head = ("all-reduce beside iperf3", "size", "busbw", "iperf3", "difference")
    return table(head, rows)


def _others(records: Sequence[LabRecord]) -> _Parts:
    """Links, the kernels of the first topology that measured them, and programs."""
    links: list[Block] = []
    kernels: list[Block] = []
    measured = [(one.topology.label, one.result) for one in records if one.result is not None]
    for label, result in measured:
        if result.kind == "links":
            links += [Heading(4, label), *measurement_blocks(data_of(result), result.job)]
        if result.kind == "matmul" and not kernels:
            count = sum(other.kind == "matmul" for _, other in measured)
            more = "" if count == 1 else f", the first of {count} topologies"
            blocks = measurement_blocks(data_of(result), result.job)
            kernels = [Paragraph(f"On {label}{more}."), *blocks]
    yield "Links", links
    yield "Kernels", kernels
    programs = [
        f"{record.topology.label}, {record.job.label}: {record.seconds:.1f} s"
        for record in records
        if record.job.run is not None and record.ok
    ]
    yield "Programs", _bullets(programs)


def _model(found: LabComparison) -> list[Block]:
    points = [
        Point(f"{row.what}, {row.place} {row.link}", row.place, row.measured.times.median_s,
              row.predicted.step_s)
        for row in found.rows
    ]  # fmt: skip
    caption = "Predicted against measured steps; each colour is a place."
    drawn = partial(error_chart, points, GOOD)
    return [*_bullets(what_the_model_says(found)), Figure(drawn, caption)]


def _open(
    found: LabComparison, steps: Sequence[PlacedStep], records: Sequence[LabRecord]
) -> list[Block]:
    failed = [
        f"{record.topology.label}, {record.job.label}: failed, {record.message}"
        for record in records
        if not record.ok
    ]
    said = what_stays_unexplained(found, steps, failed)
    if said or not found.rows:
        return _bullets(said)
    text = f"Nothing above the threshold: every prediction is within {percent(GOOD)} of its step"
    groups = len(found.orders())
    order = f", and the order of places is right in all {groups} groups" if groups else ""
    return [Paragraph(f"{text}{order}.")]
