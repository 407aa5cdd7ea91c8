"""What `measure` found: verdict, tables and pictures of a result of any kind, and what it
was measured on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from syncwall import units
from syncwall.answer import predict
from syncwall.answer.known import SiteFile
from syncwall.cost.measured import MachineMeasurements
from syncwall.lab.experiment_run import LabRecord
from syncwall.lab.virtual_network import Topology, rate_text
from syncwall.measure.collectives import CollectiveRow
from syncwall.measure.kernel_times import KernelRow
from syncwall.measure.links import LinkRow
from syncwall.measure.overlap import Overlap
from syncwall.measure.result import MOST_OTHERS, MOST_STEAL, Host, JobFacts, MachineLoad, Result
from syncwall.measure.training_step import StepData
from syncwall.report import (
    CollectivesResult,
    Data,
    ExperimentSetup,
    KernelTimes,
    LinksResult,
    data_of,
    loads_of,
)
from syncwall.show.blocks import (
    Block,
    Bullets,
    Figure,
    Heading,
    Lines,
    Paragraph,
    Table,
    Verdict,
    View,
    ledger,
    sentence,
    table,
)
from syncwall.show.draw.bars import Bar, Names, Stack, bar_chart, stack_chart
from syncwall.show.draw.curves import WIDEST, Series, rate_matrix, size_chart
from syncwall.show.numbers import byte_size, duration, percent, plural, rate
from syncwall.timeline.ledger import Ledger
from syncwall.units import Dimension

_TITLES = {
    "collectives": "Collectives",
    "links": "Links between ranks",
    "matmul": "Kernels",
    "step": "A training step",
}


def job_words(result: Result) -> str:
    """Who measured: "4 ranks on 2 hosts, gloo on cpu"."""
    job = result.job
    hosts = plural(len(job.host_names), "host")
    return f"{plural(job.world, 'rank')} on {hosts}, {job.backend} on {job.device}"


def measured_title(result: Result) -> str:
    """What was measured, and by whom."""
    return f"{_TITLES[result.kind]}: {asked_words(result) or job_words(result)}"


def asked_words(result: Result) -> str:
    """What ran, where the settings say so."""
    asked = result.settings
    model = asked.get("model")
    if result.kind == "step" and isinstance(model, dict):
        batch = f"{asked.get('micro_batch', '')} × {asked.get('seq', '')} tokens"
        return f"{model.get('name', '')} {asked.get('shard', '')}, {batch}"
    if result.kind == "matmul" and isinstance(models := asked.get("models"), list | tuple):
        return f"{', '.join(map(str, models))} in {asked.get('precision', '')}"
    return ""


def measured_verdict(result: Result, data: Data) -> tuple[str, ...]:
    """What was found, in a few sentences."""
    match data:
        case CollectivesResult():
            said = tuple(_of_collectives(data))
        case LinksResult():
            said = tuple(_of_links(result, data))
        case KernelTimes():
            said = tuple(_of_kernels(data))
        case StepData():
            said = tuple(map(str, data.suspects)) or (_of_step(data),)
        case _:
            said = ()
    return said or ("Nothing was measured.",)


def _of_collectives(data: CollectivesResult) -> Iterator[str]:
    """The largest size of each kind, and the smallest of the first."""
    largest = {row.kind: row for row in sorted(data.rows, key=lambda row: row.bytes)}
    kinds = [largest[kind] for kind in dict.fromkeys(row.kind for row in data.rows)]
    if kinds:
        first, *others = kinds
        small = min((r for r in data.rows if r.kind == first.kind), key=lambda row: row.bytes)
        yield (
            f"{first.kind} of {byte_size(first.bytes)} takes {duration(first.times.median_s)}, a "
            f"bus bandwidth of {rate(first.busbw_bytes_per_s)}; of {byte_size(small.bytes)} it "
            f"takes {duration(small.times.median_s)}."
        )
        if others:
            listed = (f"{one.kind} {rate(one.busbw_bytes_per_s)}" for one in others)
            yield f"At their largest sizes: {', '.join(listed)}."


def _of_links(result: Result, data: LinksResult) -> Iterator[str]:
    if not data.rows:
        return
    yield from (one.what for one in data.suspects)
    if not data.suspects:
        yield "Nobody is slow beside the others."
    if result.settings.get("expected_bytes_per_s") is None and len(result.job.host_names) == 2:
        yield "Two hosts cannot be told apart: state what the link should reach, --expect 25Gb/s."


def _of_kernels(data: KernelTimes) -> Iterator[str]:
    """The fastest multiplication, the fastest copy, and what they cost each other."""
    best = max(data.rows, key=lambda row: row.flop_per_s, default=None)
    if best is not None and best.flop_per_s > 0:
        yield f"{best.name} ({shape_text(best)}) is fastest: {flops_text(best.flop_per_s)}."
    moved = max((row.bytes_per_s for row in data.rows if row.flop_per_s <= 0), default=0.0)
    if moved:
        yield f"Kernels that only move data reach {rate(moved)} at most."
    if data.beside is not None:
        share = percent(data.beside.host_share)
        yield f"Beside an all-reduce, computation stands still for {share} of its time."


def _of_step(data: StepData) -> str:
    share = Ledger(data.ledger_s).exposed_s / data.times.median_s
    return (
        f"A step takes {duration(data.times.median_s)}; {percent(share)} of it waits for "
        "communication, and no rank holds the others up."
    )


def beside_words(beside: Overlap) -> str:
    """What computation and communication cost each other."""
    return (
        f"An all-reduce takes {duration(beside.alone_s)} alone and {duration(beside.beside_s)} "
        f"beside computation, which stands still for {percent(beside.host_share)} of its time. "
        f"Ranks that compute and then meet wait {duration(beside.meeting_s)} for the slowest."
    )


def shape_text(row: KernelRow) -> str:
    """The dimensions of a kernel in a few words."""
    shape = dict(row.shape)
    if all(isinstance(shape.get(key), int | float) for key in ("m", "n", "k")):
        ways = ", weight gradient" if shape.get("is_weight_gradient") else ""
        return " × ".join(f"{shape[key]:g}" for key in ("m", "n", "k")) + ways
    if row.operation == "elementwise":
        size = shape.get("bytes")
        return byte_size(size) if isinstance(size, float) and size >= 0 else ""
    sizes = [shape.get(key) for key in ("batch", "heads", "length", "head_dim")]
    words = " × ".join(f"{size:g}" for size in sizes if isinstance(size, int | float))
    return f"{words}, {'backward' if shape.get('is_backward') else 'forward'}"


def flops_text(flop_per_s: float) -> str:
    """A rate of arithmetic to three figures."""
    return units.format(flop_per_s, Dimension.FLOP_PER_S, digits=3)


Loads = Sequence[MachineLoad | None]


def load_words(loads: Loads) -> str:
    """The load of each of the measurements, or of the busiest of several."""
    known = [load for load in loads if load is not None]
    if not known:
        return "load was not recorded"
    most = "at most " if len(known) > 1 else ""
    average = max(load.before.average for load in known)
    steal = max(sample.steal for load in known for sample in load.samples)
    others = max(sample.others for load in known for sample in load.samples)
    return (
        f"machine load {most}{average:.1f} before, steal {most}{percent(steal)}, "
        f"other processes {most}{percent(others)} of the cores"
    )


def busy_words(loads: Loads) -> str:
    """Why little can be concluded; empty for a quiet machine, and for one of which nobody knows."""
    known = [load for load in loads if load is not None]
    busy = [load for load in known if any(sample.is_busy for sample in load.samples)]
    if not busy:
        return ""
    samples = [sample for load in busy for sample in load.samples]
    others, steal = max(one.others for one in samples), max(one.steal for one in samples)
    reasons = [f"other processes used up to {percent(others)} of the cores"] * (others > MOST_OTHERS)
    reasons += [f"up to {percent(steal)} of their time was stolen"] * (steal > MOST_STEAL)
    where = f" in {len(busy)} of {plural(len(known), 'record')}" if len(known) > 1 else ""
    return f"the machine was busy{where}: {' and '.join(reasons)}"


WARNING = "Warning"


def ahead(result: Result, loads: Sequence[MachineLoad | None]) -> list[Block]:
    """Warnings, if there are any: they stand above the verdict."""
    busy = busy_words(loads)
    said = [f"{busy}; little can be concluded from what was measured."] if busy else []
    if not result.complete:
        said.append("interrupted: this is only what was measured until then.")
    return [Lines(WARNING, tuple(map(sentence, said)))] if said else []


def load_lines(loads: Sequence[MachineLoad | None]) -> Lines:
    """What else the machine did."""
    return Lines("Load", (load_words(loads),), is_quiet=True)


def machine_blocks(result: Result) -> list[Block]:
    """Who measured, when and with what; equal hosts once."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in result.hosts:
        groups.setdefault(_facts(host), []).append(host.name)
    rows = [
        (", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else ""), *facts)
        for facts, names in groups.items()
    ]
    head = ("host", "processor", "accelerators", "system", "software", "environment")
    said = f"Measured {result.made_at} with syncwall {result.syncwall}"
    who = "" if result.kind == "lab" else f": {job_words(result)}"
    return [Paragraph(f"{said}{who}."), *table(head, rows, words=len(head))]


def _facts(host: Host) -> tuple[str, ...]:
    memory = host.memory_bytes or 0
    size = f", {units.format(memory, Dimension.BYTES, digits=3)}" if memory > 0 else ""
    return (
        f"{host.cpu}, {plural(host.cores, 'core')}{size}",
        ", ".join(host.accelerators),
        host.system,
        ", ".join(f"{name} {version}" for name, version in host.packages.items()),
        ", ".join(f"{name}={value}" for name, value in host.environment.items()),
    )


def lab_setup(asked: ExperimentSetup, records: Sequence[LabRecord]) -> list[Block]:
    """Topologies as pictures, what ran on each, and what iperf3 found."""
    jobs = tuple(dict.fromkeys(record.job.label for record in records))
    blocks: list[Block] = [
        Paragraph(
            f"Hosts are network namespaces of one machine, links are held to their rate. Each "
            f"worker is a process with {plural(asked.threads, 'thread')}. On each topology ran:"
        ),
        Bullets(jobs),
    ]
    if asked.faults:
        blocks.append(Paragraph("While each job ran, something went wrong on purpose:"))
        blocks.append(Bullets(tuple(fault.label for fault in asked.faults)))
    return [*blocks, *_pictures(records), *_setup_links(records)]


def _pictures(records: Sequence[LabRecord]) -> list[Block]:
    """A picture for each topology; those that differ in their rate only share one."""
    from syncwall.show.draw.topology_drawing import topology_drawing, topology_words

    groups: dict[str, list[Topology]] = {}
    for record in records:
        shape = record.topology.model_copy(update={"rate_bytes_per_s": 1e3})
        groups.setdefault(shape.model_dump_json(), []).append(record.topology)
    figures: list[Block] = []
    for group in groups.values():
        *others, last = map(rate_text, sorted({float(one.rate_bytes_per_s) for one in group}))
        rates = f"{', '.join(others)} or {last}" if others else last
        first = group[0]
        alone = ". The workers talk inside the host" if first.hosts == 1 else ""
        said = f"{first.place}: {topology_words(first)}{alone}."
        figures.append(Figure(partial(topology_drawing, first, rates), said))
    return figures


def _setup_links(records: Sequence[LabRecord]) -> list[Block]:
    """What iperf3 found, once for each topology and round."""
    rows = {}
    for record in records:
        if record.link is not None:
            found = (record.link.forward_bytes_per_s, record.link.backward_bytes_per_s)
            texts = ["" if rate is None else _mbit(rate) for rate in found]
            rate = float(record.topology.rate_bytes_per_s)
            rows[record.topology.label, record.round] = [
                record.topology.label,
                _mbit(rate),
                *texts,
                percent(found[0] / rate, 1),
            ]
    head = ("links by iperf3, Mb/s", "rate set", "forward", "backward", "forward of rate")
    return table(head, list(rows.values()))


def _mbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8e-6:,.1f}"


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
        case CollectivesResult(rows=rows):
            curves = [Curve(plural(job.world, "rank"), rows)]
            left = tuple(f"{one.kind}: {one.reason}" for one in data.skipped)
            return [*_times(rows), *([Lines("Left out", left)] if left else []), *collective_figures(curves)]
        case LinksResult():
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
                cells.append(
                    (byte_size(row.bytes), *map(duration, seconds), *map(rate, rates), f"{times.trials}")
                )
    head = ("size", "median", "P10", "P90", "worst", "algbw", "busbw", "trials")
    found = table(head, cells, words=0, spare=("trials", "algbw"))
    return [*found, Paragraph(_LEGEND, is_quiet=True)] if found else []


def _links(data: LinksResult, job: JobFacts) -> list[Block]:
    names = [f"{rank} {host}" for rank, host in enumerate(job.hosts)]
    slowest = sorted(data.rows, key=lambda row: row.rate_bytes_per_s)[:_SLOWEST]
    cells = [
        (
            names[row.source],
            names[row.target],
            *map(rate, (row.rate_bytes_per_s, row.p10, row.p90)),
            duration(row.latency_s),
        )
        for row in slowest
    ]
    head = ("from", "to", "rate", "P10", "P90", "latency")
    few = len(slowest) < len(data.rows)
    listed = [Paragraph(f"The slowest {len(slowest)} of {len(data.rows):,} links:")] if few else []
    return [*_matrix(data, names), *_medians(data, job), *listed, *table(head, cells, words=2)]


def _matrix(data: LinksResult, names: Sequence[str]) -> list[Block]:
    """The rate of every pair of ranks."""
    if not data.rows or len(names) > WIDEST:
        return []
    rates = {(row.source, row.target): row.rate_bytes_per_s for row in data.rows}
    ranks = range(len(names))
    rows = ((names[a], *(rate(rates[a, b]) if (a, b) in rates else "·" for b in ranks)) for a in ranks)
    letters = Table(("", *names), tuple(rows)) if len(names) <= _SLOWEST else None
    caption = "Rate from the rank on the left to the one above, one way at a time"
    return [Figure(partial(rate_matrix, names, rates), caption, letters)]


def _medians(data: LinksResult, job: JobFacts) -> list[Block]:
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
        (
            row.name,
            shape_text(row),
            duration(row.times.median_s),
            f"± {percent(row.times.spread)}",
            flops_text(row.flop_per_s) if row.flop_per_s else "",
            rate(row.bytes_per_s),
        )
        for row in data.rows
    ]
    legend = "Times of one kernel on the slowest rank, all ranks at once, operands as in training."
    beside = [Lines("Beside", (beside_words(data.beside),))] if data.beside else []
    bars = [_bar(row, row.flop_per_s) for row in data.rows if row.flop_per_s > 0]
    moved = [_bar(row, row.bytes_per_s) for row in data.rows if row.flop_per_s <= 0]
    figures = [
        Figure(
            partial(bar_chart, bars, Dimension.FLOP_PER_S, Names("arithmetic rate"), flops_text),
            "Matrix multiplications and attention, all ranks at once.",
        ),
        Figure(
            partial(bar_chart, moved, Dimension.BYTES_PER_S, Names("memory rate"), rate),
            "Kernels that only move data.",
        ),
    ]
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
        (
            "tokens/s/rank",
            f"{data.tokens_per_s / max(job.world, 1):,.0f}",
            f"{data.tokens_per_s:,.0f} tokens/s in all",
        ),
    ]
    if data.matmul_flop_per_s > 0:
        rows.append(("of matmul", percent(data.of_matmul), "of what one large multiplication reaches"))
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


def site_view(site: SiteFile, file: str, seconds: float) -> View:
    """What a site file holds: its real steps beside predictions, and what was measured alone."""
    rows = []
    for run in site.known_runs:
        alone, known = (predict(run, measured=one) for one in (None, site.calibration))
        times = (known.seconds_of(run.measured), alone.step_s, known.step_s)
        rows.append((f"{run.model.name}, {plural(run.gpus, 'rank')}", *map(duration, times)))
    head = ("real step", "measured", "by the catalogue", "by kernels and collectives")
    said = f"One node in {duration(seconds)}. {_points_words(site.calibration)}"
    about = ", ".join(filter(None, (site.calibration.device, *site.calibration.hosts)))
    use = f"syncwall predict run.yaml --site {file}; plan and compare take it, too"
    return View("A site", (Verdict((said,), about), *table(head, rows), Lines("Next", (use,))))


def calibration_view(measured: MachineMeasurements) -> View:
    """What a calibration holds."""
    about = ", ".join(filter(None, (measured.device, *measured.hosts)))
    rows = [(one.kind, f"{one.ranks}", f"{one.nodes}", f"{len(one.points)}") for one in measured.collectives]
    found = table(("collective", "ranks", "nodes", "sizes"), rows)
    return View("A calibration", (Verdict((_points_words(measured),), about), *found))


def _points_words(measured: MachineMeasurements) -> str:
    sizes = {
        "matrix multiplications": measured.gemm,
        "attention": measured.attention,
        "kernels that move data": measured.elementwise,
        "collectives": measured.collectives,
    }
    said = ", ".join(f"{name} {len(points)}" for name, points in sizes.items() if points)
    return f"Measured points: {said or 'none'}."
