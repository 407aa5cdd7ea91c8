"""The sync wall: how far a run scales, what stops it, what moves the wall."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from syncwall.answer.interval import validated_gpus
from syncwall.plan.choices import Scaling
from syncwall.plan.reference import Reference
from syncwall.plan.wall.moves import OUTER_EVERY, Setup, WallChange, island
from syncwall.plan.wall.sync_wall import (
    EXPLAINED,
    LEVELS,
    MOST,
    Moved,
    Peak,
    Side,
    SyncWall,
    Wall,
    WallPlan,
)
from syncwall.show.blocks import Block, Figure, Lines, Verdict, View, table
from syncwall.show.draw.svg import WIDTH, Axis, Drawing, Entry, legend, plot_axes
from syncwall.show.layout import layout_words, of_tokens, run_words, sample
from syncwall.show.numbers import duration, gigabytes, percent, plural
from syncwall.show.prediction import chosen, prediction_title, prediction_words

_CAUSES: Final = 3
"""Causes of a loss that are named."""


def gpu_count(gpus: int) -> str:
    """A number of GPUs, and that it is more than any validated run has."""
    return f"{gpus:,}{' extrapolated' if gpus > validated_gpus() else ''}"


def several_gpus(count: int) -> str:
    """The same in a sentence."""
    return f"{plural(count, 'GPU')}{' (extrapolated)' if count > validated_gpus() else ''}"


def verdict(plan: WallPlan) -> list[str]:
    """A line for each way to scale."""
    return [side_verdict(side) for side in plan.wall.sides.values()]


def side_verdict(side: Side) -> str:
    """How far one way to scale holds, and what stops it."""
    wall = next(wall for wall in side.walls if wall.level == EXPLAINED)
    said = f"{side.scaling} scaling {_holds(wall)}"
    if wall.falls_at_gpus is not None:
        said += f"; {_stopped_by(side)}"
    top = side.peak
    if top.ended_by == "slower":
        said += f"; more than {several_gpus(top.gpus)} make it slower"
    elif top.ended_by == "batch":
        said += f"; the batch ends it at {gpu_count(top.gpus)}"
    return said


def _stopped_by(side: Side) -> str:
    if side.main_cause:
        return f"what stops it: {side.main_cause}"
    exposed = sum(lost.share for lost in side.losses if lost.cause.is_exposed)
    if exposed >= MOST:
        return "what stops it: exposed communication"
    return "no single cause explains it"


def _holds(wall: Wall) -> str:
    level = percent(wall.level)
    if wall.holds_to_gpus is None:
        return f"never reaches {level} efficiency"
    gpus = several_gpus(wall.holds_to_gpus)
    if wall.falls_at_gpus is None:
        validated = ", the most of any validated run" * (wall.holds_to_gpus == validated_gpus())
        return f"stays above {level} efficiency to its end, {gpus}{validated}"
    return f"holds {level} efficiency up to {gpus}"


def side_why(side: Side) -> str:
    """What a token costs more at the wall, by cause."""
    at, base = several_gpus(side.causes_at), f"{side.base.gpus:,}"
    if not side.losses:
        return f"{side.scaling}: nothing is lost up to {at}"
    efficiency = side.curve.efficiency(side.base)
    lost = 1.0 / float(efficiency[int((side.curve.gpus == side.causes_at).argmax())]) - 1.0
    named = [f"{one.cause} {percent(one.share)}" for one in side.losses[:_CAUSES] if one.share >= 0.005]
    rest = 1.0 - sum(one.share for one in side.losses[:_CAUSES])
    named += [f"the rest {percent(rest)}"] if abs(rest) >= 0.005 else []
    return (
        f"{side.scaling} at {at}: a token costs {percent(lost)} more GPU time than at {base}; "
        f"of that {', '.join(named)}"
    )


def move_words(moved: Moved) -> str:
    """What was changed, with the layout that it was computed with."""
    layouts = list(moved.layouts.values())
    if moved.change is WallChange.DILOCO and layouts:
        return f"DiLoCo: {plural(island(layouts[0]), 'GPU')}, every {OUTER_EVERY} steps"
    if moved.change is WallChange.LAYOUT:
        texts = dict.fromkeys(layout_words(layout) for layout in layouts)
        return f"layout {' / '.join(texts)}"
    return str(moved.change)


def grown_layout_words(answer: SyncWall, start: Reference) -> str:
    """Where the layout comes from, and how it changes with the GPUs."""
    if answer.setup.chosen is not None:
        strong = answer.setup.chosen.get(Scaling.STRONG) or ()
        ends = dict.fromkeys(layout_words(one) for one in strong[:1] + strong[-1:])
        return f"the best of each count by search: {' ... '.join(ends)}"
    how = "the best by search" if start.layout_searched else "as stated"
    return f"{layout_words(answer.setup.layout)} ({how} on {start.run.gpus:,} GPUs); dp grows"


def batch_words(setup: Setup, way: Scaling) -> str:
    """What stays the same when GPUs are added."""
    strong = way is Scaling.STRONG
    case = setup.case
    several = plural(setup.batch if strong else setup.replica_batch, sample(case.model))
    long = of_tokens(case.model, case.seq)
    return f"{several}{long} {'in all' if strong else 'for every replica'}"


def efficiency_means(answer: SyncWall) -> str:
    """What the numbers of the table are."""
    counts = dict.fromkeys(plural(side.base.gpus, "GPU") for side in answer.sides.values())
    searched = answer.setup.chosen is not None
    which = "where a GPU is fastest" if searched else "the fewest on which it fits"
    return (
        f"efficiency: speed of a GPU over that on {' and '.join(counts)}, {which}, in every row; "
        "+ and more: the curve ends there (--most GPUS)"
    )


_BESIDE, _HIGH = 22, 9
"""Columns beside the chart, for its labels; and rows of it."""
WIDEST: Final = 100
_MARKS: Final = {Scaling.STRONG: "●", Scaling.WEAK: "○"}
_BOTH: Final = "◉"
_HEIGHT: Final = 240.0
_LEFT, _RIGHT, _BELOW = 62.0, WIDTH - 34, 46.0


def terminal_chart(answer: SyncWall, width: int = WIDEST) -> list[str]:
    """Lines of a chart: both curves over GPUs, which are drawn logarithmically."""
    wide = max(min(width, WIDEST) - _BESIDE, 20)
    sides = list(answer.sides.values())
    low = min(int(side.curve.gpus[0]) for side in sides)
    high = max(int(side.curve.gpus[-1]) for side in sides)
    cells = [[" "] * wide for _ in range(_HIGH)]
    for side in sides:
        mark = _MARKS[side.scaling]
        for column, row in _wall_cells(side, low, high, wide):
            there = cells[row][column]
            cells[row][column] = mark if there in (" ", mark) else _BOTH
    names = [f"{_MARKS[side.scaling]} {side.scaling} scaling" for side in sides]
    lines = [f"         {'     '.join(names)}"]
    for row, marks in enumerate(cells):
        level = 1.0 - row / (_HIGH - 1)
        label = f"{level:4.0%}" if row % 2 == 0 else "    "
        lines.append(f"  {label} ┤{''.join(marks).rstrip()}")
    return [*lines, f"       └{'─' * wide}", _ticks(low, high, wide)]


def _wall_cells(side: Side, low: int, high: int, wide: int) -> list[tuple[int, int]]:
    """Column and row of every drawn point: one for each column that the curve reaches."""
    gpus, efficiency = side.curve.gpus, np.clip(side.curve.efficiency(side.base), 0.0, 1.0)
    columns = np.round(_places(gpus, low, high) * (wide - 1)).astype(int)
    if side.scaling is Scaling.WEAK:  # dense enough to be a line
        columns, index = np.unique(columns, return_index=True)
        efficiency = efficiency[index]
    rows = np.round((1.0 - efficiency) * (_HIGH - 1)).astype(int)
    return list(zip(columns.tolist(), rows.tolist(), strict=True))


def _places(gpus: Any, low: int, high: int) -> Any:
    """Where counts stand between the ends, from 0 to 1."""
    return np.log(gpus / low) / max(float(np.log(high / low)), 1e-9)


def _ticks(low: int, high: int, wide: int) -> str:
    """Counts under the axis, seven at most."""
    line = [" "] * (wide + 24)
    for gpus in _powers(low, high, min(7, wide // 10)):
        column = 8 + round(float(_places(gpus, low, high)) * (wide - 1))
        text = f"{gpus:,.0f}"
        start = max(column - len(text) // 2, 0)
        line[start : start + len(text)] = text
    beyond = f", extrapolated beyond {validated_gpus():,}" * (high > validated_gpus())
    return "".join(line).rstrip() + (f" GPUs{beyond}" if high > 1 else " GPU")


def _powers(low: float, high: float, most: int) -> list[float]:
    """`low` and its doubles up to `high`, a constant factor apart."""
    octaves = int(np.floor(np.log2(high / low) + 1e-9))
    step = max(1, -(-octaves // (most - 1)))
    return [low * 2.0**power for power in range(0, octaves + 1, step)]


def svg_chart(answer: SyncWall) -> Drawing:
    """Both curves as a drawing, with the levels whose loss is reported."""
    sides = list(answer.sides.values())
    drawing = Drawing("efficiency over GPUs: " + ", ".join(f"{s.scaling} scaling" for s in sides))
    names = [Entry(f"{side.scaling} scaling", _kind(i), "line") for i, side in enumerate(sides)]
    top = legend(drawing, names, 0.0) + 8
    x_axis = Axis.log([float(g) for side in sides for g in side.curve.gpus], _LEFT, _RIGHT)
    y_axis = Axis(0.0, 1.05, top + _HEIGHT, top)
    counts = _powers(2.0 ** np.ceil(np.log2(x_axis.least)), x_axis.most, 6)
    plot_axes(
        drawing,
        (x_axis, counts, lambda gpus: gpu_count(round(gpus)), "GPUs"),
        (y_axis, [0.0, *sorted(LEVELS), 1.0], percent, "efficiency"),
    )
    for number, side in enumerate(sides):
        efficiency = side.curve.efficiency(side.base)
        points = [
            (x_axis.at(float(gpus)), y_axis.at(float(share)), int(gpus), float(share))
            for gpus, share in zip(side.curve.gpus, efficiency, strict=True)
        ]
        drawing.curve([(x, y) for x, y, _, _ in points], _kind(number))
        for x, y, gpus, share in points if len(points) < 40 else points[:: len(points) // 20]:
            title = f"{side.scaling}: {several_gpus(gpus)}, {percent(share, 1)}"
            drawing.dot(x, y, 3, f"f{number}", title)
    drawing.height = y_axis.start + _BELOW
    return drawing


def _kind(number: int) -> str:
    return f"curve s{number} d0"


def wall_view(plan: WallPlan) -> View:
    """Verdict, curves, where they fall and what moves that, why."""
    blocks = wall_blocks(plan.wall, plan.start)
    return View(f"How far {prediction_title(plan.start.prediction)} scales", tuple(blocks))


def wall_blocks(answer: SyncWall, start: Reference) -> list[Block]:
    """Verdict, curves, where they fall and what moves that, why."""
    if start.prediction.is_recorded:
        return _recorded_blocks(answer.sides[Scaling.WEAK], start)
    sides = answer.sides.values()
    about = f"{run_words(start.run)}: {duration(start.prediction.step_s)}"
    if answer.setup.is_tight:
        about += f"; memory is tight, {percent(start.prediction.room.probability)} likely to fit"
    chart = Figure(
        partial(svg_chart, answer),
        "efficiency over the number of GPUs",
        partial(terminal_chart, answer),
    )
    batches = (f"{side.scaling}: {batch_words(answer.setup, side.scaling)}" for side in sides)
    return [
        Verdict(tuple(map(side_verdict, sides)), about),
        chart,
        *_moves(answer),
        *_other_layouts(answer),
        Lines("Why", tuple(map(side_why, sides))),
        Lines("Layout", (grown_layout_words(answer, start),)),
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


def _cells(answer: SyncWall, walls: dict[Scaling, list[Wall]], peaks: dict[Scaling, Peak]) -> Iterator[str]:
    for way in answer.sides:
        found = walls.get(way)
        yield from map(wall_count, found) if found else [""] * len(LEVELS)
        if way is Scaling.STRONG:
            yield top_count(peaks[way]) if found else ""


def _change(moved: Moved) -> str:
    """What was changed; other layouts have a line of their own."""
    return str(moved.change) if moved.change is WallChange.LAYOUT else move_words(moved)


def wall_count(wall: Wall) -> str:
    """Most GPUs at a level; + if the curve ends there."""
    if wall.holds_to_gpus is None:
        return "none"
    return f"{gpu_count(wall.holds_to_gpus)}{'+' if wall.falls_at_gpus is None else ''}"


def top_count(top: Peak) -> str:
    """GPUs where all together are fastest; + if the curve ends there."""
    return f"{gpu_count(top.gpus)}{'+' if top.ended_by == 'range' else ''}"


def _other_layouts(answer: SyncWall) -> list[Block]:
    """The layouts that a search found for where the walls are."""
    found = [moved.layouts for moved in answer.moved if moved.change is WallChange.LAYOUT]
    return [
        Lines(
            "Another",
            tuple(f"layout for {way} scaling: {layout_words(layout)}" for way, layout in layouts.items()),
        )
        for layouts in found
    ]


RECORDED_BATCH: Final = "each rank keeps the batch that was recorded; another batch is another recording"
_RECORDED_CAUSES: Final = 4


def _recorded_blocks(side: Side, start: Reference) -> list[Block]:
    """The curve of a recorded program as a table: verdict, counts, why."""
    rows = [
        (
            gpu_count(one.gpus),
            duration(float(one.step_s)),
            percent(float(one.efficiency)),
            percent(sum(s for cause, s in one.ledger_s.items() if cause.is_exposed) / one.step_s),
            gigabytes(float(one.memory_bytes)),
        )
        for one in side.points
    ]
    wall = next(wall for wall in side.walls if wall.level == EXPLAINED)
    beyond = "" if wall.falls_at_gpus is None else f", not on {wall.falls_at_gpus:,}"
    return [
        Verdict((f"weak scaling {_holds(wall)}{beyond}",), prediction_words(start.prediction)),
        *table(("GPUs", "step", "efficiency", "waits", "memory"), rows, words=0),
        Lines("Why", (_recorded_why(side),)),
        Lines("Batch", (RECORDED_BATCH,)),
    ]


def _recorded_why(side: Side) -> str:
    at, base = f"at {several_gpus(side.causes_at)}", f"{side.base.gpus:,}"
    if not side.losses:
        return f"{at} a step takes no longer than on {base}"
    parts = (f"{one.cause.title} {percent(one.share)}" for one in side.losses[:_RECORDED_CAUSES])
    return f"{at}, beside {base}, is lost to " + ", ".join(parts)
