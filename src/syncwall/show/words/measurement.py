"""Sentences about a measurement: its title, what was asked, what was found.

Holds `measured_title`, `asked_words` and `measured_verdict`; `beside_words` and `shape_text` of
kernels.
"""

from collections.abc import Iterator

from syncwall import units
from syncwall.measure.kernels import KernelRow
from syncwall.measure.overlap import Overlap
from syncwall.measure.result import Result
from syncwall.measure.step import StepData
from syncwall.report import Collectives, Data, KernelTimes, Links
from syncwall.show.numbers import byte_size, duration, percent, plural, rate
from syncwall.timeline.ledger import Ledger
from syncwall.units import Dimension

_TITLES = {
    "collectives": "Collectives", "links": "Links between ranks", "matmul": "Kernels",
    "step": "A training step",
}  # fmt: skip


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
        case Collectives():
            said = tuple(_of_collectives(data))
        case Links():
            said = tuple(_of_links(result, data))
        case KernelTimes():
            said = tuple(_of_kernels(data))
        case StepData():
            said = tuple(map(str, data.suspects)) or (_of_step(data),)
        case _:
            said = ()
    return said or ("Nothing was measured.",)


def _of_collectives(data: Collectives) -> Iterator[str]:
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


def _of_links(result: Result, data: Links) -> Iterator[str]:
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
