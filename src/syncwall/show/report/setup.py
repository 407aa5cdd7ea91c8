"""What was measured on: hosts, software and, of a lab, its topologies.

Holds `machine_blocks` and `lab_setup`. `topology_drawing`: a topology of the lab as a picture:
hosts, their workers and NICs, and the switches.
"""

from collections.abc import Sequence

from syncwall import units
from syncwall.lab.run import Record
from syncwall.lab.topology import Topology, rate_text
from syncwall.measure.result import Host, Result
from syncwall.show.report.blocks import Block, Bullets, Figure, Paragraph, table
from syncwall.show.report.reading import Asked
from syncwall.show.report.svg import Drawing
from syncwall.units import Dimension

_MOST_HOSTS, _MOST_WORKERS, _MOST_NICS = 6, 6, 4
_HOST_TOP, _HOST_HEIGHT = 4.0, 74.0
_SWITCH_TOP = 124.0
_SWITCH_HEIGHT = 22.0


def topology_drawing(topology: Topology, rates: str = "") -> Drawing:
    """The hosts above, the switches below; many hosts, workers or NICs are drawn as a few."""
    rates = rates or rate_text(topology.rate_bytes_per_s)
    drawing = Drawing(f"{topology.place}: {_words(topology)}", height=_HOST_TOP + _HOST_HEIGHT + 8)
    shown = _shown(topology.hosts, _MOST_HOSTS)
    wide = min(120.0, (drawing.width - 8) / len(shown))
    left = (drawing.width - wide * len(shown)) / 2
    nics: list[tuple[float, int, int]] = []
    for number, host in enumerate(shown):
        x = left + wide * number
        if host is None:
            drawing.text(
                x + wide / 2, 44, f"… {topology.hosts - len(shown) + 1} more", "", "middle"
            )
        else:
            nics += [(at, nic, host) for at, nic in _host(drawing, topology, host, x + 4, wide - 8)]
    if topology.hosts > 1:
        _switches(drawing, topology, nics, rates)
    return drawing


def _words(topology: Topology) -> str:
    hosts = f"{topology.hosts} host{'s' if topology.hosts > 1 else ''}"
    workers = f"{topology.workers} worker{'s' if topology.workers > 1 else ''}"
    if topology.hosts == 1:
        return f"{hosts} with {workers}"
    return f"{hosts} with {workers} and {topology.nics} NIC{'s' if topology.nics > 1 else ''} each"


def _shown(count: int, most: int) -> list[int | None]:
    """Numbers of those drawn; None stands for those left out."""
    if count <= most:
        return list(range(count))
    return [*range(most - 2), None, count - 1]


def _host(
    drawing: Drawing, topology: Topology, host: int, x: float, width: float
) -> list[tuple[float, int]]:
    """One host; returns where its NICs are."""
    bottom = _HOST_TOP + _HOST_HEIGHT
    drawing.rect(x, _HOST_TOP, width, _HOST_HEIGHT - 8, "panel")
    drawing.text(x + 6, _HOST_TOP + 15, f"h{host}", "small strong")
    if topology.workers > _MOST_WORKERS:
        drawing.text(x + width / 2, 44, f"{topology.workers} workers", "small", "middle")
    else:
        for worker in range(topology.workers):
            at = x + width * (worker + 0.5) / topology.workers
            rank = host * topology.workers + worker
            serves = ", ".join(f"eth{nic}" for nic in topology.nics_of(worker))
            drawing.dot(at, 38, min(10.0, width / topology.workers / 2 - 1), "f0",
                        f"rank {rank} uses {serves}")  # fmt: skip
            drawing.text(at, 42, str(rank), "small inside", "middle")
    if topology.hosts == 1:
        return []
    found = []
    for place, nic in enumerate(_shown(topology.nics, _MOST_NICS)):
        if nic is None:
            continue
        at = x + width * (place + 0.5) / min(topology.nics, _MOST_NICS)
        drawing.rect(at - 15, bottom - 16, 30, 15, "f5", f"h{host} eth{nic}")
        drawing.text(at, bottom - 5, f"eth{nic}", "small inside", "middle")
        found.append((at, nic))
    return found


def _switches(
    drawing: Drawing, topology: Topology, nics: list[tuple[float, int, int]], rates: str
) -> None:
    """Switches, a wire from each NIC to its own, and the rate of a wire."""
    boxes = [(rail, leaf) for leaf in range(topology.leaves) for rail in range(topology.rails)]
    boxes = boxes[:8]
    wide = (drawing.width - 8) / len(boxes)
    middles = {box: 4 + wide * (number + 0.5) for number, box in enumerate(boxes)}
    width = min(wide - 10, 150.0)
    for at, nic, host in nics:
        middle = middles.get((nic % topology.rails, topology.leaf_of(host)))
        if middle is not None:
            end = min(max(at, middle - width / 2 + 6), middle + width / 2 - 6)
            start = _HOST_TOP + _HOST_HEIGHT
            drawing.curve([(at, start), (at, start + 8), (end, _SWITCH_TOP - 8),
                           (end, _SWITCH_TOP)], "wire")  # fmt: skip
    for (rail, leaf), middle in middles.items():
        name = _switch_name(topology, rail, leaf)
        drawing.rect(middle - width / 2, _SWITCH_TOP, width, _SWITCH_HEIGHT, "f2")
        drawing.text(middle, _SWITCH_TOP + 15, name, "small inside", "middle")
    below = _SWITCH_TOP + _SWITCH_HEIGHT + 16
    words = f"each link {rates}, each way"
    if topology.leaves > 1:
        words += f"; leaves hang on a spine, {topology.oversubscription:g} to 1 oversubscribed"
    drawing.text(drawing.width / 2, below, words, "", "middle")
    drawing.height = below + 8


def _switch_name(topology: Topology, rail: int, leaf: int) -> str:
    words = [f"rail {rail}"] if topology.rails > 1 else []
    words += [f"leaf {leaf}"] if topology.leaves > 1 else []
    return " ".join(words) or "switch"


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
