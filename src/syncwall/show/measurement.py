"""Measured collectives and links, for the terminal.

Holds `collectives_page`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.measure.collectives import CollectiveRow, Skipped
    from syncwall.measure.result import JobFacts

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


def table(columns: Iterable[str], lines: Iterable[Iterable[str]], *, words: int = 1) -> Table:
    """A table whose first `words` columns are texts, the others numbers."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number < words else "right")
    for line in lines:
        made.add_row(*map(Text, line))
    return made


def rate(bytes_per_s: float) -> str:
    """A data rate to three figures."""
    return units.format(bytes_per_s, Dimension.BYTES_PER_S, digits=3)


def duration(seconds: float) -> str:
    """A time to three figures."""
    return units.format(seconds, Dimension.SECONDS, digits=3)


def _cells(row: "CollectiveRow") -> list[str]:
    times = row.times
    return [
        _size(row.bytes),
        *map(duration, (times.median_s, times.p10_s, times.p90_s, times.worst_s)),
        rate(row.algbw_bytes_per_s), rate(row.busbw_bytes_per_s), f"{times.trials}",
    ]  # fmt: skip


def _size(count: int) -> str:
    """Powers of two in binary units, others as they are."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count % 1024**power == 0 and count:
            return f"{count // 1024**power} {unit}"
    return f"{count:,} B"
