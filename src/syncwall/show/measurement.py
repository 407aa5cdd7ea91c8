"""What `measure` found, for the terminal.

Holds `collectives_page`, `kernels_page`, `links_page` (a matrix, and who is slow),
`step_page`, and the cells `times_and_rates`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncwall import units
from syncwall.show.headed import table
from syncwall.show.numbers import duration, rate
from syncwall.timeline.ledger import Ledger
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.measure.beside import Beside
    from syncwall.measure.collectives import CollectiveRow, Skipped
    from syncwall.measure.kernels import KernelRow
    from syncwall.measure.links import LinkRow
    from syncwall.measure.result import JobFacts
    from syncwall.measure.step import StepData, StepSettings
    from syncwall.measure.suspects import Suspect

_COLUMNS = ("size", "median", "p10", "p90", "worst", "algbw", "busbw", "trials")
_LEGEND = (
    "size: the whole vector, as in nccl-tests; times of the slowest rank; algbw: size / median; "
    "busbw: what passes each link; 1 GB = 1e9 bytes"
)


def collectives_page(
    job: "JobFacts",
    rows: "Sequence[CollectiveRow]",
    skipped: "Sequence[Skipped]",
    *,
    complete: bool = True,
) -> RenderableType:
    """A table for each kind."""
    parts: list[RenderableType] = [heading(job)]
    for kind in dict.fromkeys(row.kind for row in rows):
        chosen = [row for row in rows if row.kind == kind]
        parts += [Text(), Text(kind, "bold"), table(_COLUMNS, map(_cells, chosen), words=0)]
    parts += [Text(), Text(_LEGEND, "dim")]
    parts += [Text(f"left out  {one.kind}: {one.reason}") for one in skipped]
    return Group(*parts, *interrupted(complete))


def heading(job: "JobFacts") -> Text:
    """Who measured: "4 ranks on 2 hosts, gloo on cpu"."""
    ranks = f"{job.world} rank{'s' if job.world > 1 else ''}"
    hosts = f"{len(job.host_names)} host{'s' if len(job.host_names) > 1 else ''}"
    return Text.assemble((f"{ranks} on {hosts}", "bold"), f", {job.backend} on {job.device}")


def interrupted(complete: bool) -> Iterator[Text]:
    """A line that says so if there should be more."""
    if not complete:
        yield Text("interrupted: only what was measured until then", "bold")


def _cells(row: "CollectiveRow") -> list[str]:
    return [_size(row.bytes), *times_and_rates(row)]


def times_and_rates(row: "CollectiveRow") -> list[str]:
    """Median, P10, P90, worst, algbw, busbw and trials of a collective."""
    times = row.times
    seconds = (times.median_s, times.p10_s, times.p90_s, times.worst_s)
    rates = (row.algbw_bytes_per_s, row.busbw_bytes_per_s)
    return [*map(duration, seconds), *map(rate, rates), f"{times.trials}"]


def _size(count: int) -> str:
    """Powers of two in binary units, others as they are."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count % 1024**power == 0 and count:
            return f"{count // 1024**power} {unit}"
    return f"{count:,} B"


_KERNEL_COLUMNS = ("kernel", "shape", "median", "spread", "FLOP/s", "bytes/s")


def kernels_page(
    job: "JobFacts", rows: "Sequence[KernelRow]", beside: "Beside | None"
) -> RenderableType:
    """A table of kernels, and what communication costs them."""
    parts: list[RenderableType] = [
        heading(job),
        Text(),
        table(_KERNEL_COLUMNS, map(_kernel_cells, rows), words=2),
    ]
    legend = "times of one kernel on the slowest rank, all ranks at once, operands as in training"
    parts += [Text(), Text(legend, "dim")]
    if beside is not None:
        parts.append(
            Text(
                f"beside an all-reduce ({duration(beside.alone_s)} alone, "
                f"{duration(beside.beside_s)} together), computation stands still for "
                f"{beside.host_share:.0%} of its time; ranks that compute and then meet wait "
                f"{duration(beside.meeting_s)} for the slowest"
            )
        )
    return Group(*parts)


def _kernel_cells(row: "KernelRow") -> list[str]:
    flops = row.flop_per_s
    return [
        row.name,
        _shape(row),
        duration(row.times.median_s),
        f"± {row.times.spread:.0%}",
        units.format(flops, Dimension.FLOP_PER_S, digits=3) if flops else "",
        rate(row.bytes_per_s),
    ]


def _shape(row: "KernelRow") -> str:
    shape = row.shape
    if row.operation == "gemm":
        transposed = ", weight gradient" if shape["is_weight_gradient"] else ""
        sizes = " x ".join(f"{shape[key]:.0f}" for key in ("m", "n", "k"))
        return f"{sizes} {shape['dtype']}{transposed}"
    if row.operation == "attention":
        way = "backward" if shape["is_backward"] else "forward"
        return (
            f"{shape['batch']:.0f} x {shape['heads']:.0f} heads, {shape['length']:.0f} tokens, "
            f"{shape['head_dim']:.0f}, {way}"
        )
    return units.format(float(shape["bytes"]), Dimension.BYTES, digits=3)


_WIDEST = 12
"""Ranks of which the whole matrix is printed."""
_LISTED = 12
"""Of more ranks, how many of the slowest links are listed."""


def links_page(
    job: "JobFacts",
    rows: "Sequence[LinkRow]",
    suspects: "Sequence[Suspect]",
    *,
    judged: bool = True,
    complete: bool = True,
) -> RenderableType:
    """The matrix or its slowest links, medians, and the verdict."""
    parts: list[RenderableType] = [heading(job), Text()]
    if rows:
        parts += [*_rates(job, rows), Text(), *_medians(job, rows), Text()]
    return Group(*parts, *_verdict(job, rows, suspects, judged), *interrupted(complete))


def _rates(job: "JobFacts", rows: "Sequence[LinkRow]") -> Iterator[RenderableType]:
    if job.world <= _WIDEST:
        yield Text("Rate from the rank on the left to the one above", "bold")
        known = {(row.source, row.target): rate(row.rate_bytes_per_s) for row in rows}
        ranks = range(job.world)
        lines = ([f"{a} {job.hosts[a]}", *(known.get((a, b), "·") for b in ranks)] for a in ranks)
        yield table(["", *(f"{b} {job.hosts[b]}" for b in ranks)], lines)
        return
    yield Text(f"The slowest of {len(rows):,} links", "bold")
    slowest = sorted(rows, key=lambda row: row.rate_bytes_per_s)[:_LISTED]
    yield table(("from", "to", "rate", "p10", "p90", "latency"), (_line(job, r) for r in slowest),
                words=2)  # fmt: skip


def _line(job: "JobFacts", row: "LinkRow") -> list[str]:
    ends = [f"{rank} {job.hosts[rank]}" for rank in (row.source, row.target)]
    rates = map(rate, (row.rate_bytes_per_s, row.p10, row.p90))
    return [*ends, *rates, duration(row.latency_s)]


def _medians(job: "JobFacts", rows: "Sequence[LinkRow]") -> Iterator[RenderableType]:
    """A line for links inside hosts and one for those between."""
    import numpy as np

    lines = []
    for name, inside in (("inside hosts", True), ("between hosts", False)):
        alike = [r for r in rows if (job.hosts[r.source] == job.hosts[r.target]) == inside]
        if alike:
            p10, middle, p90 = np.percentile([r.rate_bytes_per_s for r in alike], (10, 50, 90))
            latency_s = float(np.median([r.latency_s for r in alike]))
            rates = map(rate, map(float, (middle, p10, p90)))
            lines.append([name, f"{len(alike):,}", *rates, duration(latency_s)])
    yield table(("", "links", "median", "p10", "p90", "latency"), lines)


def _verdict(
    job: "JobFacts", rows: "Sequence[LinkRow]", suspects: "Sequence[Suspect]", judged: bool
) -> Iterator[Text]:
    if not rows:
        return
    for number, one in enumerate(suspects):
        yield Text.assemble(("Slow      " if not number else "          ", "bold red"), one.what)
    if not suspects:
        yield Text.assemble(("Verdict   ", "bold"), "nobody is slow beside the others")
    if not judged:
        yield Text(
            "          two hosts cannot be told apart: state what the link should reach with "
            "--expect 25Gb/s"
        )


_BAR = 24


def step_page(job: "JobFacts", settings: "StepSettings", data: "StepData") -> RenderableType:
    """Verdict, numbers and ledger."""
    times = data.times
    numbers = (
        f"step      {duration(times.median_s)}  (P10 {duration(times.p10_s)}, "
        f"P90 {duration(times.p90_s)}, {times.trials} steps)     "
        f"{data.tokens_per_s / job.world:,.0f} tokens/s/rank     "
        f"{data.of_matmul:.0%} of what one large multiplication reaches"
    )
    if data.mfu is not None:
        numbers += f"     MFU {data.mfu:.1%} (causal, dense 16-bit peak)"
    what = (
        f"{settings.model.name}, {settings.shard}, {settings.micro_batch} x {settings.seq} tokens"
    )
    lines = (
        (cause, "█" * round(_BAR * seconds / times.median_s), duration(seconds),
         f"{seconds / times.median_s:.0%}")
        for cause, seconds in data.ledger_s.items()
    )  # fmt: skip
    ledger = table(("where the time goes", "", "", ""), lines, words=2)
    parts: list[RenderableType] = [Text.assemble(("Verdict   ", "bold"), verdict(data)), Text(),
             Text.assemble(heading(job), f", {what}"), Text(numbers), Text(), ledger]  # fmt: skip
    return Group(*parts)


def verdict(data: "StepData") -> str:
    """What holds the step up, in one line."""
    if data.suspects:
        return "; ".join(map(str, data.suspects))
    share = Ledger(data.ledger_s).exposed_s / data.times.median_s
    return f"{share:.0%} of the step waits for communication; no rank holds the others up"
