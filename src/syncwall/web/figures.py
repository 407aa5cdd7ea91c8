"""Parts of charts as Plotly takes them: colours are variables of `colours.css`, such as "--ink";
what stands under `narrow` is laid over the rest on a phone.
"""

from collections.abc import Sequence
from typing import Any


def upright(x: Any, colour: str, width: float = 1.5, dash: str = "solid") -> dict[str, Any]:
    """A line from the bottom to the top."""
    line = {"color": colour, "width": width, "dash": dash}
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def flag(x: Any, text: str, colour: str, **more: Any) -> dict[str, Any]:
    """Words above the chart."""
    place = {"x": x, "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False}
    return place | {"text": text, "font": {"color": colour, "size": 12}} | more


def named_ticks(ticks: Sequence[tuple[float, str]]) -> dict[str, Any]:
    """Marks of an axis with their words."""
    return {"tickvals": [at for at, _ in ticks], "ticktext": [words for _, words in ticks]}
