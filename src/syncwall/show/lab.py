"""A lab: what was found, the same work on one host and on more, and then all that was measured."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from syncwall.lab.comparison import (
    LabComparison,
    ledger_groups,
    predicted_steps,
)
from syncwall.lab.experiment_run import LabRecord
from syncwall.lab.host_machine import Lab
from syncwall.measure.result import JobFacts, Result
from syncwall.report import (
    CollectivesResult,
    Data,
    LabResult,
    LinksResult,
    PlacedStep,
    data_of,
    fastest_s,
    loads_of,
    measured_steps,
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
from syncwall.show.lab_conclusions import (
    GOOD,
    conclusion,
    what_it_costs,
    what_stays_unexplained,
    what_the_model_says,
)
from syncwall.show.measurement import (
    Curve,
    ahead,
    collective_figures,
    lab_setup,
    load_lines,
    machine_blocks,
    measurement_blocks,
)
from syncwall.show.numbers import byte_size, duration, percent, plural, rate, signed_percent
from syncwall.units import Dimension


@dataclass(frozen=True)
class HostsMeasurement:
    """Something that was measured on so many hosts."""

    what: str
    """With the number of workers."""
    hosts: int
    link: str
    """Rate of the links; empty on one host."""
    cells: dict[str, str]
    """What is shown first under "", the rest by its name, the most important first."""


def placements(found: Sequence[HostsMeasurement], legend: str) -> list[Block]:
    """A row for each work and link rate, a column for each number of hosts.

    One host has no links: it stands beside every rate. What was measured again is a row of its own.
    """
    if not found:
        return []
    links: dict[str, list[str]] = {}
    for one in found:
        links.setdefault(one.what, []).extend([one.link] if one.link else [])
    rows: dict[tuple[str, str, int], dict[int, dict[str, str]]] = {}
    for one in found:
        for link in [one.link] if one.link else dict.fromkeys(links[one.what] or [""]):
            again = 0
            while one.hosts in rows.setdefault((one.what, link, again), {}):
                again += 1
            rows[one.what, link, again][one.hosts] = one.cells
    hosts = sorted({one.hosts for one in found})
    first, *more = found[0].cells
    columns = {
        f"{name} {plural(count, 'host')}".lstrip(): (name, count)
        for name in (first, *more)
        for count in hosts
    }
    cells = [
        (
            f"{what} ({again + 1})" if again else what,
            link,
            *(row.get(count, {}).get(name, "") for name, count in columns.values()),
        )
        for (what, link, again), row in rows.items()
    ]
    spare = tuple(f"{name} {plural(count, 'host')}" for name in reversed(more) for count in hosts)
    shown = table(("what ran", "links", *columns), cells, words=2, spare=spare)
    return [*shown, Paragraph(legend, is_quiet=True)]


def placed_steps(steps: Sequence[PlacedStep]) -> list[Block]:
    """Measured and predicted steps."""
    fastest = fastest_s(steps)
    found = [
        HostsMeasurement(
            f"{one.what}, {plural(one.world, 'worker')}",
            one.hosts,
            one.link,
            {
                "": duration(one.measured_s),
                "×": f"{one.measured_s / fastest[one.what, one.world]:.2f}",
                "waits": percent(one.exposed_share),
                "predicted": duration(one.predicted_s) if one.predicted_s else "",
            },
        )
        for one in steps
    ]
    return placements(
        found,
        "The median step; ×: times that of the fastest place with as many workers; waits: share of "
        "the step that waits for communication.",
    )


def placed_collectives(found: Iterable[tuple[Result, Data]]) -> list[Block]:
    """Of each kind that labs and jobs measured, the largest size."""
    placed = []
    for job, link, data in _collectives(found):
        largest = {row.kind: row for row in sorted(data.rows, key=lambda row: row.bytes)}
        placed += [
            HostsMeasurement(
                f"{kind} of {byte_size(row.bytes)}, {plural(job.world, 'worker')}",
                len(job.host_names),
                link,
                {"": duration(row.times.median_s), "busbw": rate(row.busbw_bytes_per_s)},
            )
            for kind, row in largest.items()
        ]
    legend = "The median of the largest size, and its bus bandwidth (nccl-tests busbw)."
    return placements(placed, legend)


def _collectives(
    found: Iterable[tuple[Result, Data]],
) -> Iterator[tuple[JobFacts, str, CollectivesResult]]:
    """Who measured, over what links, and what."""
    for result, data in found:
        if isinstance(data, CollectivesResult):
            yield result.job, "", data
        for record in data.records if isinstance(data, LabResult) else ():
            inside = data_of(record.result) if record.result else None
            if record.result and isinstance(inside, CollectivesResult):
                yield record.result.job, record.topology.link, inside


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
    assert isinstance(data, LabResult)
    records, steps = data.records, measured_steps(result, data)
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
    yield from conclusion(steps, predicted_steps(records))
    if not steps:
        topologies = len({record.topology.label for record in records})
        jobs = plural(len(records), "job")
        yield f"{jobs} ran on {plural(topologies, 'topology', 'topologies')}."
    for record in records:
        data = data_of(record.result) if record.result else None
        if isinstance(data, LinksResult):
            yield from (f"{record.topology.label}: {one.what}." for one in data.suspects)
    failed = sum(not record.ok for record in records)
    if failed:
        yield f"{failed} of {plural(len(records), 'job')} failed."


def _parts(records: Sequence[LabRecord], steps: Sequence[PlacedStep], largest: list[Block]) -> _Parts:
    """The sections, some of them empty: what follows from the numbers, then the numbers."""
    found = predicted_steps(records)
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
                bar_chart,
                [*map(_bar, comparable_steps[:_MOST_ROWS])],
                Dimension.SECONDS,
                names,
                duration,
            ),
            f"{what}: step time by place and link rate.",
        )
        for what, comparable_steps in _by_what(steps).items()
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
        step.what,
        step.label,
        *map(duration, (times.median_s, times.p10_s, times.p90_s)),
        f"± {percent(times.spread, 1)}",
        f"{times.median_s / fastest_s:.2f}",
        *predicted,
    )


def _ledgers(steps: Sequence[PlacedStep]) -> list[Block]:
    """Where the time goes, measured and predicted."""
    charts: list[Block] = []
    for what, several in _by_what(steps).items():
        stacks = [
            Stack(
                step.label,
                ledger_groups(step.data.ledger_s),
                ledger_groups(step.compared.predicted.ledger_s) if step.compared else None,
            )
            for step in several[:_MOST_ROWS]
        ]
        drawn = partial(stack_chart, stacks, Dimension.SECONDS, "time in a step", duration)
        charts.append(Figure(drawn, f"{what}: where the time of a step goes."))
    lines = list(dict.fromkeys(line for step in steps for line in _cells(step)))
    rows = [(step.what, step.label, *(_cells(step).get(line, "") for line in lines)) for step in steps]
    both = any(step.compared for step in steps)
    legend = [Paragraph("Each cell: measured / predicted.", is_quiet=True)] if both else []
    return [*charts, *table(("step", "place", *lines), rows, words=2), *legend]


def _cells(step: PlacedStep) -> dict[str, str]:
    if step.compared is None:
        return {line: duration(s) for line, s in ledger_groups(step.data.ledger_s).items()}
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
        if not isinstance(data, CollectivesResult):
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
        for row in data.rows if isinstance(data, CollectivesResult) and reached else ():
            if row.kind == "all-reduce" and row.bytes >= _LARGE_BYTES:
                rates = row.busbw_bytes_per_s, reached
                off = signed_percent(rates[0] / rates[1] - 1)
                rows.append((record.topology.label, byte_size(row.bytes), *map(rate, rates), off))
    head = ("all-reduce beside iperf3", "size", "busbw", "iperf3", "difference")
    return table(head, rows)


def _others(records: Sequence[LabRecord]) -> _Parts:
    """LinksResult, the kernels of the first topology that measured them, and programs."""
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
    yield "LinksResult", links
    yield "Kernels", kernels
    programs = [
        f"{record.topology.label}, {record.job.label}: {record.seconds:.1f} s"
        for record in records
        if record.job.run is not None and record.ok
    ]
    yield "Programs", _bullets(programs)


def _model(found: LabComparison) -> list[Block]:
    points = [
        Point(
            f"{row.what}, {row.place} {row.link}",
            row.place,
            row.measured.times.median_s,
            row.predicted.step_s,
        )
        for row in found.rows
    ]
    caption = "Predicted against measured steps; each colour is a place."
    drawn = partial(error_chart, points, GOOD)
    return [*_bullets(what_the_model_says(found)), Figure(drawn, caption)]


def _open(found: LabComparison, steps: Sequence[PlacedStep], records: Sequence[LabRecord]) -> list[Block]:
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
