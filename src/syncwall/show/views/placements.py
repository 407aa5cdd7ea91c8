"""The same work on one host and on more, side by side.

Holds `Placed` and `placements`; `placed_steps` and `placed_collectives` say what stands in a cell.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from syncwall.measure.result import JobFacts, Result
from syncwall.report import Collectives, Data, LabData, PlacedStep, data_of, fastest_s
from syncwall.show.blocks import Block, Paragraph, table
from syncwall.show.numbers import byte_size, duration, percent, plural, rate


@dataclass(frozen=True)
class Placed:
    """Something that was measured on so many hosts."""

    what: str
    """With the number of workers."""
    hosts: int
    link: str
    """Rate of the links; empty on one host."""
    cells: dict[str, str]
    """What is shown first under "", the rest by its name, the most important first."""


def placements(found: Sequence[Placed], legend: str) -> list[Block]:
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
        (f"{what} ({again + 1})" if again else what, link,
         *(row.get(count, {}).get(name, "") for name, count in columns.values()))
        for (what, link, again), row in rows.items()
    ]  # fmt: skip
    spare = tuple(f"{name} {plural(count, 'host')}" for name in reversed(more) for count in hosts)
    shown = table(("what ran", "links", *columns), cells, words=2, spare=spare)
    return [*shown, Paragraph(legend, is_quiet=True)]


def placed_steps(steps: Sequence[PlacedStep]) -> list[Block]:
    """Measured and predicted steps."""
    fastest = fastest_s(steps)
    found = [
        Placed(
            f"{one.what}, {plural(one.world, 'worker')}", one.hosts, one.link,
            {
                "": duration(one.measured_s),
                "×": f"{one.measured_s / fastest[one.what, one.world]:.2f}",
                "waits": percent(one.exposed_share),
                "predicted": duration(one.predicted_s) if one.predicted_s else "",
            },
        )
        for one in steps
    ]  # fmt: skip
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
            Placed(
                f"{kind} of {byte_size(row.bytes)}, {plural(job.world, 'worker')}",
                len(job.host_names), link,
                {"": duration(row.times.median_s), "busbw": rate(row.busbw_bytes_per_s)},
            )
            for kind, row in largest.items()
        ]  # fmt: skip
    legend = "The median of the largest size, and its bus bandwidth (nccl-tests busbw)."
    return placements(placed, legend)


def _collectives(
    found: Iterable[tuple[Result, Data]],
) -> Iterator[tuple[JobFacts, str, Collectives]]:
    """Who measured, over what links, and what."""
    for result, data in found:
        if isinstance(data, Collectives):
            yield result.job, "", data
        for record in data.records if isinstance(data, LabData) else ():
            inside = data_of(record.result) if record.result else None
            if record.result and isinstance(inside, Collectives):
                yield record.result.job, record.topology.link, inside
