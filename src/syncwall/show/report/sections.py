"""What `measure` wrote, as tables and pictures: one function for each kind of result.

Holds `measurement_blocks`, `Curve`, `collective_blocks` and `shape_text`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from syncwall import units
from syncwall.measure.collectives import CollectiveRow
from syncwall.measure.kernels import KernelRow
from syncwall.measure.result import JobFacts
from syncwall.measure.step import StepData
from syncwall.show.measurement import times_and_rates
from syncwall.show.numbers import duration, rate
from syncwall.show.report.axes import size_text
from syncwall.show.report.bars import Bar, Names, Stack, bar_chart, stack_chart
from syncwall.show.report.blocks import Block, Bullets, Figure, Paragraph, table
from syncwall.show.report.curves import WIDEST, Series, rate_matrix, size_chart
from syncwall.show.report.reading import Collectives, Data, Kernels, Links
from syncwall.timeline.ledger import Ledger
from syncwall.units import Dimension

_SLOWEST = 12
"""Of too many links for a picture, how many of the slowest are listed."""
_RANKS = 32


@dataclass(frozen=True)
class Curve:
    """Collectives of one job, and how they are drawn."""

    name: str
    rows: tuple[CollectiveRow, ...]
    colour: int = 0
    dash: int = 0


def measurement_blocks(data: Data, job: JobFacts) -> list[Block]:
    """Tables and pictures of one measurement; nothing for a lab."""
    if isinstance(data, Collectives):
        return [*collective_blocks([Curve(f"{job.world} ranks", data.rows)]), *_times(data.rows)]
    if isinstance(data, Links):
        return _links(data, job)
    if isinstance(data, Kernels):
        return _kernels(data)
    if isinstance(data, StepData):
        return _step(data)
    return []


def collective_blocks(curves: Sequence[Curve]) -> list[Block]:
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
            blocks.append(Figure(size_chart(series, "busbw"), caption))
    return blocks


def _times(rows: Sequence[CollectiveRow]) -> list[Block]:
    head = ("collective", "size", "median", "P10", "P90", "worst", "algbw", "busbw", "trials")
    return table(head, [(row.kind, size_text(row.bytes), *times_and_rates(row)) for row in rows])


def _links(data: Links, job: JobFacts) -> list[Block]:
    blocks: list[Block] = []
    names = [f"{rank} {host}" for rank, host in enumerate(job.hosts)]
    if data.suspects:
        blocks.append(Bullets(tuple(one.what for one in data.suspects)))
    elif data.rows:
        blocks.append(Paragraph("No rank, host or link was named as slow."))
    if data.rows and job.world <= WIDEST:
        rates = {(row.source, row.target): row.rate_bytes_per_s for row in data.rows}
        drawing = rate_matrix(names, rates)
        blocks.append(Figure(drawing, "Rate from every rank to every other, one way at a time."))
    slowest = sorted(data.rows, key=lambda row: row.rate_bytes_per_s)[:_SLOWEST]
    head = ("from", "to", "rate", "P10", "P90", "latency")
    cells = [
        (names[row.source], names[row.target],
         *map(rate, (row.rate_bytes_per_s, row.p10, row.p90)), duration(row.latency_s))
        for row in slowest
    ]  # fmt: skip
    if len(slowest) < len(data.rows):
        blocks.append(Paragraph(f"The slowest {len(slowest)} of {len(data.rows):,} links:"))
    return [*blocks, *table(head, cells, words=2)]


def _kernels(data: Kernels) -> list[Block]:
    arithmetic = [row for row in data.rows if row.flop_per_s > 0]
    moved = [row for row in data.rows if row.flop_per_s <= 0]
    blocks: list[Block] = []
    if arithmetic:
        bars = [_kernel_bar(row, row.flop_per_s) for row in arithmetic]
        drawing = bar_chart(bars, Dimension.FLOP_PER_S, Names("arithmetic rate"), _flops)
        blocks.append(Figure(drawing, "Matrix multiplications and attention, all ranks at once."))
    if moved:
        bars = [_kernel_bar(row, row.bytes_per_s) for row in moved]
        drawing = bar_chart(bars, Dimension.BYTES_PER_S, Names("memory rate"), rate)
        blocks.append(Figure(drawing, "Kernels that only move data."))
    if data.beside is not None:
        beside = data.beside
        blocks.append(
            Paragraph(
                f"Beside an all-reduce ({duration(beside.alone_s)} alone, "
                f"{duration(beside.beside_s)} together), computation stands still for "
                f"{beside.host_share:.0%} of its time. Ranks that compute and then meet wait "
                f"{duration(beside.meeting_s)} for the slowest."
            )
        )
    head = ("kernel", "shape", "median", "spread", "arithmetic", "memory")
    cells = [
        (row.name, shape_text(row), duration(row.times.median_s), f"± {row.times.spread:.0%}",
         _flops(row.flop_per_s) if row.flop_per_s else "", rate(row.bytes_per_s))
        for row in data.rows
    ]  # fmt: skip
    return [*blocks, *table(head, cells, words=2)]


def _kernel_bar(row: KernelRow, value: float) -> Bar:
    times = row.times
    spread = None
    if min(times.p10_s, times.p90_s) > 0:
        high, low = (value * times.median_s / end for end in (times.p10_s, times.p90_s))
        spread = (low, high)
    shape = shape_text(row).replace(" x ", "×").replace("weight gradient", "dW")
    return Bar(f"{row.name} {shape}", value, spread)


def shape_text(row: KernelRow) -> str:
    """The dimensions of a kernel in a few words."""
    shape = dict(row.shape)
    if all(isinstance(shape.get(key), int | float) for key in ("m", "n", "k")):
        ways = ", weight gradient" if shape.get("is_weight_gradient") else ""
        return " x ".join(f"{shape[key]:g}" for key in ("m", "n", "k")) + ways
    if row.operation == "elementwise":
        size = shape.get("bytes")
        return size_text(size) if isinstance(size, float) and size >= 0 else ""
    sizes = [shape.get(key) for key in ("batch", "heads", "length", "head_dim")]
    words = " x ".join(f"{size:g}" for size in sizes if isinstance(size, int | float))
    return f"{words}, {'backward' if shape.get('is_backward') else 'forward'}"


def _flops(value: float) -> str:
    return units.format(value, Dimension.FLOP_PER_S, digits=3)


def _step(data: StepData) -> list[Block]:
    times = data.times
    waiting = Ledger(data.ledger_s).exposed_s
    said = (
        f"The median of {times.trials} steps is {duration(times.median_s)} (P10 "
        f"{duration(times.p10_s)}, P90 {duration(times.p90_s)}), {data.tokens_per_s:,.0f} tokens/s "
        f"of the whole job; {waiting / times.median_s:.0%} of it waits for communication."
    )
    if data.matmul_flop_per_s > 0:
        said += f" It reaches {data.of_matmul:.0%} of what one large multiplication does."
    named = tuple(map(str, data.suspects))
    stacks = [Stack("all ranks", data.ledger_s)]
    ranks = data.ranks if len(data.ranks) <= _RANKS else ()
    stacks += [Stack(f"rank {one.rank} {one.host}", one.ledger_s) for one in ranks]
    drawing = stack_chart(stacks, Dimension.SECONDS, "time in a step", duration)
    head = ("where the time goes", "time", "of the step")
    cells = [
        (cause, duration(s), f"{s / times.median_s:.1%}") for cause, s in data.ledger_s.items()
    ]
    return [
        Paragraph(said),
        *([Bullets(named)] if named else []),
        Figure(drawing, "The ledger: the mean of all ranks, and each of them."),
        *table(head, cells),
    ]
