"""How far a run scales, in an article.

Holds `scaling_blocks`.
"""

from collections.abc import Sequence
from typing import Any

from syncwall.plan.wall.walls import LEVELS
from syncwall.show.report.answered import Answered
from syncwall.show.report.blocks import Block, Figure, Heading, Paragraph, table
from syncwall.show.wall import wall_record
from syncwall.show.wall_chart import svg_chart


def scaling_blocks(answered: Answered, level: int) -> list[Block]:
    """Where efficiency falls, the curves, and what moves the wall."""
    head = Heading(level, "How far it scales")
    if answered.wall is None:
        return [head, Paragraph(f"It cannot be spread further: {answered.no_wall}.")]
    record = wall_record(answered.wall, answered.start)
    sides = list(record["sides"])
    bases = sorted({record["sides"][side]["base"]["gpus"] for side in sides})
    fewest = " and ".join(f"{gpus:,}" for gpus in bases)
    caption = (
        f"Speed of a GPU over that on {fewest} GPUs, the fewest on which it fits. "
        f"Strong: {record['global_batch']:,} sequences a step in all; "
        f"weak: {record['replica_batch']:,} for every replica. "
        "The layout stays, data parallelism grows."
    )
    now = ("as it is", *_cells({side: record["sides"][side]["walls"] for side in sides}, sides))
    moved = [(one["change"], *_cells(one["walls"], sides)) for one in record["moved"]]
    columns = [f"{side} {share:.0%}" for side in sides for share in LEVELS]
    return [
        head,
        *(Paragraph(f"{said[:1].upper()}{said[1:]}.") for said in record["verdict"]),
        Figure(svg_chart(answered.wall), caption),
        Paragraph("Most GPUs with at least this efficiency, as it is and with single changes:"),
        *table(("", *columns), [now, *(row for row in moved if row[1:] != now[1:])]),
        Paragraph("+ the curve ends there; what moves nothing is left out.", is_quiet=True),
    ]


def _cells(walls: dict[str, Any], sides: Sequence[str]) -> list[str]:
    return [_count(wall) for side in sides for wall in walls.get(side) or [None for _ in LEVELS]]


def _count(wall: dict[str, Any] | None) -> str:
    if wall is None:
        return ""
    if wall["holds_to_gpus"] is None:
        return "none"
    return f"{wall['holds_to_gpus']:,}{'+' if wall['falls_at_gpus'] is None else ''}"
