"""What a lab measured besides steps: collectives of all topologies together, links, kernels.

Holds `collectives_of` and `other_blocks`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from syncwall.lab.run import Record
from syncwall.show.measurement import duration, rate
from syncwall.show.report.axes import size_text
from syncwall.show.report.blocks import Block, Bullets, Heading, Paragraph, table
from syncwall.show.report.reading import Collectives, Links, data_of
from syncwall.show.report.sections import Curve, collective_blocks, measurement_blocks

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
