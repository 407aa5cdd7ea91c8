"""Streams over time as one line each, for the terminal.

Holds `strips`.
"""

from syncwall.timeline.streams import Interval

_LEVELS = " ▁▂▃▄▅▆▇█"


def strips(intervals: list[Interval], width: int = 64) -> dict[str, str]:
    """For computation and for communication, how busy each part of the time is."""
    end = max(interval.end_s for interval in intervals)
    lanes = {"compute": [0.0] * width, "network": [0.0] * width}
    for interval in intervals:
        lane = lanes["compute" if interval.stream == "compute" else "network"]
        _fill(lane, interval.start_s / end * width, interval.end_s / end * width)
    return {name: "".join(map(_level, busy)) for name, busy in lanes.items()}


def _fill(lane: list[float], start: float, end: float) -> None:
    """Add the part of each cell that lies between `start` and `end`, both in cells."""
    for cell in range(int(start), min(int(end) + 1, len(lane))):
        lane[cell] += max(0.0, min(end, cell + 1) - max(start, cell))


def _level(busy: float) -> str:
    return _LEVELS[min(len(_LEVELS) - 1, round(busy * (len(_LEVELS) - 1)))]
