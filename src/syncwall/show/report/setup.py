"""What was measured on: hosts, software and, of a lab, its topologies.

Holds `machine_blocks` and `lab_setup`.
"""

from collections.abc import Sequence

from syncwall import units
from syncwall.lab.run import Record
from syncwall.lab.topology import Topology, rate_text
from syncwall.measure.facts import Host
from syncwall.measure.result import Result
from syncwall.show.report.blocks import Block, Bullets, Figure, Paragraph, table
from syncwall.show.report.places import topology_drawing
from syncwall.show.report.reading import Asked
from syncwall.units import Dimension


def machine_blocks(result: Result) -> list[Block]:
    """Who measured, when and with what; equal hosts once."""
    rows = []
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in result.hosts:
        groups.setdefault(_facts(host), []).append(host.name)
    for facts, names in groups.items():
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        rows.append((shown, *facts))
    head = ("host", "processor", "accelerators", "system", "software", "environment")
    said = f"Measured {result.made_at} with syncwall {result.syncwall}"
    if result.kind != "lab":
        ranks = f"{result.job.world} rank{'' if result.job.world == 1 else 's'}"
        hosts = f"{len(result.job.host_names)} host{'' if len(result.job.host_names) == 1 else 's'}"
        said += f": {ranks} on {hosts}, {result.job.backend} on {result.job.device}"
    partly = "" if result.complete else " It was interrupted: this is what there was until then."
    return [Paragraph(f"{said}.{partly}"), *_without_empty(head, rows)]


def _facts(host: Host) -> tuple[str, ...]:
    memory = host.memory_bytes or 0
    size = f", {units.format(memory, Dimension.BYTES, digits=3)}" if memory > 0 else ""
    return (
        f"{host.cpu}, {host.cores} cores{size}",
        ", ".join(host.accelerators),
        host.system,
        ", ".join(f"{name} {version}" for name, version in host.packages.items()),
        ", ".join(f"{name}={value}" for name, value in host.environment.items()),
    )


def _without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Block]:
    """A table without the columns in which nothing stands."""
    kept = [number for number in range(len(head)) if any(row[number] for row in rows)]
    return table(
        [head[number] for number in kept],
        [[row[number] for number in kept] for row in rows],
        words=len(kept),
    )


def lab_setup(asked: Asked, records: Sequence[Record]) -> list[Block]:
    """Topologies as pictures, what ran on each, and what iperf3 found."""
    jobs = tuple(dict.fromkeys(record.job.label for record in records))
    blocks: list[Block] = [
        Paragraph(
            f"Hosts are network namespaces of one machine, links are held to their rate. Each "
            f"worker is a process with {asked.threads} thread{'s' if asked.threads > 1 else ''}. "
            f"On each topology ran:"
        ),
        Bullets(jobs),
    ]
    if asked.faults:
        blocks.append(Paragraph("While each job ran, something went wrong on purpose:"))
        blocks.append(Bullets(tuple(fault.label for fault in asked.faults)))
    return [*blocks, *_pictures(records), *_links(records)]


def _pictures(records: Sequence[Record]) -> list[Block]:
    """A picture for each topology; those that differ in their rate only share one."""
    groups: dict[str, list[Topology]] = {}
    for record in records:
        shape = record.topology.model_copy(update={"rate_bytes_per_s": 1e3})
        groups.setdefault(shape.model_dump_json(), []).append(record.topology)
    figures: list[Block] = []
    for group in groups.values():
        rates = sorted({float(topology.rate_bytes_per_s) for topology in group})
        first = group[0]
        *others, last = map(rate_text, rates)
        texts = f"{', '.join(others)} or {last}" if others else last
        drawing = topology_drawing(first, texts)
        what = drawing.label.partition(": ")[2]
        said = f"{first.place}: {what}."
        if first.hosts == 1:
            said += " The workers talk inside the host."
        figures.append(Figure(drawing, said))
    return figures


def _links(records: Sequence[Record]) -> list[Block]:
    """What iperf3 found, once for each topology and round."""
    rows = {}
    for record in records:
        if record.link is not None:
            found = (record.link.forward_bytes_per_s, record.link.backward_bytes_per_s)
            texts = ["" if rate is None else _mbit(rate) for rate in found]
            rate = float(record.topology.rate_bytes_per_s)
            rows[record.topology.label, record.round] = [
                record.topology.label, _mbit(rate), *texts, f"{found[0] / rate:.1%}",
            ]  # fmt: skip
    head = ("links by iperf3, Mb/s", "rate set", "forward", "backward", "forward of rate")
    return table(head, list(rows.values()))


def _mbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8e-6:,.1f}"
