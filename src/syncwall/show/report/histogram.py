"""How values are spread: a histogram with P10, P50 and P90.

Holds `span_histogram` and `span_unit`.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from syncwall.show.report.axes import Axis, Unit
from syncwall.show.report.svg import WIDTH, Drawing
from syncwall.show.spans import span

_HEIGHT, _TOP, _BELOW, _LEFT, _RIGHT = 150.0, 20.0, 44.0, 12.0, WIDTH - 12
_BINS: Final = 36
_UNITS: Final = ((2 * 86400.0, Unit("days", 86400.0)), (7200.0, Unit("h", 3600.0)),
                 (120.0, Unit("min", 60.0)), (0.0, Unit("s")))  # fmt: skip


def span_histogram(
    seconds: Sequence[float], marks: Sequence[tuple[str, float]], name: str
) -> Drawing | None:
    """How often each length comes, with `marks` at P10, P50 and P90; None if all are the same."""
    values = np.asarray([value for value in seconds if np.isfinite(value)], float)
    if len(values) < 2 or values.max() - values.min() < 1e-9 * values.max():
        return None
    counts, edges = np.histogram(values, _BINS)
    axis = Axis(float(edges[0]), float(edges[-1]), _LEFT, _RIGHT)
    unit = span_unit(float(edges[-1]))
    said = ", ".join(f"{mark} {span(at)}" for mark, at in marks)
    drawing = Drawing(f"{name} of {len(values):,} simulated jobs: {said}")
    bottom = _TOP + _HEIGHT
    for value in axis.ticks(unit):
        x = axis.at(value)
        drawing.line((x, bottom), (x, bottom + 4), "axis")
        drawing.text(x, bottom + 17, unit.text(value), anchor="middle")
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        tall = _HEIGHT * 0.92 * float(count) / float(counts.max())
        left, right = axis.at(float(low)), axis.at(float(high))
        note = f"{span(float(low))} to {span(float(high))}: {count / len(values):.1%} of the jobs"
        drawing.rect(left, bottom - tall, right - left - 0.8, tall, "f0", note)
    drawing.line((_LEFT, bottom), (_RIGHT, bottom), "axis")
    for (mark, at), anchor in zip(marks, ("end", "middle", "start"), strict=True):
        if np.isfinite(at):
            x = axis.at(at)
            drawing.line((x, _TOP - 4), (x, bottom), "equal")
            drawing.text(x, _TOP - 8, mark, "small strong", anchor)
    drawing.text((_LEFT + _RIGHT) / 2, bottom + 36, f"{name}, {unit.name}", anchor="middle")
    drawing.height = bottom + _BELOW
    return drawing


def span_unit(most_s: float) -> Unit:
    """The unit in which times up to `most_s` are written."""
    return next(unit for least, unit in _UNITS if most_s >= least)
