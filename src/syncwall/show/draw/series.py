"""Values of the steps of a run, one after the other.

Holds `step_chart`, and `spark_line`, the same in one line of text.
"""

from collections.abc import Callable, Sequence
from typing import Final

from syncwall.show.draw.axes import Axis, Unit
from syncwall.show.draw.frame import colour, plot_axes
from syncwall.show.draw.svg import WIDTH, Drawing

_LEFT, _RIGHT, _HIGH = 62.0, WIDTH - 16, 150.0
_LEVELS: Final = "▁▂▃▄▅▆▇█"


def step_chart(
    points: Sequence[tuple[int, float]], name: str, text: Callable[[float], str]
) -> Drawing:
    """`name` over the number of the step; one curve, from a little below its least value."""
    drawing = Drawing(f"{name} of steps {points[0][0]:,} to {points[-1][0]:,}")
    values = [value for _, value in points]
    room = (max(values) - min(values)) * 0.08 or abs(values[0]) * 0.05 or 1.0
    x_axis = Axis(points[0][0], max(points[-1][0], points[0][0] + 1), _LEFT, _RIGHT)
    y_axis = Axis(max(min(values) - room, 0.0), max(values) + room, _HIGH + 8, 8.0)
    plain = Unit("", 1.0)
    plot_axes(
        drawing,
        (x_axis, x_axis.ticks(plain), lambda step: f"{step:,.0f}", "step"),
        (y_axis, y_axis.ticks(plain), text, name),
    )
    drawing.curve(
        [(x_axis.at(step), y_axis.at(value)) for step, value in points], f"curve s{colour(0)}"
    )
    drawing.height = y_axis.start + 42
    return drawing


def spark_line(values: Sequence[float], width: int) -> str:
    """The latest `width` values as a row of small columns."""
    shown = list(values)[-width:]
    low, high = min(shown), max(shown)
    step = (high - low) / (len(_LEVELS) - 1) or 1.0
    return "".join(_LEVELS[round((value - low) / step)] for value in shown)
