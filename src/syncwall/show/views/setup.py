"""What was measured on: hosts, software, load and, of a lab, its topologies.

Holds `ahead` (what is to be known before anything else), `load_lines`, `machine_blocks` and
`lab_setup`.
"""

from collections.abc import Sequence
from functools import partial

from syncwall import units
from syncwall.lab.run import LabRecord
from syncwall.lab.topology import Topology, rate_text
from syncwall.measure.load import MachineLoad
from syncwall.measure.result import Host, Result
from syncwall.report import ExperimentSetup
from syncwall.show.blocks import Block, Bullets, Figure, Lines, Paragraph, sentence, table
from syncwall.show.numbers import percent, plural
from syncwall.show.words.load import busy_words, load_words
from syncwall.show.words.measurement import job_words
from syncwall.units import Dimension

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
    return [*blocks, *_pictures(records), *_links(records)]


def _pictures(records: Sequence[LabRecord]) -> list[Block]:
    """A picture for each topology; those that differ in their rate only share one."""
    from syncwall.show.draw.topology import topology_drawing, topology_words

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


def _links(records: Sequence[LabRecord]) -> list[Block]:
    """What iperf3 found, once for each topology and round."""
    rows = {}
    for record in records:
        if record.link is not None:
            found = (record.link.forward_bytes_per_s, record.link.backward_bytes_per_s)
            texts = ["" if rate is None else _mbit(rate) for rate in found]
            rate = float(record.topology.rate_bytes_per_s)
            rows[record.topology.label, record.round] = [
                record.topology.label, _mbit(rate), *texts, percent(found[0] / rate, 1),
            ]  # fmt: skip
    head = ("links by iperf3, Mb/s", "rate set", "forward", "backward", "forward of rate")
    return table(head, list(rows.values()))


def _mbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8e-6:,.1f}"
