"""Ranks of a job in pictures: who took longer in which step, and one step in time.

Holds `rank_heat` and `rank_lanes`.
"""

from typing import Any, Final

import numpy as np

from syncwall.explain.traces.job_traces import RankStep, RankSteps
from syncwall.show.draw.svg import (
    WIDTH,
    Axis,
    Drawing,
    Entry,
    legend,
    text_width,
    unit_for,
    value_axis,
)
from syncwall.show.numbers import duration, percent
from syncwall.units import Dimension

_LEFT, _RIGHT, _LANE, _BELOW = 66.0, WIDTH - 6, 26.0, 42.0
_ROWS: Final = 64
_COLUMNS: Final = 100
"""Cells of a heatmap, at most; of several ranks or steps in a cell, the latest is shown."""
_TALL: Final = 14.0
_FULL: Final = 0.3
"""Own time above the median of the ranks, as a share of it, at which a cell has its full colour."""


def rank_heat(found: RankSteps) -> Drawing:
    """A row a rank, a column a step; the darker, the more own time than the median of the ranks."""
    usual = np.percentile(found.own_s, 50, axis=0, method="lower")
    more = found.own_s / np.maximum(usual, 1e-12) - 1
    rows, columns = _parts(len(found.ranks), _ROWS), _parts(len(found.steps), _COLUMNS)
    drawing = Drawing("own time of each rank in each step, beside the median of the ranks")
    shades = [Entry(f"+{share:.0%}", f"f1 shade{_shade(share)}") for share in (0.0, 0.1, 0.2, _FULL)]
    top = legend(drawing, shades, 0.0) + 4
    tall = _TALL if len(rows) <= 24 else 336.0 / len(rows)
    wide = (_RIGHT - _LEFT) / len(columns)
    for number, row in enumerate(rows):
        y = top + number * tall
        if number % max(1, round(12 / tall)) == 0:
            drawing.text(_LEFT - 7, y + tall / 2 + 4, f"rank {found.ranks[row[0]]}", "small", "end")
        for column, steps in enumerate(columns):
            cell = more[np.ix_(row, steps)]
            rank, step = np.unravel_index(int(np.argmax(cell)), cell.shape)
            share = float(cell[rank, step])
            title = (
                f"rank {found.ranks[row[rank]]}, step {found.steps[steps[step]]}: "
                f"{duration(float(found.own_s[row[rank], steps[step]]))}, {percent(share)} more"
            )
            box = (_LEFT + column * wide, y, wide - 0.4, tall - 0.6)
            drawing.rect(*box, f"f1 shade{_shade(share)}", title)
    bottom = top + tall * len(rows)
    for column in (0, len(columns) - 1):
        x = _LEFT + (column + 0.5) * wide
        drawing.text(x, bottom + 14, f"step {found.steps[columns[column][0]]}", "small", "middle")
    drawing.height = bottom + 20
    return drawing


def _parts(count: int, most: int) -> list[Any]:
    return [part for part in np.array_split(np.arange(count), min(count, most)) if len(part)]


def _shade(share: float) -> int:
    return round(10 * min(max(share / _FULL, 0.0), 1.0))


def rank_lanes(found: RankSteps) -> Drawing:
    """One step of some ranks on one clock: collectives, and in them the waiting for others."""
    end_s = max(lane.end_s for lane in found.lanes)
    drawing = Drawing(f"step {found.step} of {len(found.lanes)} ranks in time")
    entries = (
        Entry("own work, or hidden", "f0 pale"),
        Entry("waits for others", "f4"),
        Entry("communicates", "f1"),
    )
    top = legend(drawing, entries, 0.0) + 6
    names = [f"rank {lane.rank}" for lane in found.lanes]
    left = max(_LEFT, *(text_width(name) + 12 for name in names))
    axis = Axis(0.0, end_s, left, _RIGHT)
    bottom = top + _LANE * len(names)
    value_axis(drawing, axis, unit_for(Dimension.SECONDS, end_s), "time", (top, bottom))
    for row, (lane, name) in enumerate(zip(found.lanes, names, strict=True)):
        y = top + row * _LANE
        drawing.text(left - 7, y + _LANE / 2 + 4, name, "strong", "end")
        _lane(drawing, lane, axis, y)
    drawing.height = bottom + _BELOW
    return drawing


def _lane(drawing: Drawing, lane: RankStep, axis: Axis, y: float) -> None:
    start, end = axis.at(lane.start_s), axis.at(lane.end_s)
    drawing.rect(start, y + 3, end - start, _LANE - 6, "f0 pale")
    for one in lane.meetings:
        begin, arrived, done = (axis.at(t) for t in (one.start_s, one.arrived_s, one.end_s))
        waited, moved = one.arrived_s - one.start_s, one.end_s - one.arrived_s
        said = f"{one.kind}: waits {duration(waited)}, then {duration(moved)}"
        drawing.rect(begin, y + 8, arrived - begin, _LANE - 11, "f4", said)
        drawing.rect(arrived, y + 8, done - arrived, _LANE - 11, "f1", said)
