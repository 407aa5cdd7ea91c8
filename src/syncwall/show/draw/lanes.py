"""One micro batch in time: a lane for each stream, whole and one layer of it.

Holds `whole_lanes`, `layer_lanes` and `layer_windows`. What is thinner than half a pixel is drawn
together with what is beside it, so that a picture stays small however many layers there are.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from syncwall.show.draw.svg import (
    SMALL_FONT,
    WIDTH,
    Axis,
    Drawing,
    Entry,
    legend,
    text_width,
    unit_for,
    value_axis,
)
from syncwall.timeline.streams import Interval
from syncwall.units import Dimension

_LEFT, _RIGHT, _LANE, _BELOW = 66.0, WIDTH - 6, 26.0, 42.0
_LAYERS: Final = 4
"""Times that an operation is repeated if it belongs to a layer."""


@dataclass(frozen=True)
class TimeRange:
    """A part of the time."""

    name: str
    start_s: float
    end_s: float


def whole_lanes(intervals: Sequence[Interval]) -> Drawing:
    """All of it, with where each phase starts."""
    end = max(interval.end_s for interval in intervals)
    drawing, lanes, axis, top = _frame(intervals, TimeRange("one micro batch", 0.0, end), room=14.0)
    for row, stream in enumerate(lanes):
        for start, stop, kind in _cells(lanes[stream], axis):
            drawing.rect(start, top + row * _LANE + 3, stop - start, _LANE - 6, kind)
    for phase, start_s in _phases(intervals):
        x = axis.at(start_s)
        drawing.line((x, top - 14), (x, top + _LANE * len(lanes)), "axis")
        drawing.text(x + 3, top - 4, phase, "small")
    return drawing


def layer_lanes(intervals: Sequence[Interval], window: TimeRange) -> Drawing:
    """What `window` holds, operation by operation, with their names."""
    inside = [one for one in intervals if one.end_s > window.start_s and one.start_s < window.end_s]
    drawing, lanes, axis, top = _frame(inside, window)
    for row, stream in enumerate(lanes):
        for one in lanes[stream]:
            start = axis.at(one.start_s - window.start_s)
            wide = axis.at(one.end_s - window.start_s) - start
            y = top + row * _LANE
            drawing.rect(start, y + 3, max(wide - 0.6, 0.4), _LANE - 6, one.cause.colour, one.name)
            if text_width(one.name, SMALL_FONT) < wide - 4:
                words = (start + wide / 2, y + _LANE / 2 + 4, one.name, "small inside", "middle")
                drawing.text(*words)
    return drawing


def layer_windows(intervals: Sequence[Interval]) -> list[TimeRange]:
    """One layer in the middle of the forward and of the backward pass, where layers repeat."""
    found = []
    for phase in ("forward", "backward"):
        starts: dict[str, list[float]] = defaultdict(list)
        for one in intervals:
            if one.phase == phase and one.stream == "compute":
                starts[one.name].append(one.start_s)
        repeated = [times for times in starts.values() if len(times) >= _LAYERS]
        if repeated:
            once = min(repeated, key=len)  # others stand several times in a layer
            middle = len(once) // 2
            found.append(TimeRange(f"one layer, {phase}", once[middle - 1], once[middle]))
    return found


Lanes = dict[str, list[Interval]]


def _frame(
    intervals: Sequence[Interval], window: TimeRange, room: float = 0.0
) -> tuple[Drawing, Lanes, Axis, float]:
    """A drawing with its legend, names of lanes and axis; `room` above the lanes."""
    lanes: Lanes = {"compute": []}
    for one in intervals:
        lanes.setdefault(str(one.stream), []).append(one)
    drawing = Drawing(f"{window.name} in time: {', '.join(lanes)}")
    left = max(_LEFT, *(text_width(stream) + 12 for stream in lanes))
    axis = Axis(0.0, window.end_s - window.start_s, left, _RIGHT)
    top = legend(drawing, _entries(intervals), 0.0) + 6 + room
    bottom = top + _LANE * len(lanes)
    unit = unit_for(Dimension.SECONDS, axis.most)
    for row, stream in enumerate(lanes):
        y = top + row * _LANE
        drawing.rect(left, y + 1, _RIGHT - left, _LANE - 2, "panel")
        drawing.text(left - 7, y + _LANE / 2 + 4, stream, "strong", "end")
    value_axis(drawing, axis, unit, "time", (bottom, bottom))
    drawing.height = bottom + _BELOW
    return drawing, lanes, axis, top


def _entries(intervals: Sequence[Interval]) -> list[Entry]:
    causes = sorted({one.cause for one in intervals}, key=lambda cause: cause.order)
    names = {"communication" if one.is_exposed else str(one): one.colour for one in causes}
    return [Entry(name, kind) for name, kind in names.items()]


def _cells(lane: Sequence[Interval], axis: Axis) -> list[tuple[float, float, str]]:
    """Boxes from, to and their classes: what most of each cell is spent on."""
    left = axis.at(0.0)
    cells = int(_RIGHT - left) * 2
    busy: list[dict[str, float]] = [defaultdict(float) for _ in range(cells)]
    wide = axis.most / cells
    for one in lane:
        first, last = int(one.start_s / wide), min(int(one.end_s / wide), cells - 1)
        for cell in range(first, last + 1):
            shared = min(one.end_s, (cell + 1) * wide) - max(one.start_s, cell * wide)
            busy[cell][one.cause.colour] += max(shared, 0.0) / wide
    boxes, at = [], 0
    for kind, alike in groupby(map(_shade, busy)):
        count = len(list(alike))
        if kind:
            boxes.append((left + at / 2, left + (at + count) / 2, kind))
        at += count
    return boxes


def _shade(parts: dict[str, float]) -> str:
    """Classes of a cell; pale if less than half of it is busy."""
    share = sum(parts.values())
    if share < 0.04:
        return ""
    return max(parts, key=lambda kind: parts[kind]) + (" pale" if share < 0.5 else "")


def _phases(intervals: Sequence[Interval]) -> list[tuple[str, float]]:
    """Each phase of the computation and when it starts, if there is room to say so."""
    end = max(one.end_s for one in intervals)
    found: list[tuple[str, float]] = []
    for one in intervals:
        if str(one.stream) == "compute" and str(one.phase) not in [name for name, _ in found]:
            found.append((str(one.phase), one.start_s))
    room = 60.0 / (_RIGHT - _LEFT) * end
    after = [*(start for _, start in found[1:]), end]
    return [one for one, then in zip(found, after, strict=True) if one[1] + room < then]
