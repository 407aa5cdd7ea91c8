"""What `measure` found: verdict, tables and pictures of a result of any kind.

Holds `measurement_view`, `measurement_blocks` and `calibration_view`; `Curve` and
`collective_figures` for collectives of several jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from syncwall.cost.measured import MachineMeasurements
from syncwall.measure.collectives import CollectiveRow
from syncwall.measure.kernels import KernelRow
from syncwall.measure.links import LinkRow
from syncwall.measure.result import JobFacts, Result
from syncwall.measure.step import StepData
from syncwall.report import Collectives, Data, KernelTimes, Links, data_of, loads_of
from syncwall.show.blocks import (
    Block,
    Figure,
    Heading,
    Lines,
    Paragraph,
    Table,
    Verdict,
    View,
    ledger,
    table,
)
from syncwall.show.draw.bars import Bar, Names, Stack, bar_chart, stack_chart
from syncwall.show.draw.curves import WIDEST, Series, rate_matrix, size_chart
from syncwall.show.numbers import byte_size, duration, percent, plural, rate
from syncwall.show.views.setup import ahead, load_lines, machine_blocks
from syncwall.show.words.measurement import (
    asked_words,
    beside_words,
    flops_text,
    job_words,
    measured_title,
    measured_verdict,
    shape_text,
)
from syncwall.units import Dimension

_SLOWEST = 12
"""How many of the slowest links are listed, and up to how many ranks a terminal has the matrix."""
_RANKS = 32
_LEGEND = (
    "Size: the whole vector, as in nccl-tests; times of the slowest rank; algbw: size / median; "
    "busbw: what passes each link; 1 GB = 1e9 bytes."
)


def measurement_view(result: Result) -> View:
    """A measurement of any kind, but no lab."""
    data = data_of(result)
    loads = loads_of(result, data)
    about = ", ".join(filter(None, (job_words(result), asked_words(result))))
    blocks = [
        *ahead(result, loads),
        Verdict(measured_verdict(result, data), about),
        *measurement_blocks(data, result.job),
        load_lines(loads),
    ]
    details = (Heading(2, "Set-up"), *machine_blocks(result))
    return View(measured_title(result), tuple(blocks), details)


def measurement_blocks(data: Data, job: JobFacts) -> list[Block]:
    """Tables and pictures of one measurement; nothing for a lab."""
    match data:
        case Collectives(rows=rows):
            curves = [Curve(plural(job.world, "rank"), rows)]
            left = tuple(f"{one.kind}: {one.reason}" for one in data.skipped)
            return [*_times(rows), *([Lines("Left out", left)] if left else []),
                    *collective_figures(curves)]  # fmt: skip
        case Links():
            return _links(data, job)
        case KernelTimes():
            return _kernels(data)
        case StepData():
            return _step(data, job)
    return []


@dataclass(frozen=True)
class Curve:
    """Collectives of one job, and how they are drawn."""

    name: str
    rows: tuple[CollectiveRow, ...]
    colour: int = 0
    dash: int = 0


def collective_figures(curves: Sequence[Curve]) -> list[Block]:
    """For each kind, bus bandwidth over size."""
    blocks: list[Block] = []
    for kind in dict.fromkeys(row.kind for curve in curves for row in curve.rows):
        series = []
        for curve in curves:
            rows = [row for row in curve.rows if row.kind == kind]
            points = sorted((float(row.bytes), row.busbw_bytes_per_s) for row in rows)
            if any(size > 0 and value > 0 for size, value in points):
                series.append(Series(curve.name, tuple(points), curve.colour, curve.dash))
        if series:
            caption = f"{kind}: bus bandwidth (nccl-tests busbw) over the size of the whole vector."
            blocks.append(Figure(partial(size_chart, series, "busbw"), caption))
    return blocks


def _times(rows: Sequence[CollectiveRow]) -> list[Block]:
    """A group of rows for each kind."""
    cells: list[tuple[str, ...]] = []
    for kind in dict.fromkeys(row.kind for row in rows):
        cells.append((kind,))
        for row in rows:
            if row.kind == kind:
                times = row.times
                seconds = (times.median_s, times.p10_s, times.p90_s, times.worst_s)
                rates = (row.algbw_bytes_per_s, row.busbw_bytes_per_s)
                cells.append((byte_size(row.bytes), *map(duration, seconds), *map(rate, rates),
                              f"{times.trials}"))  # fmt: skip
    head = ("size", "median", "P10", "P90", "worst", "algbw", "busbw", "trials")
    found = table(head, cells, words=0, spare=("trials", "algbw"))
    return [*found, Paragraph(_LEGEND, is_quiet=True)] if found else []


def _links(data: Links, job: JobFacts) -> list[Block]:
    names = [f"{rank} {host}" for rank, host in enumerate(job.hosts)]
    slowest = sorted(data.rows, key=lambda row: row.rate_bytes_per_s)[:_SLOWEST]
    cells = [
        (names[row.source], names[row.target],
         *map(rate, (row.rate_bytes_per_s, row.p10, row.p90)), duration(row.latency_s))
        for row in slowest
    ]  # fmt: skip
    head = ("from", "to", "rate", "P10", "P90", "latency")
    few = len(slowest) < len(data.rows)
    listed = [Paragraph(f"The slowest {len(slowest)} of {len(data.rows):,} links:")] if few else []
    return [*_matrix(data, names), *_medians(data, job), *listed, *table(head, cells, words=2)]


def _matrix(data: Links, names: Sequence[str]) -> list[Block]:
    """The rate of every pair of ranks."""
    if not data.rows or len(names) > WIDEST:
        return []
    rates = {(row.source, row.target): row.rate_bytes_per_s for row in data.rows}
    ranks = range(len(names))
    rows = (
        (names[a], *(rate(rates[a, b]) if (a, b) in rates else "·" for b in ranks)) for a in ranks
    )
    letters = Table(("", *names), tuple(rows)) if len(names) <= _SLOWEST else None
    caption = "Rate from the rank on the left to the one above, one way at a time"
    return [Figure(partial(rate_matrix, names, rates), caption, letters)]


def _medians(data: Links, job: JobFacts) -> list[Block]:
    """A line for links inside hosts and one for those between."""

    def inside(row: LinkRow) -> bool:
        return job.hosts[row.source] == job.hosts[row.target]

    rows = []
    for name, is_inside in (("inside hosts", True), ("between hosts", False)):
        alike = [row for row in data.rows if inside(row) == is_inside]
        if alike:
            p10, middle, p90 = np.percentile([r.rate_bytes_per_s for r in alike], (10, 50, 90))
            latency_s = float(np.median([row.latency_s for row in alike]))
            rates = map(rate, map(float, (middle, p10, p90)))
            rows.append((name, f"{len(alike):,}", *rates, duration(latency_s)))
    return table(("", "links", "median", "P10", "P90", "latency"), rows)


def _kernels(data: KernelTimes) -> list[Block]:
    head = ("kernel", "shape", "median", "spread", "arithmetic", "memory")
    cells = [
        (row.name, shape_text(row), duration(row.times.median_s),
         f"± {percent(row.times.spread)}", flops_text(row.flop_per_s) if row.flop_per_s else "",
         rate(row.bytes_per_s))
        for row in data.rows
    ]  # fmt: skip
    legend = "Times of one kernel on the slowest rank, all ranks at once, operands as in training."
    beside = [Lines("Beside", (beside_words(data.beside),))] if data.beside else []
    bars = [_bar(row, row.flop_per_s) for row in data.rows if row.flop_per_s > 0]
    moved = [_bar(row, row.bytes_per_s) for row in data.rows if row.flop_per_s <= 0]
    figures = [
        Figure(partial(bar_chart, bars, Dimension.FLOP_PER_S, Names("arithmetic rate"), flops_text),
               "Matrix multiplications and attention, all ranks at once."),
        Figure(partial(bar_chart, moved, Dimension.BYTES_PER_S, Names("memory rate"), rate),
               "Kernels that only move data."),
    ]  # fmt: skip
    shown = [one for one, found in zip(figures, (bars, moved), strict=True) if found]
    found = table(head, cells, words=2)
    return [*found, *([Paragraph(legend, is_quiet=True)] if found else []), *beside, *shown]


def _bar(row: KernelRow, value: float) -> Bar:
    times = row.times
    spread = None
    if min(times.p10_s, times.p90_s) > 0:
        high, low = (value * times.median_s / end for end in (times.p10_s, times.p90_s))
        spread = (low, high)
    shape = shape_text(row).replace(" × ", "×").replace("weight gradient", "dW")
    return Bar(f"{row.name} {shape}", value, spread)


def _step(data: StepData, job: JobFacts) -> list[Block]:
    times = data.times
    spread = f"P10 {duration(times.p10_s)}, P90 {duration(times.p90_s)}"
    rows = [
        ("step", duration(times.median_s), f"{spread}, {plural(times.trials, 'step')}"),
        ("tokens/s/rank", f"{data.tokens_per_s / job.world:,.0f}",
         f"{data.tokens_per_s:,.0f} tokens/s in all"),
    ]  # fmt: skip
    if data.matmul_flop_per_s > 0:
        rows.append(
            ("of matmul", percent(data.of_matmul), "of what one large multiplication reaches")
        )
    if data.mfu is not None:
        rows.append(("MFU", percent(data.mfu, 1), "causal, dense 16-bit peak"))
    ranks = data.ranks if len(data.ranks) <= _RANKS else ()
    stacks = [Stack("all ranks", data.ledger_s)]
    stacks += [Stack(f"rank {one.rank} {one.host}", one.ledger_s) for one in ranks]
    drawn = partial(stack_chart, stacks, Dimension.SECONDS, "time in a step", duration)
    return [
        *table(("", "measured", ""), rows, ends_in_words=True),
        ledger("where the time goes", data.ledger_s, least=0.0, whole=times.median_s),
        Figure(drawn, "The ledger: the mean of all ranks, and each of them."),
    ]


def calibration_view(measured: MachineMeasurements) -> View:
    """What a calibration holds."""
    sizes = {
        "matrix multiplications": measured.gemm, "attention": measured.attention,
        "kernels that move data": measured.elementwise, "collectives": measured.collectives,
    }  # fmt: skip
    said = ", ".join(f"{name} {len(points)}" for name, points in sizes.items() if points)
    about = ", ".join(filter(None, (measured.device, *measured.hosts)))
    rows = [
        (one.kind, f"{one.ranks}", f"{one.nodes}", f"{len(one.points)}")
        for one in measured.collectives
    ]
    found = table(("collective", "ranks", "nodes", "sizes"), rows)
    return View("A calibration", (Verdict((f"Measured points: {said or 'none'}.",), about), *found))
