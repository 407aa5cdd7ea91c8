"""Measured links as a matrix, and who is slow, for the terminal.

Holds `links_page`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncwall.show.measurement import duration, heading, interrupted, rate, table

if TYPE_CHECKING:
    from syncwall.measure.links import LinkRow
    from syncwall.measure.result import JobFacts
    from syncwall.measure.suspects import Suspect

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
