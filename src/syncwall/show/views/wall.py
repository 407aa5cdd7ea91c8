"""The sync wall: how far a run scales, what stops it, what moves the wall.

Holds `wall_view` and `wall_blocks`.
"""

from collections.abc import Iterator
from functools import partial

from syncwall.plan.choices import Scaling
from syncwall.plan.reference import Reference
from syncwall.plan.wall.answer import LEVELS, Moved, Peak, SyncWall, Wall, WallPlan
from syncwall.plan.wall.moves import WallChange
from syncwall.show.blocks import Block, Figure, Lines, Verdict, View, table
from syncwall.show.draw.wall import svg_chart, terminal_chart
from syncwall.show.numbers import duration, percent
from syncwall.show.views.prediction import chosen
from syncwall.show.words.layout import layout_words, run_title, run_words
from syncwall.show.words.wall import (
    batch_words,
    change_words,
    efficiency_means,
    layout_grows,
    side_verdict,
    side_why,
)


def wall_view(plan: WallPlan) -> View:
    """Verdict, curves, where they fall and what moves that, why."""
    blocks = wall_blocks(plan.wall, plan.start)
    return View(f"How far {run_title(plan.start.run)} scales", tuple(blocks))


def wall_blocks(answer: SyncWall, start: Reference) -> list[Block]:
    """Verdict, curves, where they fall and what moves that, why."""
    sides = answer.sides.values()
    about = f"{run_words(start.run)}: {duration(start.prediction.step_s)}"
    chart = Figure(
        partial(svg_chart, answer), "efficiency over the number of GPUs",
        partial(terminal_chart, answer),
    )  # fmt: skip
    batches = (f"{side.scaling}: {batch_words(answer.setup, side.scaling)}" for side in sides)
    return [
        Verdict(tuple(map(side_verdict, sides)), about),
        chart,
        *_moves(answer),
        *_other_layouts(answer),
        Lines("Why", tuple(map(side_why, sides))),
        Lines("Layout", (layout_grows(answer, start),)),
        Lines("Batch", ("; ".join(batches),)),
        Lines("Means", (efficiency_means(answer),)),
        *chosen(start.assumed),
    ]


def _moves(answer: SyncWall) -> list[Block]:
    """The walls as they are and with each change."""
    head = ["most GPUs at an efficiency of"]
    for way in answer.sides:
        head += [f"{way} {percent(level)}" for level in LEVELS]
        head += ["fastest"] * (way is Scaling.STRONG)
    sides = answer.sides.values()
    now = {side.scaling: side.walls for side in sides}, {side.scaling: side.peak for side in sides}
    rows = [("as it is", *_cells(answer, *now))]
    rows += [(_change(one), *_cells(answer, one.walls, one.peaks)) for one in answer.moved]
    spare = ("weak 50%", "strong 50%", "fastest", "weak 90%", "strong 90%")
    return table(head, rows, spare=spare, strong=frozenset({0}))


def _cells(
    answer: SyncWall, walls: dict[Scaling, list[Wall]], peaks: dict[Scaling, Peak]
) -> Iterator[str]:
    for way in answer.sides:
        found = walls.get(way)
        yield from map(_count, found) if found else [""] * len(LEVELS)
        if way is Scaling.STRONG:
            yield _top(peaks[way]) if found else ""


def _change(moved: Moved) -> str:
    """What was changed; other layouts have a line of their own."""
    return str(moved.change) if moved.change is WallChange.LAYOUT else change_words(moved)


def _count(wall: Wall) -> str:
    if wall.holds_to_gpus is None:
        return "none"
    return f"{wall.holds_to_gpus:,}{'+' if wall.falls_at_gpus is None else ''}"


def _top(top: Peak) -> str:
    return f"{top.gpus:,}{'+' if top.ended_by == 'range' else ''}"


def _other_layouts(answer: SyncWall) -> list[Block]:
    """The layouts that a search found for where the walls are."""
    found = [moved.layouts for moved in answer.moved if moved.change is WallChange.LAYOUT]
    return [
        Lines("Another", tuple(f"layout for {way} scaling: {layout_words(layout)}"
                               for way, layout in layouts.items()))
        for layouts in found
    ]  # fmt: skip
